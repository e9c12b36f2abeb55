/* lower.h - a plan becomes a program: compute order from the schedule, communication inserted.
 *
 * Tensors that cross from stage a to stage b travel in one message per microbatch, each once
 * however many consumers it has in b; their gradients travel back in one message. SEND and RECV are
 * inserted by a global replay in which a RECV enters the receiver's list in the instant its SEND
 * enters the sender's: one global order exists, so the lists cannot deadlock even if every
 * transfer were a blocking rendezvous. (Idea: torch.distributed.pipelining, _add_send_recv.)
 *
 * Around the pipeline:
 *   - tensor parallelism: the shards of a replica run the same list; what Megatron sums inside a
 *     stage is one ALLREDUCE (with sequence parallelism a REDUCESCATTER and an ALLGATHER) of
 *     `count` calls after each FORWARD and BACKWARD, which the rank's next compute op waits for;
 *     a boundary tensor is whole on every shard, so shard k sends to shard k: all of it, or with
 *     sequence parallelism or p2p_scatter its part;
 *   - experts spread over replicas: an ALLTOALL of two calls per op with experts likewise;
 *   - replicas that share sequences: before a pass an ALLGATHER of keys and values (backward also a
 *     REDUCESCATTER of their gradients) or an ALLTOALL, which the pass waits for; with the ring,
 *     the part of the attention that computes meanwhile is an op of its own (op_is_beside());
 *   - replicas: ALLREDUCE of the gradients after the last backward, or in buckets while it runs;
 *     ZeRO 1: REDUCESCATTER, UPDATE of one part, ALLGATHER of the parameters; ZeRO 2: a
 *     REDUCESCATTER after every backward; ZeRO 3: also an ALLGATHER before every pass, one pass
 *     ahead, and none after the UPDATE. Experts that are spread: likewise over the replicas that
 *     have the same ones;
 *   - tied weights: ALLREDUCE over the stages that share them; UPDATE. */
#ifndef CORE_LOWER_LOWER_H
#define CORE_LOWER_LOWER_H

#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"

struct op_costs;

/* Ranks are numbered team by team (plan.h), replicas within, shards within:
 * rank = ranks of earlier teams + replica * tensor_parallel + shard.
 * The result is matched and checked. O(ops log ops). Returns STATUS_INVALID, STATUS_UNSUPPORTED
 * (combinations that have no meaning, named), STATUS_NOMEM. */
enum status plan_lower(const struct plan *p, const struct model *m, const struct topology *t,
                       struct program *out) MUST_CHECK;

/* Replicas that are to be simulated once: those of one class. */
struct plan_classes {
    uint32_t n;   /* >= 1 */
    uint32_t *of; /* [replicas of every stage] numbered by their first replica; owned */
};

/* The same, but only the first replica of each class and its shard 0 get ranks in every stage;
 * groups keep all their devices, so that collectives cost what they do, and out->copies says what
 * each channel and group stands for. classes / (replicas * shards) of the work; `classes` NULL: all
 * replicas are one. With experts that are spread over replicas, and with plan.zero_group, there
 * must be one class. In the whole program all copies carry the same messages and collectives in the
 * same order, and compute takes equally long on all ranks of a stage; so times are the same too if
 * the copies get equal shares of the network, which is for who simulates to prove
 * (core/engine/flows.h). Where ranks of a stage would differ by themselves - stages with different
 * numbers of replicas, microbatches that these cannot share evenly, devices of two types in a stage
 * - it is plan_lower(). */
enum status plan_lower_folded(const struct plan *p, const struct model *m, const struct topology *t,
                              const struct plan_classes *classes, struct program *out) MUST_CHECK;

/* Are the lists of a plan those of the same plan with `fewer` microbatches, with steps of their
 * middle repeated? `unit` divides the difference and is a multiple of the replicas of every stage.
 * By the schedules' steps, which everything else in the lists follows from. O(stages *
 * microbatches). STATUS_INVALID: no such schedule. */
enum status plan_lower_repeats(const struct plan *p, uint32_t fewer, uint32_t unit,
                               bool *out) MUST_CHECK;

/* The same, for who lowers many plans of a model. */
struct plan_lower_options {
    bool fold;                          /* plan_lower_folded(), else plan_lower() */
    const struct plan_classes *classes; /* NULL: all replicas are one */
    struct op_costs *costs;             /* of the model (core/cost/op_costs.h); NULL: none */
};
enum status plan_lower_with(const struct plan *p, const struct model *m, const struct topology *t,
                            const struct plan_lower_options *how, struct program *out) MUST_CHECK;

/* What ranks need of memory at most: program_peak() of plan_lower_folded(), at a small part of its
 * cost, since no lists are made (but for plans that say what shards do step by step, or that send
 * activations to the host).
 *
 *   costs  of the model; NULL: none
 *   peak   [t->types] out: of the ranks on devices of that type the most, bytes; 0: there are none
 *   work   out: steps, or ops, that were looked at
 *
 * STATUS_INVALID, STATUS_UNSUPPORTED as plan_lower(), but not all that it finds; STATUS_NOMEM. */
enum status plan_lower_peaks(const struct plan *p, const struct model *m, const struct topology *t,
                             struct op_costs *costs, int64_t *peak, double *work) MUST_CHECK;

struct schedule_place; /* core/schedule/schedule.h */
/* What a team's list of steps is made for: those of one replica when replicas and microbatches are
 * even, else of all of them together. */
struct schedule_place plan_lower_place(const struct plan *p, uint32_t teams, uint32_t team);

/* Model ops of stage `from` whose output some op of stage `to` reads, ascending.
 * stage_of [m->n] is the stage of each op; *op is malloc'd, NULL when *n == 0. */
enum status crossing_ops(const struct model *m, const uint32_t *stage_of, uint32_t from,
                         uint32_t to, uint32_t **op, size_t *n) MUST_CHECK;

#endif
