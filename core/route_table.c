/* Tables of routes: steps are found by their contents while the table is built, from the end of
 * each route to its beginning. */
#include "core/route_table.h"

#include <stdlib.h>

#include "core/array.h"

enum { FIRST_SLOTS = 1024 }; /* a power of two */

/* Where the step is, or the free slot where it belongs; at most half of the slots are taken. */
static uint32_t *find_slot(const struct route_table *t, struct route_step step)
{
    uint64_t hash = ((uint64_t)step.link << 32 | step.then) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t at = (size_t)(hash >> 20) & (t->slots - 1);; at = (at + 1) & (t->slots - 1)) {
        uint32_t *slot = &t->slot[at];
        if (*slot == 0 ||
            (t->step[*slot - 1].link == step.link && t->step[*slot - 1].then == step.then))
            return slot;
    }
}

/* Twice as many slots; all steps find new ones. */
static enum status grow(struct route_table *t)
{
    struct route_table larger = {.step = t->step, .slots = 2 * t->slots};
    PASS(ARRAY_NEW(larger.slot, larger.slots));
    for (size_t i = 0; i < t->steps; i++)
        *find_slot(&larger, t->step[i]) = (uint32_t)i + 1;
    free(t->slot);
    t->slot = larger.slot;
    t->slots = larger.slots;
    return STATUS_OK;
}

enum status route_table_begin(size_t n, struct route_table *out)
{
    struct route_table t = {.slots = FIRST_SLOTS};
    PASS(ARRAY_NEW(t.head, n * n));
    enum status st = ARRAY_NEW(t.slot, t.slots);
    if (st == STATUS_OK)
        *out = t;
    else
        free(t.head);
    return st;
}

enum status route_table_add(struct route_table *t, size_t at, size_t links, const uint32_t *link)
{
    uint32_t then = 0;
    for (size_t k = links; k-- > 0;) {
        struct route_step step = {link[k], then};
        if (2 * t->steps >= t->slots)
            PASS(grow(t));
        uint32_t *slot = find_slot(t, step);
        if (*slot == 0) {
            PASS(ARRAY_ROOM(t->step, t->steps));
            t->step[t->steps++] = step;
            *slot = (uint32_t)t->steps;
        }
        then = *slot;
    }
    t->head[at] = then;
    return STATUS_OK;
}

void route_table_finish(struct route_table *t)
{
    free(t->slot);
    t->slot = NULL;
    t->slots = 0;
}

bool route_table_is_sound(const struct route_table *t, size_t n, size_t links)
{
    for (size_t i = 0; i < t->steps; i++)
        if (t->step[i].link >= links || t->step[i].then > i)
            return false;
    for (size_t i = 0; i < n * n; i++)
        if (t->head[i] > t->steps)
            return false;
    return true;
}

void route_table_free(struct route_table *t)
{
    free(t->step);
    free(t->head);
    free(t->slot);
    *t = (struct route_table){0};
}
