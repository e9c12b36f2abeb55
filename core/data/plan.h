/* plan.h - a decision: which devices run which ops, and in which order of microbatches.
 *
 * A plan refers to its model and platform by the names given on the command line and holds
 * indices into both; it is meaningless without them. Every op is in exactly one stage; an op's
 * producers are in the same or an earlier stage.
 * One iteration trains `microbatches` x `microbatch_size` samples; microbatch m runs on replica
 * m mod replicas of each stage (of dualpipe's second half of stages on the one beside it). With
 * context parallelism of degree c a stream is c neighbouring replicas, and microbatch m runs on all
 * those of stream m mod (replicas / c).
 * Stages with the same devices are a team, a "pipeline rank" in options and documents: each of its
 * ranks holds all of them (virtual stages). The schedule says which: with t teams stage s belongs
 * to team s mod t, or is in a V (schedule_team()). */
#ifndef CORE_DATA_PLAN_H
#define CORE_DATA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/operators.h"
#include "core/strategy/framework.h"
#include "core/strategy/strategy.h"

struct model;
struct model_op;
struct topology;
struct provenance;

struct plan_stage {
    size_t ops;
    uint32_t *op; /* [ops] ascending */
    size_t devices;
    uint32_t *device; /* [devices] replica-major: replicas x tensor_parallel */
#include "core/strategy/strategy_stage.def" /* replicas, tensor_parallel, ...; as a whole: own */
};

/* A tensor changes the form in which devices hold it: what is communicated for it in the forward,
 * and in the place of that in the backward. */
struct plan_conversion {
    uint8_t forward, backward; /* enum collective_kind, COLLECTIVE_KINDS: nothing */
    bool shared;               /* a parameter: once for all microbatches of an iteration */
    int64_t bytes;             /* of the whole tensor; of one sample unless it is shared */
    uint32_t tensor;           /* of plan.operators; UINT32_MAX: not said */
};

/* Ops on shards, and before them the conversions of what they read. */
struct plan_step {
    size_t ops; /* behind those of the step before */
    size_t conversions;
    struct plan_conversion *conversion; /* [conversions] */
};

/* What of an op is divided over the devices, else each does, or has, all of it; and what of its
 * parameters a device keeps. */
struct plan_shard {
    bool work, output;
    int64_t parameter_bytes;
};

struct plan {
    char *model, *platform; /* name with overrides, or path (of a plan that was read: as seen from
                             * its folder); owned */
    char *schedule;         /* name in core/schedule/schedule.h; owned */
    char *optimizer;        /* as in core/strategy/optimizer.h; owned */
    char *algorithm;        /* what made the plan; owned, may be NULL */
    uint64_t seed;
    uint32_t microbatches, microbatch_size;
#include "core/strategy/strategy_plan.def" /* zero, sequence_parallel, ...; as a whole: shared */
    double objective_s; /* the algorithm's own objective, seconds per microbatch; NAN if none */
    /* Who issues the kernels, as plan_set_framework() was given it, and what that says; NULL:
     * foreline. */
    char *framework; /* owned */
    struct framework issue;
    size_t stages;
    struct plan_stage *stage; /* [stages] */
    /* Strategies in which every op of the one stage says what its shards do (plan_steps.c); 0: they
     * do as ops' `tensor` says. One microbatch, or two, of which one computes while the other
     * communicates. */
    size_t steps;
    struct plan_step *step;   /* [steps] */
    struct plan_shard *shard; /* [ops of the model] */
    struct operators
        operators; /* what is executed in these steps; empty: it can only be simulated */
};

/* The fields "steps" and "operators" of a plan's object, absent: none; and for plans that have
 * some: what a plan must be, STATUS_INVALID; a copy of them into one that has none; and releasing
 * them. */
enum status plan_get_steps(const struct json_at *root, const struct model *m,
                           struct plan *p) MUST_CHECK;
void plan_put_steps(struct json_writer *w, const struct plan *p, const struct model *m);
enum status plan_check_steps(const struct plan *p, const struct model *m) MUST_CHECK;
enum status plan_copy_steps(const struct plan *p, struct plan *out) MUST_CHECK;
void plan_free_steps(struct plan *p);

/* Is `found` the file that the plan was made with, as "model" or "platform" (`key`)? What is no
 * file, or was written without a hash, is taken as it is. STATUS_PARSE when it has changed
 * since. */
enum status plan_check_file(const struct json_document *d, const char *key,
                            const char *found) MUST_CHECK;
/* Which model and platform a plan file is about; both malloc'd; path_find() says where the
 * files are. */
enum status plan_references(const struct json_document *d, char **model,
                            char **platform) MUST_CHECK;
/* Read against both; unknown ops and devices, ops in no stage or in two, and devices used twice
 * are STATUS_PARSE with the place in the file. */
enum status plan_read(const struct json_document *d, const struct model *m,
                      const struct topology *t, struct plan *out) MUST_CHECK;
/* Knobs of a plan that was read from `d` and change nothing: a line each, "warning:
 * FILE:LINE:COLUMN: ...". */
enum status plan_warn(const struct json_document *d, const struct plan *p, const struct model *m,
                      FILE *out) MUST_CHECK;
/* Model and platform are paths from the current directory, or names; the file refers to them from
 * its own folder (core/base/path.h), with their SHA-256. */
enum status plan_write(const struct plan *p, const struct model *m, const struct topology *t,
                       const char *path, const struct provenance *by) MUST_CHECK;
/* Are the stages' ops, one stage after the other, the model's in its order? O(stages). */
bool plan_in_order(const struct plan *p);
/* Stages on each set of devices: those that run where the first one does. O(stages). */
uint32_t plan_chunks(const struct plan *p);
/* Team of every stage, numbered by their first stages: team_of[stages]; returns how many there are.
 * Two stages are on the same team when their first devices are the same. O(stages^2). */
uint32_t plan_teams(const struct plan *p, uint32_t *team_of);
/* The invariants above, and that no device serves two teams; STATUS_INVALID. plan_read() includes
 * it. */
enum status plan_check(const struct plan *p, const struct model *m,
                       const struct topology *t) MUST_CHECK;
/* Which ops of a stage a backward makes again, and in which units: the ops of a unit are made again
 * when the backward comes to the last of them, or to the last reader of what is not kept.
 *
 *   unit  [s->ops] out: 0: the op is not made again; else its unit, ascending, ops in a row
 *   kept  [s->ops] out: the output of the op stays from forward to backward: it is not made again,
 *         or read outside of its unit, by this stage or another
 *
 * Selective: every op that remembers at least as much besides its output as that is, by itself, or
 * the neighbours that are of the stage's modules together. Full: `recompute_unit` layers together;
 * layers in blocks apart from ops outside of blocks, and of these one by itself only if it
 * remembers more than its output: heads and embeddings are not made again. Only recompute, its
 * members, ops and op of *s are read. O(ops log ops). */
void plan_units(const struct plan_stage *s, const struct model *m, uint32_t *unit, bool *kept);
/* When: needed[k], of ops with unit[k] > 0, is the position whose backward op k is made again
 * before.
 *
 *   needed [s->ops] out
 *
 * O(ops log ops). */
void plan_needs(const struct plan_stage *s, const struct model *m, const uint32_t *unit,
                const bool *kept, size_t *needed);

/* Is the op in one of the modules, as a whole? *discards: in none whose output stays. */
bool plan_module_has(uint32_t modules, const struct model *m, uint32_t op, bool *discards);
/* What a stage that selects modules makes again of an op that it does not make again as a whole:
 * bytes that are not kept, work and traffic of making them; per sample of the whole op. */
struct plan_part {
    int64_t bytes;
    double flop, traffic;
};
struct plan_part plan_part_again(const struct plan_stage *s, const struct model *m, uint32_t op);
/* Those that the model has ops of. O(ops). */
uint32_t plan_modules_of(const struct model *m);
/* Has the model ops of each of the stage's modules? STATUS_INVALID. O(ops). */
enum status plan_check_modules(const struct plan_stage *s, const struct model *m) MUST_CHECK;

/* The layers that `recompute_layers` counts: those in blocks, or all of a stage without blocks.
 * Only ops and op of *s are read. O(ops). */
uint32_t plan_stage_layers(const struct plan_stage *s, const struct model *m);
enum status plan_copy(const struct plan *p, struct plan *out) MUST_CHECK;
void plan_free(struct plan *p); /* accepts {0}; leaves {0} */

/* "megatron:host=0.5", or NULL (core/strategy/framework.h). STATUS_INVALID with the names;
 * STATUS_NOMEM. */
enum status plan_set_framework(struct plan *p, const char *text) MUST_CHECK;
/* NULL: foreline. Borrowed of the plan. */
static inline const struct framework *plan_framework(const struct plan *p)
{
    return p->framework ? &p->issue : NULL;
}

/* Bytes of a number in sums of gradients. */
int64_t plan_reduce_bytes(const struct plan *p, const struct model *m);

enum { PLAN_VERSION = 1, PLAN_MICROBATCHES = 10000000 /* of an iteration, at most */ };
extern const char plan_format[]; /* "foreline-plan" */

static inline uint32_t plan_streams(const struct plan_stage *s)
{
    return strategy_streams(&s->own);
}
/* At least so many microbatches, and equally many for all streams of every stage, as schedules
 * without flush want; PLAN_MICROBATCHES where that would be more. O(stages). */
uint32_t plan_even_microbatches(const struct plan *p, uint32_t least);
/* Can every stage divide the sequences of the model by its context_parallel? STATUS_UNSUPPORTED
 * names the op that cannot. O(ops * stages). */
enum status plan_check_context(const struct plan *p, const struct model *m) MUST_CHECK;

#endif
