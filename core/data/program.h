/* program.h - a plan lowered to what each rank does: the narrow waist every engine runs.
 *
 * Semantics (docs/reference/program.md):
 *   - ops of a rank are issued in list order; compute ops (FORWARD ... UPDATE) run one at a time in
 *     that order; communication runs beside them;
 *   - an op starts when the ops it depends on (earlier ones of the same rank) have completed;
 *   - SEND and RECV match by (source, destination, tag); receives are pre-posted: data flows when
 *     the sender's op starts; transfers of one directed pair of ranks go one after the other in the
 *     sender's list order;
 *   - a collective starts when every member's op may start, and ends for all members together;
 *   - in a captured program nothing is pre-posted: data flows when both ends' ops may start. */
#ifndef CORE_DATA_PROGRAM_H
#define CORE_DATA_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/operators.h"
#include "core/schedule/op_kind.h"
#include "core/strategy/strategy.h"

struct provenance;

/* What collectives that reduce make of the members' numbers. */
enum op_reduction { REDUCTION_SUM, REDUCTION_AVERAGE, REDUCTION_MIN, REDUCTION_MAX, REDUCTIONS };
extern const char *const op_reduction_names[REDUCTIONS]; /* "sum", "avg", "min", "max" */

/* What an op communicates for: exposed time is accounted by it. */
enum op_purpose {
    FOR_PIPELINE, /* activations and their gradients between stages */
    FOR_DATA,     /* gradients over replicas */
    FOR_TIES,     /* gradients of tied weights */
    FOR_SHARDS,   /* parameters that ZeRO keeps sharded over replicas */
    FOR_TENSOR,   /* activations inside a stage, tensor parallelism */
    FOR_EXPERTS,  /* tokens to experts and back */
    FOR_CONTEXT,  /* keys and values between the parts of a sequence, and their gradients */
    FOR_HOST,     /* what is offloaded to the host's memory, and comes back */
    FOR_NORM,     /* squares of gradients of all ranks, for clipping: two fp32 of each rank */
    OP_PURPOSES
};
extern const char *const op_purpose_names[OP_PURPOSES]; /* in files: "pipeline", "data", ... */
extern const char *const op_purpose_words[OP_PURPOSES]; /* "pipeline transfers", ... */

/* What the operators of a COMPUTE are part of. */
enum op_phase { IN_FORWARD, IN_BACKWARD, IN_UPDATE, OP_PHASES };
extern const char *const op_phase_names[OP_PHASES]; /* "forward", "backward", "update" */

enum { PROGRAM_NONE = UINT32_MAX };

struct program_op {
    uint8_t kind; /* enum op_kind */
    /* enum op_purpose; of communication. FORWARD, BACKWARD: FOR_PIPELINE, else that of the
     * collectives just before it which it computes beside (op_is_beside()) */
    uint8_t purpose;
    /* SEND, RECV: carries gradients; collective before a pass: of a backward; COPY: to the
     * device, else to the host */
    bool backward;
    uint8_t part;        /* pass: 0: the whole pass; k >= 1: its k-th part (program_part_bucket());
                   * collective of ZeRO 2, 3: that of bucket part - 1 */
    uint8_t reduction;   /* enum op_reduction, of collectives that reduce */
    uint8_t phase;       /* enum op_phase, of COMPUTE */
    uint32_t stage;      /* own stage */
    uint32_t microbatch; /* PROGRAM_NONE for what belongs to the iteration */
    uint32_t peer;       /* SEND, RECV: other rank; collective: group */
    uint32_t peer_stage; /* SEND, RECV: stage at the other end */
    uint32_t tag;        /* SEND, RECV: unique per (source, destination) in an iteration;
                          * COMPUTE: its place in the rank's list;
                          * ALLREDUCE of tied weights: the op that owns them; of a stage that is
                          * `stepped` the step of a pass, the tensor that a collective converts */
    uint32_t match;      /* op index: SEND <-> RECV; collective: next member's op, cyclic */
    uint32_t channel;    /* SEND, RECV: dense id of the directed pair; else PROGRAM_NONE */
    uint32_t count;      /* collective: calls in a row, each of `bytes`; >= 1 */
    uint32_t dep_start;  /* dependencies: dep[dep_start .. next op's dep_start) */
    double seconds;      /* compute: predicted duration on the rank's device */
    /* SEND, RECV: payload; collective: buffer of one call, as nccl-tests count it
     * (core/collective/collective.h); FORWARD: stash taken, BACKWARD_INPUT: what
     * waits for the other half, BACKWARD and BACKWARD_WEIGHT: freed; COMPUTE: what the rank holds
     * meanwhile, at most, besides what it keeps all the time */
    int64_t bytes;
};

struct program_channel {
    uint32_t from, to; /* ranks; of copies: devices */
};

/* What the channels and groups of a folded program stand for: those of the whole program that do
 * the same at the same time, each channel and group first among its own copies. All empty unless
 * the program is folded. Memory is in proportion to the devices of each channel and group. */
struct program_copies {
    size_t *channel_start;           /* [channels + 1] into channel */
    struct program_channel *channel; /* pairs of devices */
    uint32_t *channel_replica;       /* whose they are, at both ends */
    /* Of group g with n devices, device[device_start[g] .. device_start[g + 1]): a multiple of n,
     * copy by copy, each with its members in the order of the group's. */
    size_t *device_start; /* [groups + 1] */
    uint32_t *device;
    uint32_t *group_replica; /* of each copy of group 0, group 1, ...; PROGRAM_NONE: of several */
    uint32_t *class_of;      /* [replicas] which of its stage's ranks a replica is like */
    uint32_t *class_size;    /* [classes] replicas */
    uint32_t replicas, classes; /* of every stage */
};

struct program_rank {
    char *name;              /* of its device; owned */
    uint32_t device;         /* index in the topology */
    uint32_t stage;          /* its (first) stage */
    uint32_t replica, shard; /* shard: position in the tensor-parallel group */
    int64_t weight_bytes, gradient_bytes, state_bytes; /* kept all the time; state: optimizer's */
    int64_t host_bytes;    /* of state, and gradients on their way to it, in the host's memory */
    int64_t scratch_bytes; /* needed besides while ops compute: recomputed activations, with ZeRO 2
                            * and 3 gradients of two buckets, with ZeRO 3 parameters of two */
};

/* Gradients of a stage that are reduced over its replicas together. Buckets are in the order in
 * which a backward completes them, from the stage's last ops to its first: bucket b has the ops
 * from its `low` up to, but without, the `low` of bucket b - 1 (the first: up to the stage's end).
 * The last bucket has low 0 and, besides, the copies of tied weights that other stages own. */
struct program_bucket {
    uint32_t low; /* position of its first op among the stage's */
    bool again;   /* ZeRO 3: its forward is made again in a part of its own, before the backward of
                    * the bucket that has the last op of its unit (plan_units()) */
    /* what a shard has of its parameters, as numbers of the model: every collective FOR_DATA of
     * dense gradients has a bucket's (program_reduced_bytes()), or, between groups, a part's;
     * every ALLGATHER FOR_SHARDS a call for each bucket or, with ZeRO 3, has those of its part's
     * and of the buckets whose weights ops of that one borrow */
    int64_t bytes;
};

/* How the ranks that hold a stage divide it, so that a device need not work it out from the ops.
 * The knobs of one stage are members, as in the plan. Of the knobs that all stages share there are
 * those that passes need, as they are in effect in this stage: sequence (sequence_parallel, with
 * shards), exchange (context_exchange), zero (with replicas), keep (zero_keep), group (zero_group).
 * A new knob of all stages that a device must know gets a member here, and a line in copy_stage()
 * of core/lower/lower.c. */
struct program_stage {
#include "core/strategy/strategy_stage.def" /* as in the plan; degrees >= 1 */
    /* of tensor parallelism: ops that shards do not divide work on parts of the tokens. What shards
     * exchange in a pass is then REDUCESCATTER and ALLGATHER FOR_TENSOR behind it, and (`backward`)
     * the ALLGATHER before it of inputs, for gradients of weights */
    bool sequence;
    /* tensor parallelism: what shards sum is in the seconds of passes, and has no op of its own,
     * since the profile was measured with it (model_profile.sums) */
    bool inside;
    uint32_t exchange; /* enum plan_exchange, where neighbouring replicas share every sequence,
                        * chunks i and 2c - 1 - i of 2c on the i-th of c */
    uint32_t zero;     /* 0 .. 3: what of every bucket a replica keeps only its part of: nothing,
                         * optimizer state, + gradients, + parameters; 0 with one replica.
                         * Rajbhandari et al., SC 2020 */
    bool keep; /* ZeRO 1, 3: parameters are gathered for one forward of an iteration and stay */
    /* the parts of a bucket are spread over so many neighbouring replicas, 0: all; the k-th ones of
     * all groups sum what they keep. Not one of program.group_start's groups of ranks */
    uint32_t group;
    bool stepped; /* passes come step by step, and between them what shards need of each other
                   * (plan.steps) */
    bool split;   /* backwards, or some, come as BACKWARD_INPUT and BACKWARD_WEIGHT */
    uint32_t bucket, buckets; /* program.bucket[bucket .. bucket + buckets), buckets >= 1; */
    uint32_t again;           /* of these, those that have `again` */
};

struct program {
    size_t ranks;
    struct program_rank *rank; /* [ranks] */
    size_t *op_start;      /* [ranks + 1] ops of rank r are op[op_start[r] .. op_start[r + 1]) */
    size_t ops;            /* == op_start[ranks] */
    struct program_op *op; /* [ops + 1], the last one a sentinel with dep_start == deps */
    size_t deps;
    uint32_t *dep;       /* [deps] op indices of the same rank, lower than the op's own; only joined
                          * programs (program_join.h) also have other ranks' */
    size_t groups;       /* ranks that communicate together: what a collective's `peer` names */
    size_t *group_start; /* [groups + 1] */
    uint32_t *member; /* ranks of group g: member[group_start[g] .. group_start[g + 1]) ascending */
    size_t *device_start; /* [groups + 1] */
    uint32_t *device;     /* devices of group g; those of its ranks unless the program is folded */
    size_t channels;
    struct program_channel *channel; /* [channels] directed pairs that carry SENDs */
    size_t stages;
    size_t *stage_start;         /* [stages + 1] ops of the model in each stage, CSR */
    uint32_t *stage_op;          /* ascending within a stage */
    struct program_stage *stage; /* [stages] */
    size_t buckets;
    struct program_bucket *bucket; /* [buckets] stage by stage */
    struct operators
        operators; /* of the one stage that is `stepped`: what it computes; empty: not said */
    uint32_t microbatches, microbatch_size;
    uint32_t number_bytes; /* of the model's numbers: activations, and parameters as they are
                            * gathered */
    uint32_t reduce_bytes; /* of numbers as gradients are summed. 0 (by hand): both are fp32 */
    double tokens_per_sample;
    double sample_flop, recompute_flop; /* of the model per sample; executed besides */
    char *optimizer;                    /* owned */
    char *schedule;                     /* of the plan, for people; owned; NULL: by hand */
    uint64_t seed;
    bool attained;     /* collectives take what NCCL attains (collective_options.attained) */
    bool forward_only; /* there are no backwards: nothing is trained (program_keep_forwards()) */
    bool captured;     /* of a script (core/lower/captured.h): one stage, of COMPUTE alone */
    bool asynchronous; /* no flush: the microbatches are a window of an endless stream */
    /* only one replica of each class and its shard 0 have ranks: lower.h; cannot be written */
    bool folded;
    struct program_copies copies;
};

/* Fill match, channel, the channels and (where absent) the groups' devices from the rest; needs
 * ops, groups and ranks in place.
 * STATUS_INVALID with rank, op, peer and tag when something does not match. O(ops log ops). */
enum status program_match(struct program *p) MUST_CHECK;
/* The same when `match` of every SEND and RECV is right already, as who makes both ends at once
 * knows, and `channel` of other ops is PROGRAM_NONE: without sorting, O(ops). */
enum status program_link(struct program *p) MUST_CHECK;

/* Give every stage of a program made by hand (its stages and ops are in place) one replica, one
 * shard and one bucket without bytes. */
enum status program_plain_stages(struct program *p) MUST_CHECK;

/* JSON, format "foreline-program" version 2, of captured ones 3; reading matches and checks
 * (core/data/program_check.h) as well. STATUS_PARSE also for version 1, which did not say how
 * stages are divided. */
enum status program_read(const char *path, struct program *out) MUST_CHECK;
enum status program_write(const struct program *p, const char *path,
                          const struct provenance *by) MUST_CHECK;
void program_free(struct program *p); /* accepts {0}; leaves {0} */

struct model;
/* Leave forwards and what they send to each other, to look at a model without training it. Of each
 * stage one microbatch's activations are there at a time. STATUS_UNSUPPORTED where shards, replicas
 * that share sequences, spread experts or parameters that are gathered (ZeRO 3) take part in
 * forwards; *p is then what it was. O(ops log ops). */
enum status program_keep_forwards(struct program *p, const struct model *m) MUST_CHECK;
/* The same, and no memory for gradients and optimizer states, as a server of the model has it. */
enum status program_infer(struct program *p, const struct model *m) MUST_CHECK;

/* Does the rank hold this stage? O(ops of the rank). */
bool program_rank_has(const struct program *p, uint32_t rank, uint32_t stage);
/* How many model ops the stages of a rank have; their indices go to op[], stage by stage, unless it
 * is NULL. O(stages * ops of the rank). */
size_t program_rank_ops(const struct program *p, uint32_t rank, uint32_t *op);
/* Replicas over which the parts of a bucket are spread. */
static inline uint32_t program_zero_members(const struct program_stage *s)
{
    return s->group > 0 ? s->group : s->replicas;
}
/* ZeRO 3: are a stage's parameters there only as buckets, while passes use them? */
static inline bool program_reshards(const struct program_stage *s)
{
    return s->zero == 3 && !s->keep;
}
/* In how many parts a pass of the stage may come: with ZeRO 3 a FORWARD in one per bucket, from the
 * first op on; a BACKWARD in one per bucket, from the last op down, and one for the forward of
 * every bucket that is made again by itself: those of a unit, from its first op on, before the
 * backward of its last one. */
uint32_t program_parts(const struct program_stage *s, enum op_kind pass);
/* Bucket whose ops a part (>= 1) of a pass computes; *completes, unless NULL: its gradients are
 * complete then. O(buckets) where there are any to be made again. */
uint32_t program_part_bucket(const struct program *p, const struct program_stage *s,
                             enum op_kind pass, uint32_t part, bool *completes);
/* Rank that op i belongs to; O(log ranks). */
uint32_t program_rank_of(const struct program *p, size_t op);
/* ZeRO: the part of a bucket of n numbers that replica `replica` of `replicas` keeps. The bucket is
 * cut into as many chunks as there are replicas, the first n mod replicas of which are one number
 * longer, and replica k keeps chunk (k + 1) mod replicas: the one whose sum a ring's reduce-scatter
 * leaves with its member k (exec/ring.h). */
struct program_range {
    size_t first, n;
};
static inline struct program_range program_zero_part(size_t n, uint32_t replicas, uint32_t replica)
{
    size_t chunk = (replica + 1) % replicas, least = n / replicas, longer = n % replicas;
    return (struct program_range){chunk * least + (chunk < longer ? chunk : longer),
                                  least + (chunk < longer)};
}
/* What a sum of gradients moves that take so many bytes as numbers of the model. */
static inline int64_t program_reduced_bytes(const struct program *p, int64_t bytes)
{
    return p->reduce_bytes != p->number_bytes ? bytes * p->reduce_bytes / p->number_bytes : bytes;
}
/* How many groups of the whole program group g stands for; 1 unless the program is folded. */
static inline size_t program_group_copies(const struct program *p, size_t g)
{
    if (!p->folded)
        return 1;
    return (p->copies.device_start[g + 1] - p->copies.device_start[g]) /
           (p->device_start[g + 1] - p->device_start[g]);
}
/* The devices of a copy of group g, as many as the group has. */
static inline const uint32_t *program_group_devices(const struct program *p, size_t g, size_t copy)
{
    size_t n = p->device_start[g + 1] - p->device_start[g];
    return p->folded ? p->copies.device + p->copies.device_start[g] + copy * n
                     : p->device + p->device_start[g];
}
/* How many ranks of the whole program rank r stands for; 1 unless the program is folded. */
static inline size_t program_rank_copies(const struct program *p, size_t r)
{
    const struct program_rank *rank = &p->rank[r];
    if (!p->folded)
        return 1;
    return (size_t)p->copies.class_size[p->copies.class_of[rank->replica]] *
           p->stage[rank->stage].tensor_parallel;
}
/* What the rank has in its host's memory, at most. O(ops of the rank). */
int64_t program_host_bytes(const struct program *p, size_t rank);
/* What the rank keeps all the time. */
static inline int64_t program_static_bytes(const struct program_rank *r)
{
    return r->weight_bytes + r->gradient_bytes + r->state_bytes;
}
static inline bool op_computes(const struct program_op *o)
{
    return o->kind <= OP_COMPUTE;
}
/* Is it work of the optimizer? */
static inline bool op_updates(const struct program_op *o)
{
    return o->kind == OP_UPDATE || (o->kind == OP_COMPUTE && o->phase == IN_UPDATE);
}
/* Does it make one number of those of all members? */
static inline bool op_reduces(const struct program_op *o)
{
    return o->kind == OP_ALLREDUCE || o->kind == OP_REDUCESCATTER || o->kind == OP_REDUCE;
}
/* enum collective_kind of the ops that are one, but for COPY. */
extern const uint8_t op_collective[OP_KINDS];
static inline bool op_is_collective(const struct program_op *o)
{
    return o->kind >= OP_ALLREDUCE;
}
/* Takes the seconds of what computes while the collectives just before it run: the pass itself, and
 * what it computes, is the next op of the same kind and part, which waits for both. */
static inline bool op_is_beside(const struct program_op *o)
{
    return op_computes(o) && o->purpose != FOR_PIPELINE;
}
static inline bool op_is_message(const struct program_op *o)
{
    return o->kind == OP_SEND || o->kind == OP_RECV;
}

/* Of a captured program "F12", "B40", "UPDATE7": phase and place. Else "0F3", "1B2", "1I2" and
 * "1W2" (split backward), "0UPDATE", "0SEND_F3", "1RECV_B2", "0ALLREDUCE":
 * torch.distributed.pipelining's action names, stage first, microbatch last. Returns `text`. */
enum { OP_LABEL = 48 };
const char *op_label(const struct program_op *o, char text[OP_LABEL]);

#endif
