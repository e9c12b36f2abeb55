/* lower.h - a plan becomes a program: compute order from the schedule, communication inserted.
 *
 * Tensors that cross from stage a to stage b travel in one message per microbatch, each once
 * however many consumers it has in b; their gradients travel back in one message. SEND and RECV are
 * inserted by a global replay in which a RECV enters the receiver's list in the instant its SEND
 * enters the sender's: one global order exists, so the lists cannot deadlock even if every
 * transfer were a blocking rendezvous. (Idea: torch.distributed.pipelining, _add_send_recv.)
 * Then per stage: ALLREDUCE of the gradients over its replicas, of tied weights over the stages
 * that share them, and UPDATE. */
#ifndef CORE_LOWER_H
#define CORE_LOWER_H

#include "core/model.h"
#include "core/plan.h"
#include "core/program.h"
#include "core/topology.h"

/* Ranks are numbered stage by stage, replicas within: rank = sum of replicas before + replica.
 * The result is matched and checked. O(ops log ops). Returns STATUS_INVALID, STATUS_UNSUPPORTED
 * (tensor parallelism, recomputation: not yet), STATUS_NOMEM. */
enum status plan_lower(const struct plan *p, const struct model *m, const struct topology *t,
                       struct program *out) MUST_CHECK;

/* Model ops of stage `from` whose output some op of stage `to` reads, ascending.
 * stage_of [m->n] is the stage of each op; *op is malloc'd, NULL when *n == 0. */
enum status crossing_ops(const struct model *m, const uint32_t *stage_of, uint32_t from,
                         uint32_t to, uint32_t **op, size_t *n) MUST_CHECK;

#endif
