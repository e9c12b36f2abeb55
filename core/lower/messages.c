/* What messages take from the compute beside which they go: their bytes are moved by the CPU that
 * computes, where none is spare (struct device_type, LogGOPS' o and O: Hoefler, Schneider, Lumsdaine,
 * HPDC 2010). What a rank waits for takes nothing more than its time on the links. */
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/lower/lowering.h"

static double message_s(const struct device_type *t, double bytes)
{
    return t->message_s + (t->message_Bps > 0 ? bytes / t->message_Bps : 0);
}

/* Of one member of a ring, which sends as often as it receives. */
static double collective_s(const struct lowering *l, const struct device_type *t,
                           const struct program_op *op)
{
    const struct lowering_grouping *g = &l->groups.all;
    double n = (double)(g->device_start[op->peer + 1] - g->device_start[op->peer]);
    double rounds = op->kind == OP_ALLREDUCE ? 2 * (n - 1) : n - 1;
    return n > 1 ? op->count * rounds * 2 * message_s(t, (double)op->bytes / n) : 0;
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

/* The next compute op behind op i, NULL if there is none or it waits for op i.
 *   marked  [list->n] scratch, false before and after */
static struct program_op *beside(struct lowering_list *list, size_t i, bool *marked)
{
    struct program_op *found = NULL;
    size_t k = i + 1;
    marked[i] = true;
    for (; k < list->n; k++) {
        marked[k] = waits(list, k, marked);
        if (op_computes(&list->op[k])) {
            found = marked[k] ? NULL : &list->op[k];
            break;
        }
    }
    memset(marked + i, 0, ((k < list->n ? k + 1 : k) - i) * sizeof *marked);
    return found;
}

/* Sends go while the next pass computes, and what is received has come during the one before. */
static void charge(const struct lowering *l, struct lowering_list *list,
                   const struct device_type *t, bool *marked)
{
    struct program_op *last = NULL;
    for (size_t i = 0; i < list->n; i++) {
        struct program_op *op = &list->op[i], *slower = NULL;
        if (op_computes(op))
            last = op;
        else if (op->kind == OP_RECV)
            slower = last;
        else
            slower = beside(list, i, marked);
        if (slower)
            slower->seconds +=
                op_is_message(op) ? message_s(t, (double)op->bytes) : collective_s(l, t, op);
    }
}

enum status lowering_charge(struct lowering *l)
{
    for (uint32_t c = 0; c < l->shape.replicas; c++)
        for (uint32_t k = 0; k < l->replay.replica[c].shards; k++) {
            const struct lowering_replica *replica = &l->replay.replica[c];
            struct lowering_list *list = &l->replay.list[replica->rank + k];
            uint32_t device = lowering_device(l, replica->team, replica->number, k);
            const struct device_type *t = topology_type(l->topology, device);
            bool *marked;
            if (t->message_s <= 0 && t->message_Bps <= 0)
                continue;
            PASS(ARRAY_NEW(marked, list->n));
            charge(l, list, t, marked);
            free(marked);
        }
    return STATUS_OK;
}
