/* capture.h - what the ranks of a training script do, as `foreline capture` writes it.
 *
 * A folder: capture.json says which ranks there are, the groups that the script made, and which
 * ranks are alike; each class of these has a file with one period of a rank: operators, with what
 * they compute and move, and communication, seen from the rank: groups are counted as the rank made
 * them, peers by their distance in the group. docs/how-to/capture.md has the keys. */
#ifndef CORE_DATA_CAPTURE_H
#define CORE_DATA_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"

enum { CAPTURE_DIMENSIONS = 4, CAPTURE_KEY = 16 };

/* What the kernel of an operator is. */
enum capture_kernel { CAPTURE_PASS, CAPTURE_PRODUCT, CAPTURE_ATTENTION, CAPTURE_KERNELS };

/* A kind of call: name, shapes and types. */
struct capture_operator {
    char *name, *key; /* "aten.mm.default"; of its call, by which tables of times know it */
    uint32_t kernel;  /* enum capture_kernel */
    uint32_t type;    /* enum data_type of its floating numbers; DATA_ANY: it has none */
    double *dims;     /* [n_dims] product: batch, m, n, k; attention: batch and heads together,
                       * tokens of queries, of keys, channels of a head; of a pass none */
    size_t n_dims;
    double times, flop; /* products of these dimensions in it; all its FLOP */
    int64_t bytes;      /* read and written */
    bool backward;      /* of attention */
};

/* What an entry of a period does. */
enum capture_kind { CAPTURE_COMPUTE, CAPTURE_WAIT, CAPTURE_SEND, CAPTURE_RECV, CAPTURE_COLLECTIVE };

struct capture_op {
    uint8_t kind;                      /* enum capture_kind */
    uint8_t op_kind, reduction, phase; /* enum op_kind of a collective, op_reduction, op_phase */
    uint32_t operation, module;        /* of COMPUTE: into operators, modules */
    uint32_t id;                       /* of communication, and of WAIT: whose; counted from 0 */
    uint32_t group;    /* of communication: the so-manieth that the rank is a member of */
    uint32_t distance; /* of messages: places from the own one on, around the group */
    int64_t tag;
    int64_t bytes;  /* of communication as nccl-tests count; COMPUTE: held by the rank */
    uint32_t calls; /* of a collective: in a row, each of `bytes`; 0 is 1, too */
    bool timed;     /* COMPUTE: a trace measured it, `seconds` */
    double seconds;
    uint32_t *after; /* [afters] ids of the communication that it waits for on the device, while the
                      * rank goes on; of communication */
    size_t afters;
};

struct capture_class {
    char *file; /* name in the folder */
    size_t ranks;
    uint32_t *rank; /* [ranks] */
    uint32_t steps; /* of the script, in the period */
    int64_t weight_bytes, gradient_bytes, state_bytes, peak_bytes;
    size_t operators, modules, ops;
    struct capture_operator *operation; /* [operators] */
    char **module;                      /* [modules] paths; the first is "": of none */
    struct capture_op *op;              /* [ops] */
    size_t dry;
    double *dry_s; /* [dry] measured: before each communication and behind the last; 0: not done */
};

struct capture {
    size_t ranks;
    char *command, *torch, *device;
    bool fake;          /* tensors held no numbers */
    bool ideal;         /* a trace's collectives took what the links allow, not what NCCL attains */
    char **device_name; /* [ranks] where a trace's ranks ran; NULL: not said */
    size_t groups;
    size_t *group_start; /* [groups + 1] */
    uint32_t *member;    /* of group g: member[group_start[g] ..), in its own order */
    size_t classes;
    struct capture_class *class; /* [classes] */
    uint32_t *class_of;          /* [ranks] */
};

/* Is it a folder with a capture? */
bool capture_is(const char *folder);
/* Nothing of a file is trusted: all indices of *out are within what they are into, all groups have
 * members, every rank has a class. STATUS_IO, STATUS_PARSE, STATUS_INVALID, STATUS_NOMEM. */
enum status capture_read(const char *folder, struct capture *out) MUST_CHECK;
struct json_at;
/* What capture.json and a class's file have, into a zeroed *c; whoever calls frees it also on
 * failure, by capture_free(). */
enum status capture_get_head(const struct json_at *root, struct capture *c) MUST_CHECK;
enum status capture_get_class(const struct json_at *root, struct capture_class *c) MUST_CHECK;
void capture_free(struct capture *c); /* accepts {0}; leaves {0} */

#endif
