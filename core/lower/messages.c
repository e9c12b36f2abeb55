/* What messages and collectives take from the compute beside which they go.
 *
 * Where a framework says so, compute and collectives side by side take the longer of both and a
 * share of the shorter (docs/explanation/prediction.md): collectives keep SMs and memory of the
 * device busy. Where the device waits for the host, which goes on issuing kernels while shards sum,
 * passes are shorter by as much. And bytes are moved by the CPU that computes, where none is spare
 * (struct device_type, LogGOPS' o and O: Hoefler, Schneider, Lumsdaine, HPDC 2010). What a rank
 * waits for takes nothing more than its time on the links. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/collective/collective.h"
#include "core/lower/lowering.h"

/* Messages that a rank sends or receives beside one of its compute ops, and seconds of
 * collectives. */
struct taken {
    double messages, bytes, collective_s;
    double context_s; /* of collectives that are parts of the attention beside which they go */
    double inside_s;  /* of those inside the pass: the host has issued more by their end */
};

/* One collective alone, by group, kind and size. */
struct alone {
    uint32_t group;
    uint8_t kind;
    int64_t bytes;
    double seconds;
};
enum { KNOWN = 64 };
struct known {
    const struct framework *framework; /* NULL: no seconds are asked for */
    size_t n;                          /* ever found; the last KNOWN of them are kept */
    struct alone alone[KNOWN];
};

/* A message, of a folded program all that the first shard sends: every one of the next stage has
 * one. */
static struct taken of_message(const struct lowering *l, const struct program_op *op)
{
    const struct plan_stage *from = &l->plan->stage[op->stage],
                            *to = &l->plan->stage[op->peer_stage];
    bool several = l->fold && op->kind == OP_SEND;
    uint32_t n = several ? (to->tensor_parallel - 1) / from->tensor_parallel + 1 : 1;
    return (struct taken){.messages = n, .bytes = n * (double)op->bytes};
}

/* Of one member of a ring, which sends as often as it receives. */
static struct taken of_collective(const struct lowering *l, const struct program_op *op)
{
    const struct lowering_grouping *g = &l->groups.all;
    double n = (double)(g->device_start[op->peer + 1] - g->device_start[op->peer]);
    double messages = 2 * op->count * (n - 1) * (op->kind == OP_ALLREDUCE ? 2 : 1);
    return (struct taken){.messages = messages, .bytes = messages * (double)op->bytes / n};
}

static enum status message_measure_alone(const struct lowering *l, struct alone *a)
{
    enum status st;
    const struct lowering_grouping *all = &l->groups.all;
    size_t first = all->device_start[a->group], n = all->device_start[a->group + 1] - first;
    struct collective_group g = {0};
    struct collective_shape shape = {0};
    TRY(collective_group_make(l->topology, all->device + first, n, &g));
    struct collective_options o = {.attained = true, .nics = collective_nics(&g)};
    TRY(collective_shape_make(&g, op_collective[a->kind], a->bytes, &o, &shape));
    a->seconds = shape.seconds;
out:
    collective_shape_free(&shape);
    collective_group_free(&g);
    return st;
}

/* Seconds of a collective alone by its closed form; a stage has few different ones. */
static enum status seconds_alone(const struct lowering *l, struct known *known,
                                 const struct program_op *op, double *seconds)
{
    struct alone a = {.group = op->peer, .kind = op->kind, .bytes = op->bytes};
    size_t k = 0, kept = known->n < KNOWN ? known->n : KNOWN;
    while (k < kept && (known->alone[k].group != a.group || known->alone[k].kind != a.kind ||
                        known->alone[k].bytes != a.bytes))
        k++;
    if (k == kept) {
        PASS(message_measure_alone(l, &a));
        k = known->n++ % KNOWN;
        known->alone[k] = a;
    }
    *seconds = op->count * known->alone[k].seconds;
    return STATUS_OK;
}

/* Does op i of the list wait for one that is marked? */
static bool waits(const struct lowering_list *list, size_t i, const bool *marked)
{
    size_t end = i + 1 < list->n ? list->op[i + 1].dep_start : list->deps;
    for (size_t d = list->op[i].dep_start; d < end; d++)
        if (marked[list->dep[d]])
            return true;
    return false;
}

/* Is there a compute op behind op i, and does the next one not wait for it?
 *   marked  [list->n] scratch, false before and after */
static bool goes_beside(const struct lowering_list *list, size_t i, bool *marked)
{
    size_t k = i + 1;
    marked[i] = true;
    for (; k < list->n; k++) {
        marked[k] = waits(list, k, marked);
        if (op_computes(&list->op[k]))
            break;
    }
    bool beside = k < list->n && !marked[k];
    memset(marked + i, 0, ((k < list->n ? k + 1 : k) - i) * sizeof *marked);
    return beside;
}

/* Sends go while the next pass computes, and what is received has come during the one before.
 *   taken  [compute ops of the list] out, zeros before */
static enum status count_taken(const struct lowering *l, const struct lowering_list *list,
                               struct known *known, bool *marked, struct taken *taken)
{
    size_t done = 0; /* compute ops */
    for (size_t i = 0; i < list->n; i++) {
        const struct program_op *op = &list->op[i];
        bool came = op->kind == OP_RECV;
        if (op_computes(op)) {
            done++;
        } else if (op->kind == OP_COPY) {
            continue; /* the device's own engines move it */
        } else if (op->purpose == FOR_TENSOR && done > 0 && known->framework &&
                   !goes_beside(list, i, marked)) {
            double seconds;
            PASS(seconds_alone(l, known, op, &seconds));
            taken[done - 1].inside_s += seconds;
        } else if (came ? done > 0 : goes_beside(list, i, marked)) {
            struct taken t = op_is_message(op) ? of_message(l, op) : of_collective(l, op);
            taken[done - came].messages += t.messages;
            taken[done - came].bytes += t.bytes;
            if (!op_is_message(op) && known->framework)
                PASS(seconds_alone(l, known, op, &t.collective_s));
            *(op->purpose == FOR_CONTEXT ? &taken[done].context_s : &taken[done].collective_s) +=
                t.collective_s;
        }
    }
    return STATUS_OK;
}

/* Share of a compute op in which its device waits for the host. */
static enum status find_waits(struct lowering *l, uint32_t device, const struct program_op *op,
                              double *out)
{
    const struct lowering_cost *c;
    PASS(lowering_cost(l, op->stage, device, &c));
    *out = op->kind == OP_UPDATE    ? 0
           : op->kind == OP_FORWARD ? c->forward_waits
                                    : c->backward_waits;
    return STATUS_OK;
}

static enum status message_scale_compute(struct lowering *l, struct lowering_list *list,
                                         uint32_t device, const struct framework *f,
                                         const struct taken *taken)
{
    const struct device_type *t = topology_type(l->topology, device);
    for (size_t i = 0; i < list->n; i++)
        if (op_computes(&list->op[i])) {
            double seconds = list->op[i].seconds, waits = 0;
            double more = taken->messages * t->message_s;
            more += t->message_Bps > 0 ? taken->bytes / t->message_Bps : 0;
            if (f)
                more += fitted_times(t->fitted.interference) *
                        (f->interference * fmin(seconds, taken->collective_s) +
                         f->context_interference * fmin(seconds, taken->context_s));
            if (taken->inside_s > 0)
                PASS(find_waits(l, device, &list->op[i], &waits));
            list->op[i].seconds += more - fmin(waits * seconds, taken->inside_s);
            taken++;
        }
    return STATUS_OK;
}

/* The shards of a replica, which compute the same ops: each as the first one, which sends most. */
static enum status charge_replica(struct lowering *l, struct known *known,
                                  const struct lowering_replica *replica)
{
    enum status st = STATUS_OK;
    struct lowering_list *list = &l->replay.list[replica->rank];
    struct taken *taken = NULL;
    bool *marked = NULL;
    TRY(ARRAY_NEW(marked, list->n));
    TRY(ARRAY_NEW(taken, list->n));
    TRY(count_taken(l, list, known, marked, taken));
    for (uint32_t k = 0; k < replica->shards; k++) {
        uint32_t device = lowering_device(l, replica->team, replica->number, k);
        TRY(message_scale_compute(l, list + k, device, known->framework, taken));
    }
out:
    free(marked);
    free(taken);
    return st;
}

enum status lowering_charge(struct lowering *l)
{
    const struct framework *f = plan_framework(l->plan);
    struct known known = {.framework = f && f->by_kernel ? f : NULL};
    bool any = known.framework;
    for (size_t k = 0; k < l->topology->types; k++)
        any |= l->topology->type[k].message_s > 0 || l->topology->type[k].message_Bps > 0;
    for (uint32_t c = 0; any && c < l->shape.replicas; c++)
        PASS(charge_replica(l, &known, &l->replay.replica[c]));
    return STATUS_OK;
}
