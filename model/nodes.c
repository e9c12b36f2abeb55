#include "model/nodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_TEXT = 24 };

const double nodes_max_bytes = 1e14;

/* ---- ids */

struct id_at {
    int64_t id;
    uint32_t node;
};

static int compare_ids(const void *a, const void *b)
{
    const struct id_at *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum status read_ids(const struct nodes *g, struct id_at *sorted)
{
    enum status st = STATUS_OK;
    for (size_t v = 0; v < g->n; v++) {
        struct json_at node = json_item(&g->node_list, v);
        sorted[v].node = (uint32_t)v;
        TRY(json_need_integer(&node, "id", INT64_MIN, INT64_MAX, &sorted[v].id));
    }
    qsort(sorted, g->n, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < g->n; i++)
        if (sorted[i].id == sorted[i - 1].id) {
            struct json_at node = json_item(&g->node_list, sorted[i].node);
            st = json_error(&node, "id %lld is given to two nodes", (long long)sorted[i].id);
            goto out;
        }
out:
    return st;
}

static enum status read_end(const struct json_at *edge, const char *key, const struct nodes *g,
                            const struct id_at *sorted, uint32_t *out)
{
    struct id_at wanted = {0, 0};
    enum status st = json_need_integer(edge, key, INT64_MIN, INT64_MAX, &wanted.id);
    if (st != STATUS_OK)
        return st;
    const struct id_at *found = bsearch(&wanted, sorted, g->n, sizeof *sorted, compare_ids);
    if (!found)
        return json_error(edge, "%s: no node has the id %lld", key, (long long)wanted.id);
    *out = found->node;
    return STATUS_OK;
}

static enum status read_edges(struct nodes *g, const struct id_at *sorted)
{
    enum status st = STATUS_OK;
    for (size_t e = 0; e < g->edges; e++) {
        struct json_at edge = json_item(&g->edge_list, e);
        TRY(read_end(&edge, "sourceId", g, sorted, &g->edge[e].from));
        TRY(read_end(&edge, "destId", g, sorted, &g->edge[e].to));
        if (g->edge[e].from == g->edge[e].to) {
            st = json_error(&edge, "an edge from a node to itself");
            goto out;
        }
    }
out:
    return st;
}

/* ---- names */

struct named {
    const char *name; /* the file's, "node" without */
    bool given;
    int64_t id;
    uint32_t node;
};

static int compare_names(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static enum status make_name(const struct named *x, bool repeated, char **out)
{
    size_t size = strlen(x->name) + ID_TEXT;
    if (!(*out = malloc(size)))
        return error_set(STATUS_NOMEM, "out of memory");
    if (!x->given || repeated)
        snprintf(*out, size, "%s%s%lld", x->name, x->given ? "#" : "", (long long)x->id);
    else
        snprintf(*out, size, "%s", x->name);
    return STATUS_OK;
}

static enum status read_names(struct nodes *g, const struct id_at *sorted)
{
    enum status st = STATUS_OK;
    struct named *x = calloc(g->n, sizeof *x);
    if (!x)
        return error_set(STATUS_NOMEM, "%zu nodes", g->n);
    for (size_t i = 0; i < g->n; i++) {
        struct json_at node = json_item(&g->node_list, sorted[i].node), name;
        x[i] = (struct named){"node", false, sorted[i].id, sorted[i].node};
        TRY(json_optional(&node, "name", &name));
        if (name.value)
            TRY(json_get_string(&name, &x[i].name));
        x[i].given = name.value && *x[i].name;
        if (!x[i].given)
            x[i].name = "node";
    }
    qsort(x, g->n, sizeof *x, compare_names);
    for (size_t i = 0; i < g->n; i++) {
        bool repeated = (i > 0 && !strcmp(x[i - 1].name, x[i].name)) ||
                        (i + 1 < g->n && !strcmp(x[i].name, x[i + 1].name));
        TRY(make_name(&x[i], repeated, &g->name[x[i].node]));
    }
out:
    free(x);
    return st;
}

/* ---- cycles */

/* Name one edge of a cycle; waiting[v] > 0 for the nodes that no order can place. */
static enum status cycle_error(const struct nodes *g, const size_t *waiting, size_t *via)
{
    size_t at = 0;
    for (size_t e = 0; e < g->edges; e++) /* via[v]: an edge to v from another such node */
        if (waiting[g->edge[e].from] > 0 && waiting[g->edge[e].to] > 0)
            via[g->edge[e].to] = e;
    while (waiting[at] == 0)
        at++;
    for (size_t step = 0; step < g->n; step++) /* backwards: n steps lead into a cycle */
        at = g->edge[via[at]].from;
    const struct model_edge *e = &g->edge[via[at]];
    struct json_at edge = json_item(&g->edge_list, via[at]);
    return json_error(&edge, "the edge from '%.100s' to '%.100s' is part of a cycle",
                      g->name[e->from], g->name[e->to]);
}

/* Kahn's algorithm: take nodes whose producers have all been taken. */
static enum status check_acyclic(const struct nodes *g)
{
    enum status st = STATUS_OK;
    size_t n = g->n, ready = 0, taken = 0;
    size_t *waiting = calloc(n, sizeof *waiting), *stack = calloc(n, sizeof *stack);
    size_t *start = calloc(n + 2, sizeof *start); /* CSR of consumers, one entry ahead */
    uint32_t *consumer = calloc(g->edges + 1, sizeof *consumer);
    if (!waiting || !stack || !start || !consumer) {
        st = error_set(STATUS_NOMEM, "%zu nodes", n);
        goto out;
    }
    for (size_t e = 0; e < g->edges; e++) {
        waiting[g->edge[e].to]++;
        start[g->edge[e].from + 2]++;
    }
    for (size_t v = 0; v < n; v++)
        start[v + 2] += start[v + 1];
    for (size_t e = 0; e < g->edges; e++)
        consumer[start[g->edge[e].from + 1]++] = g->edge[e].to;
    for (size_t v = 0; v < n; v++)
        if (waiting[v] == 0)
            stack[ready++] = v;
    for (; ready > 0; taken++) {
        size_t v = stack[--ready];
        for (size_t k = start[v]; k < start[v + 1]; k++)
            if (--waiting[consumer[k]] == 0)
                stack[ready++] = consumer[k];
    }
    if (taken < n)
        st = cycle_error(g, waiting, stack);
out:
    free(consumer);
    free(start);
    free(stack);
    free(waiting);
    return st;
}

/* ---- the whole */

enum status nodes_check_minibatch(double samples)
{
    if (samples >= 1 && isfinite(samples))
        return STATUS_OK;
    return error_set(STATUS_INVALID, "minibatch size %g: at least 1 sample is needed", samples);
}

enum status nodes_read(const struct json_at *root, struct nodes *out)
{
    enum status st;
    struct nodes g = {0};
    struct id_at *sorted = NULL;
    TRY(json_field(root, "nodes", &g.node_list));
    TRY(json_get_array(&g.node_list, MODEL_MAX_OPS, &g.n));
    TRY(json_field(root, "edges", &g.edge_list));
    TRY(json_get_array(&g.edge_list, 16 * (size_t)MODEL_MAX_OPS, &g.edges));
    if (g.n == 0) {
        st = json_error(&g.node_list, "there are no nodes");
        goto out;
    }
    g.name = calloc(g.n, sizeof *g.name);
    g.edge = calloc(g.edges + 1, sizeof *g.edge);
    sorted = calloc(g.n, sizeof *sorted);
    if (!g.name || !g.edge || !sorted) {
        st = error_set(STATUS_NOMEM, "%zu nodes", g.n);
        goto out;
    }
    TRY(read_ids(&g, sorted));
    TRY(read_edges(&g, sorted));
    TRY(read_names(&g, sorted));
    TRY(check_acyclic(&g));
    *out = g;
    g = (struct nodes){0};
out:
    free(sorted);
    nodes_free(&g);
    return st;
}

void nodes_free(struct nodes *g)
{
    for (size_t v = 0; g->name && v < g->n; v++)
        free(g->name[v]);
    free(g->name);
    free(g->edge);
    *g = (struct nodes){0};
}
