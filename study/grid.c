#include "study/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum status grid_add(struct grid *g, const char *key, const char *value)
{
    enum status st = STATUS_OK;
    struct grid_axis *a = g->axes ? &g->axis[g->axes - 1] : NULL;
    if (!*value)
        return error_set(STATUS_USAGE, "%s: an empty value", key);
    if (!a || strcmp(a->key, key) != 0) {
        if (g->axes == GRID_AXES)
            return error_set(STATUS_USAGE, "a grid has at most %d axes", GRID_AXES);
        a = &g->axis[g->axes++];
        *a = (struct grid_axis){.key = key};
    }
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->value[i], value))
            return error_set(STATUS_USAGE, "%s: '%s' twice", key, value);
    char **more = realloc(a->value, (a->n + 1) * sizeof *more);
    if (!more)
        return error_set(STATUS_NOMEM, "out of memory");
    a->value = more;
    a->value[a->n] = NULL;
    TRY(text_copy(value, &a->value[a->n]));
    a->n++;
    if (grid_points(g) > GRID_POINTS)
        return error_set(STATUS_USAGE, "a grid has at most %d points", GRID_POINTS);
out:
    return st;
}

enum status grid_add_list(struct grid *g, const char *key, const char *list)
{
    enum status st;
    char *copy = NULL;
    TRY(text_copy(list, &copy));
    for (char *word = copy, *next; word; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        TRY(grid_add(g, key, word));
    }
out:
    free(copy);
    return st;
}

void grid_free(struct grid *g)
{
    for (size_t a = 0; a < g->axes; a++) {
        for (size_t i = 0; i < g->axis[a].n; i++)
            free(g->axis[a].value[i]);
        free(g->axis[a].value);
    }
    *g = (struct grid){0};
}

size_t grid_points(const struct grid *g)
{
    size_t n = 1;
    for (size_t a = 0; a < g->axes; a++)
        n *= g->axis[a].n;
    return n;
}

const char *grid_value(const struct grid *g, size_t point, size_t axis)
{
    for (size_t a = g->axes; --a > axis;)
        point /= g->axis[a].n;
    return g->axis[axis].value[point % g->axis[axis].n];
}

enum status grid_settings(const struct grid *g, size_t point, struct plan_arguments *s)
{
    enum status st = STATUS_OK;
    for (size_t a = 0; a < g->axes; a++) {
        const char *key = g->axis[a].key, *value = grid_value(g, point, a);
        if (!strcmp(key, "platform"))
            s->platform = value;
        else
            TRY(plan_set(s, key, value));
    }
out:
    return st;
}

/* What stands before a value in a name. */
static const char *prefix(const char *key)
{
    static const char *const known[][2] = {{"stages", "s"},
                                           {"replicas", "r"},
                                           {"microbatches", "m"},
                                           {"microbatch-size", "b"},
                                           {"tensor-parallel", "t"},
                                           {"chunks", "c"},
                                           {"zero", "z"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i][0], key))
            return known[i][1];
    return "";
}

void grid_name(const struct grid *g, size_t point, char name[GRID_NAME])
{
    size_t n = 0;
    *name = '\0';
    for (size_t a = 0; a < g->axes && n < GRID_NAME; a++) {
        const char *value = grid_value(g, point, a), *slash = strrchr(value, '/');
        if (g->axis[a].n < 2)
            continue;
        value = slash ? slash + 1 : value;
        n += (size_t)snprintf(name + n, GRID_NAME - n, "%s%s%.*s", n ? "-" : "",
                              prefix(g->axis[a].key), (int)strcspn(value, "."), value);
    }
    if (n == 0)
        snprintf(name, GRID_NAME, "plan");
}
