/* checkpoint.h - the state of all ranks of a run in files, to go on from later.
 *
 *   DIR/step-00000010/rank-0003.ckpt  after 10 steps, written by rank 3
 *   DIR/step-00000010/manifest.json   written last, by the launcher: now the step counts
 *
 * Every file appears complete or not at all (core/base/file.h). A step without manifest is never
 * read. Directories of steps and files of ranks that are symbolic links are not followed, and only
 * what a run wrote, by name and contents, is removed.
 *
 * A rank's file is a struct checkpoint_head, a table of struct checkpoint_array, the SHA-256 of
 * these two, and the arrays one after the other; numbers in the byte order of the machine. */
#ifndef EXEC_CHECKPOINT_H
#define EXEC_CHECKPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/device.h"

struct provenance;

enum { CHECKPOINT_PATH = 4096, CHECKPOINT_ARRAYS = 1 << 16, CHECKPOINT_KEPT = 2 };

/* What a checkpoint and a run must agree on. */
struct checkpoint_key {
    uint8_t model[DIGEST]; /* ops, shapes, edges */
    uint8_t plan[DIGEST];  /* what each rank holds, seed, microbatches and their size */
    char optimizer[16];
    uint32_t ranks;
    uint32_t parts; /* enum checkpoint_parts */
};

/* Which part of what ZeRO divides a rank keeps: the ring's, also where nothing is divided, or that
 * of NCCL's own collectives (transport.h: part). */
enum checkpoint_parts { PARTS_RING, PARTS_NCCL };

/* Schedule, devices and predicted times do not matter. own: collectives are NCCL's own.
 * STATUS_NOMEM. */
enum status checkpoint_key(const struct program *p, const struct model *m, bool own,
                           struct checkpoint_key *out) MUST_CHECK;
/* STATUS_INVALID says what differs; `path` begins the message. */
enum status checkpoint_match(const struct checkpoint_key *found,
                             const struct checkpoint_key *wanted, const char *path) MUST_CHECK;

/* ---- files of ranks */

extern const char checkpoint_magic[8];
struct checkpoint_head {
    char magic[8];
    uint32_t version, order; /* order: CHECKPOINT_ORDER */
    uint32_t rank, arrays;
    uint64_t step;
    struct checkpoint_key key;
};

struct checkpoint_array {
    uint32_t stage, kind; /* struct device_state */
    uint64_t bytes;
    uint8_t digest[DIGEST];
};

/* Head and table of an open file, whose position is then that of the first array; *array is
 * malloc'd. `path` is for messages. STATUS_PARSE for whatever is not right, STATUS_NOMEM. */
enum status checkpoint_read_head(FILE *f, const char *path, struct checkpoint_head *head,
                                 struct checkpoint_array **array,
                                 uint8_t digest[DIGEST]) MUST_CHECK;

/* One rank's share of a checkpoint, written or to be read. */
struct checkpoint_part {
    const char *step_directory;
    uint32_t rank;
    uint64_t step;
    struct checkpoint_key key;
    const struct device *device;
    void *device_self;
    _Atomic uint64_t *bytes; /* grows with every array; another thread may look */
    uint8_t digest[DIGEST];  /* of head and table, and so of everything */
};

/* Write part->device's state and set part->digest; makes the directory. STATUS_UNSUPPORTED when the
 * device has no state, STATUS_IO, STATUS_NOMEM. */
enum status checkpoint_save(struct checkpoint_part *part) MUST_CHECK;
/* Read it into the device; step and digest must be as in *part. STATUS_PARSE when the file is
 * damaged, STATUS_INVALID when it is another run's. */
enum status checkpoint_load(const struct checkpoint_part *part) MUST_CHECK;

/* ---- manifests */

struct checkpoint {
    char directory[CHECKPOINT_PATH]; /* of the step */
    uint64_t step;
    struct checkpoint_key key;
    uint8_t *digest; /* [key.ranks * DIGEST] of every rank's file; owned */
};

/* DIR/step-N of a step. STATUS_INVALID: the path is too long. */
enum status checkpoint_directory(const char *dir, uint64_t step,
                                 char path[CHECKPOINT_PATH]) MUST_CHECK;
/* The newest complete checkpoint in `dir`, or the one that `dir` itself is. STATUS_IO when there is
 * none, STATUS_PARSE. */
enum status checkpoint_find(const char *dir, struct checkpoint *out) MUST_CHECK;
/* The one in this directory of a step. */
enum status checkpoint_read(const char *step_directory, struct checkpoint *out) MUST_CHECK;
/* Write the manifest: the step counts from now on. */
enum status checkpoint_commit(const struct checkpoint *c, const struct provenance *by) MUST_CHECK;
/* Remove steps up to `last` without manifest, and all complete ones but the newest CHECKPOINT_KEPT.
 * What cannot be removed stays. */
void checkpoint_clean(const char *dir, uint64_t last);
void checkpoint_free(struct checkpoint *c); /* accepts {0}; leaves {0} */

#endif
