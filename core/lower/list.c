/* The growing lists of ops of the ranks. */

#include "core/base/array.h"
#include "core/lower/lowering.h"

struct program_op list_op(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                          uint32_t microbatch)
{
    return (struct program_op){.kind = (uint8_t)kind,
                               .purpose = (uint8_t)purpose,
                               .stage = stage,
                               .microbatch = microbatch,
                               .peer = PROGRAM_NONE,
                               .peer_stage = PROGRAM_NONE,
                               .tag = PROGRAM_NONE,
                               .count = 1};
}

struct program_op list_collective(enum op_kind kind, enum op_purpose purpose, uint32_t stage,
                                  uint32_t microbatch, uint32_t group, int64_t bytes)
{
    struct program_op op = list_op(kind, purpose, stage, microbatch);
    op.peer = group;
    op.bytes = bytes;
    return op;
}

/* Room for so many ops and dependencies: the replay knows most of what will come. */
enum status list_reserve(struct lowering_list *list, size_t ops, size_t deps)
{
    PASS(ARRAY_RESERVE(list->op, ops, list->room));
    return ARRAY_RESERVE(list->dep, deps, list->dep_room);
}

/* Positions do not move, addresses may. */
enum status list_append(struct lowering_list *list, const struct program_op *op, uint32_t *position)
{
    PASS(list_reserve(list, list->n + 1, 0));
    list->op[list->n] = *op;
    list->op[list->n].dep_start = (uint32_t)list->deps;
    if (position)
        *position = (uint32_t)list->n;
    list->n++;
    return STATUS_OK;
}

enum status list_depend_beside(struct lowering_list *list)
{
    return list->beside ? list_depend(list, list->beside - 1) : STATUS_OK;
}

enum status list_depend(struct lowering_list *list, uint32_t position)
{
    PASS(list_reserve(list, 0, list->deps + 1));
    list->dep[list->deps++] = position;
    return STATUS_OK;
}
