/* The growing lists. */
#include <stdlib.h>

#include "core/lower/lowering.h"

enum status list_reserve(struct list *list, size_t ops, size_t deps)
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

enum status list_append(struct list *list, const struct program_op *op, uint32_t *position)
{
    enum status st = STATUS_OK;
    if (list->n == list->room)
        TRY(list_reserve(list, list->room ? 2 * list->room : 64, 0));
    list->op[list->n] = *op;
    list->op[list->n].dep_start = (uint32_t)list->deps;
    if (position)
        *position = (uint32_t)list->n;
    list->n++;
out:
    return st;
}

enum status list_depend(struct list *list, uint32_t position)
{
    enum status st = STATUS_OK;
    if (list->deps == list->dep_room)
        TRY(list_reserve(list, 0, list->dep_room ? 2 * list->dep_room : 64));
    list->dep[list->deps++] = position;
out:
    return st;
}

enum status list_collective(struct list *list, const struct program_op *op, uint32_t after,
                            uint32_t *position)
{
    enum status st = list_append(list, op, position);
    return st == STATUS_OK ? list_depend(list, after) : st;
}
