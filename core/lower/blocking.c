/* A framework that sends and receives in the loop that computes (Megatron-LM, DeepSpeed): what
 * comes behind a message in a rank's list waits for it.
 *
 * A compute op waits for every message that was sent since the one before it, besides those
 * received that it needs, which the loop asks for just before it. It waits only for what stands
 * earlier in lists that were made in one global order (turns.c), a message's two ends in the same
 * instant, and no message waits for its receiver: the new waits cannot close a circle. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/lower/lowering.h"

/* Does op i wait for `position` already? */
static bool blocking_waits_for(const struct lowering_list *list, size_t i, uint32_t position)
{
    size_t end = i + 1 < list->n ? list->op[i + 1].dep_start : list->deps;
    for (size_t d = list->op[i].dep_start; d < end; d++)
        if (list->dep[d] == position)
            return true;
    return false;
}

/* The dependencies written anew, with those that block; ops keep their places. */
static enum status block_list(struct lowering_list *list)
{
    enum status st = STATUS_OK;
    struct lowering_list with = {0}; /* its dep, deps and dep_room */
    uint32_t *start = NULL;
    size_t sent = 0; /* ops from here on may be messages that nothing has waited for */
    TRY(ARRAY_NEW(start, list->n + 1));
    for (size_t i = 0; i < list->n; i++) {
        const struct program_op *o = &list->op[i];
        size_t end = i + 1 < list->n ? list->op[i + 1].dep_start : list->deps;
        start[i] = (uint32_t)with.deps;
        for (size_t d = o->dep_start; d < end; d++)
            TRY(list_depend(&with, list->dep[d]));
        for (; op_computes(o) && sent < i; sent++)
            if (list->op[sent].kind == OP_SEND && !blocking_waits_for(list, i, (uint32_t)sent))
                TRY(list_depend(&with, (uint32_t)sent));
    }
    for (size_t i = 0; i < list->n; i++)
        list->op[i].dep_start = start[i];
    free(list->dep);
    list->dep = with.dep;
    list->deps = with.deps;
    list->dep_room = with.dep_room;
    with.dep = NULL;
out:
    free(with.dep);
    free(start);
    return st;
}

enum status lowering_block(struct lowering *l)
{
    for (uint32_t r = 0; r < lowering_ranks(l); r++)
        PASS(block_list(&l->replay.list[r]));
    return STATUS_OK;
}
