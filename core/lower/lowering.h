/* lowering.h - the parts of plan_lower() (core/lower/lower.h): what they share while it runs.
 * Private.
 *
 *   1. stages.c   what crosses between stages, who the ranks are
 *   2. groups.c   who communicates: replicas, shards, experts, ties
 *   3. turns.c    the schedule of every replica;
 *      replay.c   compute ops, messages, collectives of microbatches; parts.c: passes in parts
 *   4. finish.c   the end of the iteration: reductions of gradients, updates
 *   5. blocking.c compute that waits for what was sent before it, where a framework does so;
 *      messages.c what messages take from compute beside them
 *   6. ../lower.c the lists become one program, which is checked
 *
 *   sharded.c     instead of 3 and 4, where a plan says step by step what shards do
 *   offload.c     what goes to the hosts' memory and comes back in passes
 *   context.c     what replicas that share a sequence exchange in a pass
 *   cost.c        what a stage costs on a device: asked by 3 to 6, computed once;
 *                 its memory and buckets: cost_memory.c, cost_buckets.c (summing.h);
 *                 of the last few plans it is known: cost_known.c
 *   peaks.c       what ranks need of memory, which needs no lists
 *   list.c        the growing lists
 *   steps.c       the order of compute ops, and whether more microbatches only repeat it */
#ifndef CORE_LOWER_LOWERING_H
#define CORE_LOWER_LOWERING_H

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"

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
    uint32_t blocked;    /* position + 1 of the collective that the next compute op waits for, */
    uint32_t beside;     /* and of the compute op beside which it runs: what waits for a pair waits
                          * for both */
    uint32_t gathered;   /* position + 1 of the newest ALLGATHER of parameters, */
    uint32_t needed;     /* and of the one that the next compute op waits for */
    uint32_t reduced[2]; /* ZeRO 2, 3: of the sums of the last two buckets */
    uint32_t scattered;  /* position + 1 of the newest REDUCESCATTER of gradients, */
    uint32_t summed;     /* and of the newest sum over groups of replicas of what those left */
    uint32_t raised;     /* position + 1 of the newest COPY of parameters to the device, */
    uint32_t lowered[2]; /* and of those to the host of what the last two forwards keep; 0: none */
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
    int64_t bytes; /* of one call, as numbers of the model */
};

/* Attention of a pass, or of a part of one: its seconds, and what the replicas that share the
 * sequence exchange for it. */
struct lowering_exchange {
    double seconds;
    struct lowering_calls gather;  /* keys and values; or there and back (all-to-all) */
    struct lowering_calls scatter; /* gradients of keys and values */
};
struct lowering_context {
    struct lowering_exchange forward, backward;
    struct lowering_exchange products[2]; /* tensor overlap, of forward and backward: products of
                                           * layers, and what goes on beside them */
    struct lowering_exchange
        inputs; /* sequence parallelism: of products, gathered once more for the
                                      * gradients of their weights, beside those of their inputs */
};

/* A part of a backward: its seconds, and the gradients that are complete after it. With ZeRO 3 a
 * forward comes in the same parts. */
struct lowering_bucket {
    double seconds, forward_s;
    struct program_bucket gradients;
    int64_t expert_bytes;   /* gradients of experts */
    int64_t borrowed_bytes; /* weights of other buckets of the stage that its ops share */
    struct lowering_context context;
};

/* Gradients that are reduced together; part: as in struct program_op. */
struct lowering_sum {
    int64_t bytes, expert_bytes;
    uint8_t part;
};

/* One stage on one type of device; per rank. */
struct lowering_cost {
    double slowdown; /* of passes beside collectives */
    double forward_waits,
        backward_waits; /* share of passes in which the device waits for the host */
    double forward_s, recompute_s, backward_s, input_s, weight_s, update_s;
    int64_t stash_bytes;   /* per microbatch, from its forward on; */
    int64_t waiting_bytes; /* besides, between the halves of its backward */
    int64_t weight_bytes, gradient_bytes, state_bytes, scratch_bytes;
    int64_t updated_bytes;  /* of the parameters that the rank updates; */
    int64_t host_bytes;     /* offloaded: of state, and of gradients on their way to it */
    int64_t gathered_bytes; /* ZeRO 3: parameters of the bucket at work and of the next one */
    int64_t reduced_bytes;  /* ZeRO 2, 3: gradients of the bucket at work and of the one before */
    int64_t replicated_bytes, expert_bytes;          /* gradients summed over all replicas; over the
                                             * replicas that have the same experts */
    struct lowering_calls forward_sum, backward_sum; /* tensor parallelism; with parts of the */
    struct lowering_calls forward_gather, backward_gather; /* tokens scattered, and gathered */
    struct lowering_calls forward_experts, backward_experts;
    struct lowering_context context;
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
    uint32_t *team_of;                    /* [stages] == schedule_team() */
    uint32_t *first_rank, *first_replica; /* [teams + 1] */
    uint32_t replicas;                    /* of all teams together */
    uint32_t most_shards;                 /* of any team */
    uint32_t context;                     /* replicas that share a sequence, of every team */
    uint32_t parts;                       /* ranks that have a microbatch, at most, of any team */
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
    uint32_t *context; /* [rank] the replicas that share its sequences */
    uint32_t *near;    /* [rank] hybrid sharding: the replicas over which its parts are spread, */
    uint32_t *far;     /* [rank] and those that keep the same parts as it */
    uint32_t *tensor;  /* [replicas] */
    uint32_t *host[2]; /* [rank] itself: to its host's memory, and from there */
    uint32_t norm;     /* all ranks, where clipping needs what several of them have */
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
    /* Position + 1, in the list of part k of the receiver (lowering_slot()), of the RECV of edge e
     * and microbatch m: [(e * microbatches + m) * parts + k]; activations, gradients. */
    uint32_t *arrived, *returned;
    uint32_t *forward; /* [(stage * microbatches + m) * parts + part] position of FORWARD */
    uint32_t *half;    /* likewise, of BACKWARD_INPUT; empty unless the schedule splits */
    uint32_t *host; /* likewise, position + 1 of the newest COPY of what the forward keeps, 0: none;
                        * empty unless activations are offloaded */
    bool *gathered; /* [rank * chunks + chunk] zero_keep: a forward has gathered the parameters */
    uint32_t *spread; /* likewise, ZeRO 1: position + 1 of their first ALLGATHER; 0: none */
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
    bool forgets;                /* they are the lowering's own */
    struct op_costs *costs;      /* what ops have cost before; NULL: nobody remembers */
};

static inline const struct plan_stage *lowering_team(const struct lowering *l, uint32_t team)
{
    return &l->plan->stage[team]; /* the team's first stage has the team's number */
}
/* Which replica's microbatches replica k works at in stages of this chunk. */
static inline uint32_t lowering_crosses(const struct lowering *l, uint32_t chunk, uint32_t k)
{
    return l->schedule->crossed && chunk % 2 == 1 ? k ^ 1 : k;
}
/* The stage that is a team's k-th, k < shape.chunks. */
static inline uint32_t lowering_stage(const struct lowering *l, uint32_t team, uint32_t k)
{
    return schedule_stage(l->schedule, l->shape.teams, team, k);
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
/* Are the parameters that others have updated gathered when the next iteration begins? In one piece
 * they would hide behind nothing (RULE_keep_needs_buckets). */
static inline bool lowering_spreads_late(const struct lowering *l)
{
    return l->plan->zero == 1 && l->plan->zero_keep &&
           (l->plan->bucket_bytes > 0 || l->schedule->chunked);
}
/* Do gathered parameters stay for all passes of an iteration? */
static inline bool lowering_keeps(const struct lowering *l, uint32_t stage)
{
    return lowering_zero(l, stage) == 1 ? lowering_spreads_late(l)
                                        : lowering_zero(l, stage) > 0 && l->plan->zero_keep;
}
/* Are parameters there only as buckets, while passes use them? */
static inline bool lowering_reshards(const struct lowering *l, uint32_t stage)
{
    return lowering_zero(l, stage) == 3 && !lowering_keeps(l, stage);
}
/* Does the stage share by groups of its replicas, and over how many replicas? */
static inline bool lowering_is_hybrid(const struct lowering *l, uint32_t stage)
{
    uint32_t group = l->plan->zero_group;
    return lowering_zero(l, stage) > 0 && group > 0 && group < l->plan->stage[stage].replicas;
}
static inline uint32_t lowering_members(const struct lowering *l, uint32_t stage)
{
    return lowering_is_hybrid(l, stage) ? l->plan->zero_group : l->plan->stage[stage].replicas;
}
/* The group over which what ZeRO divides is scattered and gathered: all replicas, or its own. */
static inline uint32_t lowering_sharing(const struct lowering *l, uint32_t team, uint32_t rank,
                                        uint32_t shard)
{
    uint32_t near = l->groups.near[rank];
    return near != PROGRAM_NONE ? near : lowering_data(l, team, shard);
}
/* Bytes of numbers of the model, as gradients are summed. */
static inline int64_t lowering_reduced(const struct lowering *l, int64_t bytes)
{
    int64_t number = l->model->element_bytes, reduced = plan_reduce_bytes(l->plan, l->model);
    return reduced != number ? bytes * reduced / number : bytes;
}
/* Which of those that share its sequences a replica is. */
static inline uint32_t lowering_position(const struct lowering *l, uint32_t replica)
{
    return replica % l->shape.context;
}
/* Index in the arrays [row][microbatch][part] of struct lowering_replay. */
static inline size_t lowering_slot(const struct lowering *l, size_t row, uint32_t microbatch,
                                   uint32_t position, uint32_t shard)
{
    return (row * l->plan->microbatches + microbatch) * l->shape.parts +
           position * l->shape.most_shards + shard;
}
static inline uint32_t lowering_ranks(const struct lowering *l)
{
    return l->shape.first_rank[l->shape.teams];
}

/* stages.c: fill the shape and who the replicas are; */
enum status lowering_prepare(struct lowering *l) MUST_CHECK;
/* room for the lists and the replay. */
enum status lowering_allocate(struct lowering *l) MUST_CHECK;
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
/* cost_known.c: set l->cost, [stages * types] of this plan or of an earlier one whose stages cost
 * the same. l->costs owns them, of the last eight plans; without it *l does. Call it once l->shape
 * is complete. STATUS_NOMEM. */
enum status lowering_costs_open(struct lowering *l) MUST_CHECK;
void lowering_costs_close(struct lowering *l);

/* steps.c: do all stages have equally many replicas, and these equally many microbatches? */
bool lowering_is_even(const struct lowering *l);
/* Microbatches of a replica between forward and backward at most, without flush: its versions of
 * the weights. O(teams). */
uint32_t lowering_depth(const struct plan *p, uint32_t teams, uint32_t team);

/* groups.c: groups of ranks. */
enum status lowering_group(struct lowering *l) MUST_CHECK;
void grouping_free(struct lowering_grouping *g);

/* blocking.c: compute ops wait for the messages sent before them. */
enum status lowering_block(struct lowering *l) MUST_CHECK;

/* peaks.c: what the rank of a team on a device keeps all the time is added to *out. */
enum status lowering_memory(struct lowering *l, uint32_t team, uint32_t device,
                            struct program_rank *out) MUST_CHECK;
/* lower.c: Are ranks of a stage alike? They are when every stage has as many replicas, these share
 * the microbatches evenly and keep them, and devices of one type do the work: then what replica 0
 * and shard 0 do is what all do. */
bool lowering_ranks_alike(const struct plan *p, const struct topology *t);

/* turns.c: fill replica->schedule; */
enum status lowering_schedule(const struct lowering *l,
                              struct lowering_replica *replica) MUST_CHECK;
/* the schedules of all replicas, step by step. */
enum status lowering_replay(struct lowering *l) MUST_CHECK;

/* Is it the last microbatch that its replica has? */
static inline bool lowering_is_last(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return microbatch + plan_streams(&l->plan->stage[stage]) >= l->plan->microbatches;
}

/* One shard's part of a step while it is appended. */
struct pass {
    struct lowering *l;
    const struct lowering_replica *replica;
    struct lowering_list *list;
    const struct lowering_cost *cost;
    uint32_t stage, shard, rank;
    struct schedule_step s;
    /* Of a pair, else NULL and 0: */
    const struct pass *beside; /* the second pass, whose inputs the first one waits for as well */
    uint32_t begin, before; /* position + 1 of the pair's first compute op, of the one before it */
    bool slower;            /* collectives run meanwhile */
};

/* replay.c: compute ops, messages, and collectives that belong to a microbatch. */
/* A replica that may be able to go on gets a turn, once. */
void lowering_wake(struct lowering *l, uint32_t replica);
/* Is everything there that the replica's next step, or pair of steps, needs from other stages? */
bool lowering_is_ready(const struct lowering *l, const struct lowering_replica *replica);
/* Append it: computed[shards], out, is what its messages wait for; */
enum status lowering_run(struct lowering *l, const struct lowering_replica *replica,
                         uint32_t *computed) MUST_CHECK;
/* and the messages. Of a pair `step` is the second one then. */
enum status lowering_send(struct lowering *l, struct lowering_replica *replica,
                          const uint32_t *computed) MUST_CHECK;
/* All replicas have come to their sums: these happen in this instant for all of them. */
enum status lowering_reduce_team(struct lowering *l, uint32_t team) MUST_CHECK;
/* Bytes of memory that a pass of a stage takes, or gives back, at its end. */
int64_t pass_bytes(enum op_kind kind, const struct lowering_cost *c);
/* A compute op, or a part of one, that waits for its inputs and for what blocks the list. */
enum status pass_append(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                        uint32_t *position) MUST_CHECK;

/* Its slot in the arrays of struct lowering_replay; row: stage, or edge. */
static inline size_t pass_slot(const struct pass *a, size_t row)
{
    return lowering_slot(a->l, row, a->s.microbatch, lowering_position(a->l, a->replica->number),
                         a->shard);
}
/* The op appended last waits for the inputs of the pass: a forward for its tensors, a backward for
 * its forward and for its gradients. */
enum status pass_depend_on_inputs(const struct pass *a) MUST_CHECK;

/* context.c: what the pass, or part `part` of it, exchanges for its attention and gathers for its
 * products, and the ops of what computes meanwhile, whose seconds are taken off *seconds; `slower`:
 * the factor that these have. The next compute op waits for all of it. */
enum status pass_exchange(const struct pass *a, const struct lowering_context *c, bool forward,
                          uint8_t part, double slower, double *seconds) MUST_CHECK;

/* offload.c: what passes keep goes to the host's memory and comes back, if activations are
 * offloaded. Before the compute ops of a step, and behind those of a forward, the newest of which
 * is at `computed`.
 */
enum status pass_raise(const struct pass *a) MUST_CHECK;
enum status pass_lower(const struct pass *a, uint32_t computed) MUST_CHECK;
/* The op appended last waits for what it needs from there, or for room that copies leave. */
enum status pass_depend_on_copies(const struct pass *a) MUST_CHECK;

/* Tensor overlap: what of the sums of a pass is left for behind it. */
struct lowering_calls lowering_left(const struct lowering_calls *all,
                                    const struct lowering_calls *gone, uint32_t shards);

/* parts.c: forward or backward in a part per bucket. */
enum status pass_forward(const struct pass *a, uint32_t *position) MUST_CHECK;
enum status pass_backward(const struct pass *a, uint32_t *position) MUST_CHECK;
/* ZeRO 3: dense parameters of bucket part - 1, or of all when part is 0, and those of experts, over
 * the replicas that have the same; ahead: not for the next compute op but for the one behind it. */
enum status pass_gather(const struct pass *a, size_t part, bool ahead) MUST_CHECK;
/* Does the pass have to gather? With zero_keep the first forward does. */
bool pass_gathers(const struct pass *a);

/* sharded.c: passes and updates of plans with steps, instead of the replay and the end. */
enum status lowering_steps(struct lowering *l) MUST_CHECK;
/* finish.c: with ZeRO 1 that keeps parameters, their ALLGATHERs at the head of each list; sums of
 * gradients and updates at the end of the iteration. */
enum status lowering_begin(struct lowering *l) MUST_CHECK;
enum status lowering_finish(struct lowering *l) MUST_CHECK;
/* messages.c: lengthen compute ops by what messages and collectives beside them take of the CPU.
 * O(ops) */
enum status lowering_charge(struct lowering *l) MUST_CHECK;
/* Sum or scatter the gradients of `stage` over the replicas of `rank`; nothing without replicas.
 * PROGRAM_NONE for `microbatch` unless it is that one's own.
 * The op waits for the list's newest op that computes. */
enum status lowering_reduce(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_sum *sum) MUST_CHECK;
/* Hybrid sharding: sum what groups of replicas have of them, once, when the op at `after` - 1 has
 * scattered them; else nothing. */
enum status lowering_sum_groups(struct lowering *l, uint32_t rank, uint32_t stage,
                                uint32_t microbatch, const struct lowering_sum *sum,
                                uint32_t after) MUST_CHECK;
enum status lowering_update(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_cost *cost) MUST_CHECK;

/* list.c; `match` of SEND and RECV is a position in the peer's list. */
enum status list_reserve(struct lowering_list *list, size_t ops, size_t deps) MUST_CHECK;
enum status list_append(struct lowering_list *list, const struct program_op *op,
                        uint32_t *position) MUST_CHECK;
/* The op appended last depends on the one at `position`. */
enum status list_depend(struct lowering_list *list, uint32_t position) MUST_CHECK;
/* And, where that is a pair's collective, on the compute op beside it. */
enum status list_depend_beside(struct lowering_list *list) MUST_CHECK;
/* An op to append: no peer and no tag; a collective of one call over `group`. */
struct program_op list_op(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                          uint32_t microbatch);
struct program_op list_collective(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                                  uint32_t microbatch, uint32_t group, int64_t bytes);

#endif
