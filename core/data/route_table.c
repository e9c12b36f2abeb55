/* Tables of routes: steps are found by their contents while the table is built, from the end of
 * each route to its beginning. */
#include "core/data/route_table.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/intern.h"

enum status route_table_begin(size_t n, struct route_table *out)
{
    struct route_table t = {.made.size = sizeof *t.step};
    PASS(ARRAY_NEW(t.head, n * n));
    *out = t;
    return STATUS_OK;
}

enum status route_table_add(struct route_table *t, size_t at, size_t links, const uint32_t *link)
{
    uint32_t then = 0;
    for (size_t k = links; k-- > 0; then++) {
        struct route_step step = {link[k], then};
        PASS(intern(&t->made, &step, sizeof step, &then, NULL));
    }
    t->head[at] = then;
    return STATUS_OK;
}

void route_table_finish(struct route_table *t)
{
    t->steps = t->made.n;
    t->step = t->made.data;
    t->made.data = NULL;
    interner_free(&t->made);
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
    interner_free(&t->made);
    *t = (struct route_table){0};
}
