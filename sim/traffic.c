/* Which algorithm each collective runs, and how many bytes each tier of the platform carries. */
#include "sim/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/pairs.h"

/* Add a name to a list "a, b" that does not have it. */
static enum status add_name(char **list, const char *name)
{
    size_t before = *list ? strlen(*list) : 0, room = before + strlen(name) + 3;
    if (*list && strstr(*list, name))
        return STATUS_OK;
    char *larger = realloc(*list, room);
    if (!larger)
        return error_set(STATUS_NOMEM, "algorithms of collectives");
    snprintf(larger + before, room - before, "%s%s", before > 0 ? ", " : "", name);
    *list = larger;
    return STATUS_OK;
}

/* Name the algorithm, and the protocol where one is modelled, of every reported call that this
 * shape answers for. */
static enum status label(const struct program *p, const struct shaped *s, struct measurement *m)
{
    size_t members = p->device_start[s->group + 1] - p->device_start[s->group];
    char name[64];
    if (members < 2 || s->bytes == 0)
        return STATUS_OK; /* nothing moves */
    snprintf(name, sizeof name, "%s%s%s", s->shape.algorithm->name,
             s->shape.protocol == COLLECTIVE_IDEAL ? "" : " ",
             s->shape.protocol == COLLECTIVE_IDEAL ? ""
                                                   : collective_protocol_name[s->shape.protocol]);
    for (size_t k = 0; k < m->calls; k++)
        if (m->call[k].kind == s->kind && m->call[k].bytes == s->bytes &&
            m->call[k].members == members)
            PASS(add_name(&m->call[k].algorithm, name));
    return STATUS_OK;
}

enum status traffic_examine(const struct program *p, const struct topology *t,
                            const struct collective_options *options, struct measurement *m,
                            double *tier_bytes)
{
    enum status st;
    struct shapes shapes = {0};
    struct pair *pair = NULL;
    size_t n = 0;
    TRY(shapes_make(p, t, options, &shapes));
    for (size_t k = 0; k < shapes.n; k++)
        TRY(label(p, &shapes.shaped[k], m));
    TRY(pairs_of(p, &shapes, &pair, &n));
    memset(tier_bytes, 0, t->tiers * sizeof *tier_bytes);
    for (size_t k = 0; k < n; k++)
        tier_bytes[topology_map_at(&t->between, pair[k].from, pair[k].to)] += pair[k].bytes;
out:
    free(pair);
    shapes_free(&shapes);
    return st;
}
