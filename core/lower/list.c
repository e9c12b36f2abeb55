/* The growing lists of ops of the ranks. */
#include <stdlib.h>

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

/* Room for so many ops and dependencies, exactly: the replay knows most of what will come. */
enum status list_reserve(struct lowering_list *list, size_t ops, size_t deps)
{
    if (ops > list->room) {
        struct program_op *larger = realloc(list->op, ops * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu ops", ops);
        list->op = larger;
        list->room = ops;
    }
    if (deps > list->dep_room) {
        uint32_t *larger = realloc(list->dep, deps * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu dependencies", deps);
        list->dep = larger;
        list->dep_room = deps;
    }
    return STATUS_OK;
}

/* Positions do not move, addresses may. */
enum status list_append(struct lowering_list *list, const struct program_op *op, uint32_t *position)
{
    if (list->n == list->room)
        PASS(list_reserve(list, list->room ? 2 * list->room : 64, 0));
    list->op[list->n] = *op;
    list->op[list->n].dep_start = (uint32_t)list->deps;
    if (position)
        *position = (uint32_t)list->n;
    list->n++;
    return STATUS_OK;
}

enum status list_depend(struct lowering_list *list, uint32_t position)
{
    if (list->deps == list->dep_room)
        PASS(list_reserve(list, 0, list->dep_room ? 2 * list->dep_room : 64));
    list->dep[list->deps++] = position;
    return STATUS_OK;
}
