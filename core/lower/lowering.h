/* lowering.h - the parts of plan_lower() (core/lower.h): what they share while it runs. Private.
 *
 *   1. stages.c   what crosses between stages, who the ranks are
 *   2. groups.c   who communicates: replicas, shards, experts, ties
 *   3. replay.c   the schedule of every replica; compute ops, messages, collectives of microbatches;
 *                 passes in parts: parts.c
 *   4. finish.c   the end of the iteration: reductions of gradients, updates
 *   5. ../lower.c the lists become one program, which is checked
 *
 *   cost.c        what a stage costs on a device: asked by 3 to 5, computed once;
 *                 its memory and buckets: cost_memory.c, cost_buckets.c (summing.h)
 *   list.c        the growing lists
 *   steps.c       the order of compute ops, and whether more microbatches only repeat it */
#ifndef CORE_LOWER_LOWERING_H
#define CORE_LOWER_LOWERING_H

#include "core/lower.h"
#include "core/schedule.h"

/* What goes from one stage to another for every microbatch: all tensors that cross, in one
 * message. */
struct lowering_edge {
    uint32_t from, to; /* stages, from < to */
    int64_t bytes;     /* per microbatch, whole */
};

/* The growing list of one rank. Positions are kept plus one, so that 0 means none; dependencies
 * are positions in the same list. */
struct lowering_list {
    size_t n, room, deps, dep_room;
    struct program_op *op;
    uint32_t *dep;
    uint32_t blocked;    /* position + 1 of the collective that the next compute op waits for */
    uint32_t gathered;   /* position + 1 of the newest ALLGATHER of parameters, */
    uint32_t needed;     /* and of the one that the next compute op waits for */
    uint32_t reduced[2]; /* ZeRO 2, 3: of the sums of the last two buckets */
    uint32_t scattered;  /* position + 1 of the newest REDUCESCATTER of gradients */
    uint32_t compute[2]; /* position + 1 of the last compute op and of the one before */
};

/* One replica of a team: its shards run the same steps at the same time. */
struct lowering_replica {
    uint32_t team, number;
    uint32_t rank, shards;          /* lists rank .. rank + shards - 1 */
    size_t step, steps;             /* progress in the schedule */
    struct schedule_step *schedule; /* microbatches of the whole iteration */
    bool queued;
    bool reduces; /* the step has run; its gradients wait for those of the other replicas */
};

/* Collectives that follow one compute op: `count` calls, merged into one op of mean size. */
struct lowering_calls {
    uint32_t count;
    int64_t bytes, reduced_bytes; /* of one call, as numbers of the model; as they are summed */
};

/* A part of a backward: its seconds, and the gradients that are complete after it. With ZeRO 3 a
 * forward comes in the same parts. */
struct lowering_bucket {
    double seconds, forward_s;
    struct program_bucket gradients;
    int64_t expert_bytes;   /* gradients of experts */
    int64_t borrowed_bytes; /* weights of other buckets of the stage that its ops share */
};

/* Gradients that are reduced together; part: as in struct program_op. */
struct lowering_sum {
    int64_t bytes, expert_bytes;
    uint8_t part;
};

/* One stage on one type of device; per rank. */
struct lowering_cost {
    double slowdown; /* of passes beside collectives */
    double forward_s, recompute_s, backward_s, input_s, weight_s, update_s;
    int64_t stash_bytes; /* per microbatch */
    int64_t weight_bytes, gradient_bytes, state_bytes, scratch_bytes;
    int64_t gathered_bytes; /* ZeRO 3: parameters of the bucket at work and of the next one */
    int64_t reduced_bytes;  /* ZeRO 2, 3: gradients of the bucket at work and of the one before */
    int64_t replicated_bytes, expert_bytes;          /* gradients summed over all replicas; over the
                                             * replicas that have the same experts */
    struct lowering_calls forward_sum, backward_sum; /* tensor parallelism */
    struct lowering_calls forward_experts, backward_experts;
    bool overlapped;                /* the last backward comes in one part per bucket, */
    bool units;                     /* ZeRO 2, 3: every backward (and forward) does */
    size_t buckets;                 /* >= 1 */
    struct lowering_bucket *bucket; /* [buckets] in the order in which they become complete */
};

/* Groups of the program while they are collected. */
struct lowering_grouping {
    size_t n, members, devices;
    size_t *start, *device_start; /* [n + 1] */
    uint32_t *member, *device;
    size_t copied, *copy_start; /* [n + 1] into copy; folded: what each group stands for */
    uint32_t *copy;             /* [copied] devices */
    size_t copies;              /* of all groups */
    uint32_t *copy_replica;     /* [copies] PROGRAM_NONE: of several */
};

/* The all-reduce of one op's tied weights for one replica and shard. */
struct lowering_tie {
    uint32_t group, owner;
    int64_t bytes;
};

/* Who and what there is: constant after lowering_prepare() (stages.c). */
struct lowering_shape {
    uint32_t *stage_of;                   /* [model->n] */
    uint32_t *unit;                       /* [model->n] plan_units() of each op's stage, */
    bool *kept;                           /* [model->n] likewise */
    uint32_t teams;                       /* sets of devices, the ranks of the pipeline */
    uint32_t chunks;                      /* stages of each */
    uint32_t *team_of;                    /* [stages] == stage % teams */
    uint32_t *first_rank, *first_replica; /* [teams + 1] */
    uint32_t replicas;                    /* of all teams together */
    uint32_t most_shards;                 /* of any team */
    uint32_t classes;                     /* folded: of replicas */
    uint32_t *class_of;                   /* [replicas of a team] numbered by their first one */
    uint32_t *class_start;                /* [classes + 1] into by_class, */
    uint32_t *by_class;                   /* [replicas of a team] whose first one has the ranks */
    size_t edges;
    struct lowering_edge *edge;   /* [edges] sorted by (from, to): those of a source together */
    size_t *in_start, *out_start; /* [stages + 1] */
    uint32_t *in;                 /* [edges] edge ids by destination stage */
};

/* Who communicates: constant after lowering_group() (groups.c). Ids are of the program's groups,
 * PROGRAM_NONE where there is no such group. */
struct lowering_groups {
    struct lowering_grouping all;
    uint32_t *data;    /* [team * most_shards + shard] all replicas */
    uint32_t *experts; /* [rank] the replicas over which its experts are spread */
    uint32_t *same;    /* [rank] the replicas that have the same experts as it */
    uint32_t *tensor;  /* [replicas] */
    size_t ties;
    struct lowering_tie *tie; /* [ties] */
};

/* The lists, and how far each replica has come: replay.c, then finish.c. */
struct lowering_replay {
    struct lowering_list *list;       /* [ranks] */
    struct lowering_replica *replica; /* [replicas] */
    uint32_t *reducing;               /* [teams] replicas whose `reduces` is set */
    uint32_t *queue;                  /* [replicas] ring of those that may go on */
    size_t head, length;
    /* Position + 1, in the list of shard k of the receiver, of the RECV of edge e and microbatch m:
     * [(e * microbatches + m) * most_shards + k]; activations, gradients. */
    uint32_t *arrived, *returned;
    uint32_t *forward; /* [(stage * microbatches + m) * most_shards + shard] position of FORWARD */
    uint32_t *half;    /* likewise, of BACKWARD_INPUT; empty unless the schedule splits */
};

struct lowering {
    const struct plan *plan;
    const struct model *model;
    const struct topology *topology;
    const struct schedule *schedule;
    bool fold;
    const struct plan_classes *as; /* folded: what is alike; NULL: all replicas */
    struct lowering_shape shape;
    struct lowering_groups groups;
    struct lowering_replay replay;
    struct lowering_cost **cost; /* [stages * types] NULL until asked for */
};

static inline const struct plan_stage *lowering_team(const struct lowering *l, uint32_t team)
{
    return &l->plan->stage[team]; /* the team's first stage has the team's number */
}
static inline uint32_t lowering_replicas(const struct lowering *l, uint32_t team)
{
    return l->fold ? l->shape.classes : lowering_team(l, team)->replicas;
}
/* The k-th replica of a team, class by class when the program is folded. */
static inline uint32_t lowering_replica_at(const struct lowering *l, uint32_t k)
{
    return l->fold ? l->shape.by_class[k] : k;
}
/* Which of those with ranks a replica is: its class, when the program is folded. */
static inline uint32_t lowering_place_of(const struct lowering *l, uint32_t replica)
{
    return l->fold ? l->shape.class_of[replica] : replica;
}
/* Has this shard of a replica a rank? */
static inline bool lowering_has_rank(const struct lowering *l, uint32_t replica, uint32_t shard)
{
    if (!l->fold)
        return true;
    return shard == 0 &&
           l->shape.by_class[l->shape.class_start[l->shape.class_of[replica]]] == replica;
}
static inline uint32_t lowering_shards(const struct lowering *l, uint32_t team)
{
    return l->fold ? 1 : lowering_team(l, team)->tensor_parallel;
}
/* The group of all replicas of a team's shard, over which gradients are reduced. */
static inline uint32_t lowering_data(const struct lowering *l, uint32_t team, uint32_t shard)
{
    return l->groups.data[team * l->shape.most_shards + shard];
}
/* ZeRO level of a stage: without replicas there is nobody to share with. */
static inline uint32_t lowering_zero(const struct lowering *l, uint32_t stage)
{
    return l->plan->stage[stage].replicas > 1 ? l->plan->zero : 0;
}
/* Bytes of numbers of the model, as gradients and shards' activations are summed. */
static inline int64_t lowering_reduced(const struct lowering *l, int64_t bytes)
{
    int64_t number = l->model->element_bytes, reduced = plan_reduce_bytes(l->plan, l->model);
    return reduced != number ? bytes * reduced / number : bytes;
}
static inline uint32_t lowering_ranks(const struct lowering *l)
{
    return l->shape.first_rank[l->shape.teams];
}

/* stages.c: fill everything up to `queue`, allocate the rest but the groups. */
enum status lowering_prepare(struct lowering *l) MUST_CHECK;
void lowering_free(struct lowering *l);
/* Can what the plan asks for go together? STATUS_UNSUPPORTED names what cannot. */
enum status lowering_check(const struct lowering *l) MUST_CHECK;
uint32_t lowering_device(const struct lowering *l, uint32_t team, uint32_t replica, uint32_t shard);
/* First replica and shard of a rank; O(log teams). */
uint32_t lowering_team_of_rank(const struct lowering *l, uint32_t rank);

/* cost.c: of a stage on a device; computed once per type, owned by *l. */
enum status lowering_cost(struct lowering *l, uint32_t stage, uint32_t device,
                          const struct lowering_cost **out) MUST_CHECK;
void lowering_cost_free(struct lowering_cost *c);

/* steps.c: do all stages have equally many replicas, and these equally many microbatches? */
bool lowering_is_even(const struct lowering *l);
/* What a team's list of steps is made for: those of one replica when replicas and
 * microbatches are even, else of all of them together. */
struct schedule_place lowering_place(const struct plan *p, uint32_t teams, uint32_t team);

/* groups.c: groups of ranks. */
enum status lowering_group(struct lowering *l) MUST_CHECK;
void grouping_free(struct lowering_grouping *g);

/* replay.c: compute ops, messages, and collectives that belong to a microbatch. */
enum status lowering_replay(struct lowering *l) MUST_CHECK;

/* One shard's part of a step while it is appended. */
struct pass {
    struct lowering *l;
    const struct lowering_replica *replica;
    struct lowering_list *list;
    const struct lowering_cost *cost;
    uint32_t stage, shard, rank;
    struct schedule_step s;
};

/* A compute op, or a part of one, that waits for its inputs and for what blocks the list. */
enum status pass_append(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                        uint32_t *position) MUST_CHECK;

/* parts.c: forward or backward in a part per bucket. */
enum status pass_forward(const struct pass *a, uint32_t *position) MUST_CHECK;
enum status pass_backward(const struct pass *a, uint32_t *position) MUST_CHECK;
/* ZeRO 3: dense parameters of bucket part - 1, or of all when part is 0, and those of experts, over
 * the replicas that have the same; ahead: not for the next compute op but for the one behind it. */
enum status pass_gather(const struct pass *a, size_t part, bool ahead) MUST_CHECK;

/* finish.c: sums of gradients and updates at the end of the iteration. */
enum status lowering_finish(struct lowering *l) MUST_CHECK;
/* Sum or scatter the gradients of `stage` over the replicas of `rank`; nothing without replicas.
 * PROGRAM_NONE for `microbatch` unless it is that one's own.
 * The op waits for the list's newest op that computes. */
enum status lowering_reduce(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_sum *sum) MUST_CHECK;
enum status lowering_update(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_cost *cost) MUST_CHECK;

/* list.c; `match` of SEND and RECV is a position in the peer's list. */
enum status list_reserve(struct lowering_list *list, size_t ops, size_t deps) MUST_CHECK;
enum status list_append(struct lowering_list *list, const struct program_op *op,
                        uint32_t *position) MUST_CHECK;
/* The op appended last depends on the one at `position`. */
enum status list_depend(struct lowering_list *list, uint32_t position) MUST_CHECK;
/* An op to append: no peer and no tag; a collective of one call over `group`. */
struct program_op list_op(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                          uint32_t microbatch);
struct program_op list_collective(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                                  uint32_t microbatch, uint32_t group, int64_t bytes);

#endif
