/* Reads the published graphs of numbered nodes: ids, edges, names, latencies and colours. */
#include "papers/graphs/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/data/edges.h"
#include "model/import.h"

enum { ID_TEXT = 24 };

const double nodes_max_bytes = 1e14;

/* ---- ids and edges */

/* Nodes by a number that the file gives them: ids, colours. */
struct numbered {
    int64_t number;
    uint32_t node;
};

static int compare_numbered(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Sorted by id, two nodes of one id are neighbours. */
static enum status graph_nodes_read_ids(struct graph_nodes *g)
{
    enum status st;
    struct numbered *sorted = NULL;
    TRY(ARRAY_NEW(sorted, g->n));
    for (size_t v = 0; v < g->n; v++) {
        struct json_at node = json_item(&g->node_list, v);
        TRY(json_need_integer(&node, "id", INT64_MIN, INT64_MAX, &g->id[v]));
        sorted[v] = (struct numbered){g->id[v], (uint32_t)v};
    }
    qsort(sorted, g->n, sizeof *sorted, compare_numbered);
    for (size_t i = 0; i < g->n; i++) {
        g->by_id[i] = sorted[i].node;
        if (i > 0 && sorted[i].number == sorted[i - 1].number) {
            struct json_at node = json_item(&g->node_list, sorted[i].node);
            st = json_error(&node, "id %lld is given to two nodes", (long long)sorted[i].number);
            goto out;
        }
    }
out:
    free(sorted);
    return st;
}

/* Binary search among the sorted ids. */
size_t nodes_find(const struct graph_nodes *g, int64_t id)
{
    size_t low = 0, high = g->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->id[g->by_id[middle]] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n && g->id[g->by_id[low]] == id ? g->by_id[low] : g->n;
}

/* An end of an edge: its id becomes the index of a node. */
static enum status read_end(const struct graph_nodes *g, const struct json_at *edge,
                            const char *key, uint32_t *out)
{
    struct json_at at;
    int64_t id;
    PASS(json_field(edge, key, &at));
    PASS(json_get_integer(&at, INT64_MIN, INT64_MAX, &id));
    size_t v = nodes_find(g, id);
    if (v == g->n)
        return json_error(&at, "no node has the id %lld", (long long)id);
    *out = (uint32_t)v;
    return STATUS_OK;
}

enum status nodes_read(const struct json_at *root, size_t max_nodes, size_t max_edges,
                       struct graph_nodes *out)
{
    enum status st;
    struct graph_nodes g = {0};
    TRY(json_field(root, "nodes", &g.node_list));
    TRY(json_get_array(&g.node_list, max_nodes, &g.n));
    if (g.n == 0)
        return json_error(&g.node_list, "the graph has no nodes");
    TRY(json_field(root, "edges", &g.edge_list));
    TRY(json_get_array(&g.edge_list, max_edges, &g.edges));
    TRY(ARENA_NEW(&g.memory, g.id, g.n));
    TRY(ARENA_NEW(&g.memory, g.by_id, g.n));
    TRY(ARENA_NEW(&g.memory, g.edge, g.edges));
    TRY(graph_nodes_read_ids(&g));
    for (size_t e = 0; e < g.edges; e++) {
        struct json_at edge = json_item(&g.edge_list, e);
        TRY(read_end(&g, &edge, "sourceId", &g.edge[e].from));
        TRY(read_end(&g, &edge, "destId", &g.edge[e].to));
    }
    MOVE(out, g);
out:
    nodes_free(&g);
    return st;
}

void nodes_free(struct graph_nodes *g)
{
    arena_free(&g->memory);
    *g = (struct graph_nodes){0};
}

enum status nodes_check_edges(const struct graph_nodes *g)
{
    for (size_t e = 0; e < g->edges; e++)
        if (g->edge[e].from == g->edge[e].to) {
            struct json_at edge = json_item(&g->edge_list, e);
            return json_error(&edge, "an edge from node %lld to itself",
                              (long long)g->id[g->edge[e].to]);
        }
    return STATUS_OK;
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

static enum status make_name(const struct named *x, bool repeated, struct arena *memory, char **out)
{
    size_t size = strlen(x->name) + ID_TEXT;
    PASS(ARENA_NEW(memory, *out, size));
    if (!x->given || repeated)
        snprintf(*out, size, "%s%s%lld", x->name, x->given ? "#" : "", (long long)x->id);
    else
        snprintf(*out, size, "%s", x->name);
    return STATUS_OK;
}

/* Sorted by name, nodes of one name stand side by side: these get their id behind it. */
enum status nodes_name(struct graph_nodes *g, char ***out)
{
    enum status st;
    struct named *x = NULL;
    char **name;
    TRY(ARRAY_NEW(x, g->n));
    TRY(ARENA_NEW(&g->memory, name, g->n));
    for (size_t i = 0; i < g->n; i++) {
        struct json_at node = json_item(&g->node_list, g->by_id[i]), at;
        x[i] = (struct named){"node", false, g->id[g->by_id[i]], g->by_id[i]};
        TRY(json_optional(&node, "name", &at));
        if (at.value)
            TRY(json_get_string(&at, &x[i].name));
        x[i].given = at.value && *x[i].name;
        if (!x[i].given)
            x[i].name = "node";
    }
    qsort(x, g->n, sizeof *x, compare_names);
    for (size_t i = 0; i < g->n; i++) {
        bool repeated = (i > 0 && !strcmp(x[i - 1].name, x[i].name)) ||
                        (i + 1 < g->n && !strcmp(x[i].name, x[i + 1].name));
        TRY(make_name(&x[i], repeated, &g->memory, &name[x[i].node]));
    }
    *out = name;
out:
    free(x);
    return st;
}

/* By Kahn's order; the message names one edge of the cycle. */
enum status nodes_check_acyclic(const struct graph_nodes *g, char *const *name)
{
    size_t cyclic;
    enum status st = edges_order(g->n, g->edge, g->edges, NULL, &cyclic);
    if (st != STATUS_OK || cyclic == g->edges)
        return st;
    struct json_at edge = json_item(&g->edge_list, cyclic);
    return json_error(&edge, "the edge from '%.100s' to '%.100s' is part of a cycle",
                      name[g->edge[cyclic].from], name[g->edge[cyclic].to]);
}

/* ---- what the nodes of either paper say */

/* 0, 1, true or false. */
static enum status may_flag(const struct json_at *object, const char *key, bool *out)
{
    struct json_at at;
    int64_t number;
    PASS(json_optional(object, key, &at));
    if (!at.value)
        return STATUS_OK;
    if (json_get_integer(&at, 0, 1, &number) == STATUS_OK)
        *out = number != 0;
    else
        PASS(json_get_bool(&at, out));
    return STATUS_OK;
}

static const struct json_row latency_rows[] = {
    {"fpgaLatency", JSON_MEMBER(struct nodes_latency, accelerator_ms), FIELD_NEED, .max = 1e18},
    {"cpuLatency", JSON_MEMBER(struct nodes_latency, cpu_ms), .max = 1e18},
    {"size", JSON_MEMBER(struct nodes_latency, size), .max = 1e14},
    {0},
};

static enum status read_latency(const struct json_at *node, struct nodes_latency *x,
                                struct json_at *colour)
{
    x->supported = true;
    PASS(json_rows_read(node, latency_rows, x));
    PASS(may_flag(node, "isBackwardNode", &x->backward));
    PASS(may_flag(node, "supportedOnFpga", &x->supported));
    PASS(json_optional(node, "colorClass", colour));
    return STATUS_OK;
}

/* Nodes without a colour are numbered first, in the order of the file, then the colours
 * ascending. */
enum status nodes_read_latencies(const struct graph_nodes *g, struct nodes_latency *latency,
                                 size_t *colours)
{
    enum status st;
    struct numbered *coloured = NULL;
    size_t n = 0, count = 0;
    TRY(ARRAY_NEW(coloured, g->n));
    for (size_t v = 0; v < g->n; v++) {
        struct json_at node = json_item(&g->node_list, v), colour;
        TRY(read_latency(&node, &latency[v], &colour));
        if (!colour.value) {
            latency[v].colour = (uint32_t)count++;
            continue;
        }
        coloured[n].node = (uint32_t)v;
        TRY(json_get_integer(&colour, INT64_MIN, INT64_MAX, &coloured[n++].number));
    }
    qsort(coloured, n, sizeof *coloured, compare_numbered);
    for (size_t i = 0; i < n; i++) {
        count += i == 0 || coloured[i].number != coloured[i - 1].number;
        latency[coloured[i].node].colour = (uint32_t)(count - 1);
    }
    *colours = count;
out:
    free(coloured);
    return st;
}

enum status nodes_degree(const struct json_at *list, uint32_t max, uint32_t *out)
{
    uint64_t degree;
    if (*list->key == '0' || !text_count(list->key, max, &degree))
        return json_error(list, "expected a tensor-parallel degree as the key");
    *out = (uint32_t)degree;
    return STATUS_OK;
}

enum status nodes_tell_members(const struct import_options *o, const struct graph_nodes *g,
                               char *const *name, const uint32_t *named_by)
{
    enum status st = STATUS_OK;
    struct import_members m = {.n = g->n};
    if (!o->members)
        return STATUS_OK;
    TRY(ARENA_NEW(&m.memory, m.member, m.n));
    for (size_t v = 0; v < g->n; v++) {
        char id[sizeof "-9223372036854775808"];
        snprintf(id, sizeof id, "%lld", (long long)g->id[v]);
        struct import_member *x = &m.member[v];
        x->id = arena_text(&m.memory, id);
        x->node = arena_text(&m.memory, name[v]);
        x->op = arena_text(&m.memory, name[named_by ? named_by[v] : v]);
        if (!x->id || !x->node || !x->op) {
            st = STATUS_NOMEM;
            goto out;
        }
    }
    MOVE(o->members, m);
out:
    import_members_free(&m);
    return st;
}
