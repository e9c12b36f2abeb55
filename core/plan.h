/* plan.h - a decision: which devices run which ops, and in which order of microbatches.
 *
 * A plan refers to its model and platform by the names given on the command line and holds
 * indices into both; it is meaningless without them. Every op is in exactly one stage; an op's
 * producers are in the same or an earlier stage.
 * One iteration trains `microbatches` x `microbatch_size` samples; microbatch m runs on replica
 * m mod replicas of each stage. With context parallelism of degree c a stream is c neighbouring
 * replicas, and microbatch m runs on all those of stream m mod (replicas / c).
 * Stages with the same devices are a team: its ranks hold all of them (virtual stages). With t
 * teams stage s belongs to team s mod t; the schedule must allow it. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/json.h"

struct model;
struct model_op;
struct topology;
struct provenance;

/* What a stage keeps from forward to backward. */
enum plan_recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* only outputs: what an op remembers besides is made again (attention's
                          * probabilities). Korthikanti et al., MLSys 2023 */
    RECOMPUTE_FULL,      /* only the stage's inputs: the forward runs again. Chen et al., 2016 */
    RECOMPUTE_KINDS
};
extern const char *const plan_recompute_names[RECOMPUTE_KINDS];
/* Is the op's forward made again in the backward? Selectively: of ops that remember at least as
 * much besides their output as it is. */
bool plan_remakes(enum plan_recompute recompute, const struct model_op *o);

/* How the replicas that share a sequence bring keys and values to the tokens that look at them. */
enum plan_exchange {
    EXCHANGE_RING,      /* from neighbour to neighbour, while attention computes with what is there
                         * already. Liu et al., Ring Attention, 2023 */
    EXCHANGE_ALLGATHER, /* all of them before attention. Dubey et al., Llama 3, 2024, section 3.3 */
    EXCHANGE_ALLTOALL, /* all tokens of a part of the heads instead. Jacobs et al., Ulysses, 2023 */
    EXCHANGE_KINDS
};
extern const char *const plan_exchange_names[EXCHANGE_KINDS];

struct plan_stage {
    size_t ops;
    uint32_t *op; /* [ops] ascending */
    size_t devices;
    uint32_t *device; /* [devices] replica-major: replicas x tensor_parallel */
    uint32_t replicas, tensor_parallel;
    uint32_t expert_parallel;  /* experts are spread over so many neighbouring replicas; divides
                               * them; 1: every replica has all */
    uint32_t context_parallel; /* so many neighbouring replicas share every sequence, each with as
                                * many of its tokens; divides replicas; 1: none does */
    enum plan_recompute recompute;
};

struct plan {
    char *model, *platform; /* name with overrides, or path (of a plan that was read: as seen from
                             * its folder); owned */
    char *schedule;         /* name in core/schedule.h; owned */
    char *optimizer;        /* "adam" or "sgd"; owned */
    char *algorithm;        /* what made the plan; owned, may be NULL */
    uint64_t seed;
    uint32_t microbatches, microbatch_size;
    uint32_t zero; /* 0: none; 1, 2, 3: optimizer state, + gradients, + parameters are sharded
                    * over the replicas (ZeRO, FSDP) */
    int64_t bucket_bytes; /* gradients are summed in buckets of about this size while the last
                             * backward runs; 0: in one piece after it */
    uint32_t reduce_bits; /* of a number in sums of gradients and of tensor parallelism: 16 (bf16),
                             * 32 (fp32); 0: as in the model */
    enum plan_exchange context_exchange; /* where context_parallel > 1 */
    bool sequence_parallel; /* with tensor parallelism: Korthikanti et al., MLSys 2023 */
    double objective_s;     /* the algorithm's own objective, seconds per microbatch; NAN if none */
    size_t stages;
    struct plan_stage *stage; /* [stages] */
};

/* Is `found` the file that the plan was made with, as "model" or "platform" (`key`)? What is no file,
 * or was written without a hash, is taken as it is. STATUS_PARSE when it has changed since. */
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
/* Model and platform are paths from the current directory, or names; the file refers to them from
 * its own folder (core/path.h), with their SHA-256. */
enum status plan_write(const struct plan *p, const struct model *m, const struct topology *t,
                       const char *path, const struct provenance *by) MUST_CHECK;
/* Team of every stage, numbered by their first stages: team_of[stages]; returns how many there are.
 * Two stages are on the same team when their first devices are the same. O(stages^2). */
uint32_t plan_teams(const struct plan *p, uint32_t *team_of);
/* The invariants above, and that no device serves two teams; STATUS_INVALID. plan_read() includes
 * it. */
enum status plan_check(const struct plan *p, const struct model *m,
                       const struct topology *t) MUST_CHECK;
enum status plan_copy(const struct plan *p, struct plan *out) MUST_CHECK;
void plan_free(struct plan *p); /* accepts {0}; leaves {0} */

/* Bytes of a number in those sums. */
int64_t plan_reduce_bytes(const struct plan *p, const struct model *m);

enum { PLAN_VERSION = 1 };
extern const char plan_format[]; /* "foreline-plan" */

/* Replicas that have microbatches of their own, context_parallel of them each. */
static inline uint32_t plan_streams(const struct plan_stage *s)
{
    return s->replicas / s->context_parallel;
}
/* Does any stage divide its sequences? */
bool plan_has_context(const struct plan *p);
/* Can every stage divide the sequences of the model by its context_parallel? STATUS_UNSUPPORTED
 * names the op that cannot. O(ops * stages). */
enum status plan_check_context(const struct plan *p, const struct model *m) MUST_CHECK;

#endif
