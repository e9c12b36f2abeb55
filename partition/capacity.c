/* Maximum flows over the links of a platform. A link is an arc between two vertices of its own,
 * from which the points lead on that routes join by it; one that only a single edge of the graph
 * uses is an arc between the ends of that edge. */
#include "partition/capacity.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "partition/device_order.h"
#include "partition/igraph_error.h"
#include "partition/tiers.h"

enum {
    MOST_PARTS = 64, /* of a group that have a flow each */
    BLOCKS_OF = 2048 /* devices, at most, whose halves in blocks are looked at */
};

struct capacity_arc {
    uint32_t from, to;
    double room_Bps; /* 0: as much as one likes */
};

struct plumbing {
    const struct topology *t;
    size_t vertices, arcs;
    struct capacity_arc *arc;
    double most_Bps; /* all links together: no cut of links is larger */
    uint32_t *side;  /* [devices] 0: neither, 1: source, 2: sink */
    igraph_vector_int_t ends;
    igraph_vector_t rooms;
};

/* ---- arcs */

static enum status add_arc(struct plumbing *p, uint32_t from, uint32_t to, double room_Bps)
{
    PASS(ARRAY_ROOM(p->arc, p->arcs));
    p->arc[p->arcs++] = (struct capacity_arc){from, to, room_Bps};
    return STATUS_OK;
}

/* What a link carries, 0 without limit. */
static double room_of(const struct topology *t, uint32_t link)
{
    return t->link[link].fat ? 0 : t->link[link].bandwidth_Bps;
}

/* Links have two vertices each, after the others. */
static uint32_t entry_of(size_t before, uint32_t link)
{
    return (uint32_t)(before + 2 * (size_t)link);
}

/* An arc for each link, unless it has `own` arcs elsewhere. */
static enum status add_links(struct plumbing *p, size_t before, const uint32_t *uses)
{
    const struct topology *t = p->t;
    p->vertices = before + 2 * t->links;
    for (uint32_t k = 0; k < t->links; k++)
        if (!uses || uses[k] > 1)
            PASS(add_arc(p, entry_of(before, k), entry_of(before, k) + 1, room_of(t, k)));
    return STATUS_OK;
}

/* The edges of the graph. */
static enum status capacity_add_edge(struct plumbing *p, uint32_t from, uint32_t edge,
                                     const uint32_t *uses)
{
    const struct route_graph *g = &p->t->graph;
    uint32_t first = g->first[edge], end = g->first[edge + 1], at = from;
    for (uint32_t h = first; h < end; h++) {
        uint32_t link = g->hop[h], entry = entry_of(g->vertices, link);
        bool single = uses[link] == 1, last = h + 1 == end;
        if (single && last)
            return add_arc(p, at, g->to[edge], room_of(p->t, link));
        if (single) { /* its second vertex serves as a joint */
            PASS(add_arc(p, at, entry + 1, room_of(p->t, link)));
        } else {
            PASS(add_arc(p, at, entry, 0));
        }
        at = entry + 1;
    }
    return add_arc(p, at, g->to[edge], 0);
}

static enum status plumb_graph(struct plumbing *p)
{
    enum status st;
    const struct route_graph *g = &p->t->graph;
    uint32_t *uses = NULL;
    TRY(ARRAY_NEW(uses, p->t->links));
    for (size_t h = 0; h < g->hops; h++)
        uses[g->hop[h]]++;
    TRY(add_links(p, g->vertices, uses));
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++)
            TRY(capacity_add_edge(p, v, e, uses));
out:
    free(uses);
    return st;
}

/* What follows what on the routes of the table, each once. */
static enum status plumb_table(struct plumbing *p)
{
    const struct route_table *table = &p->t->table;
    size_t n = p->t->n, distinct = 0;
    for (size_t k = 0; k < table->steps; k++)
        if (table->step[k].then != 0)
            PASS(add_arc(p, entry_of(n, table->step[k].link) + 1,
                         entry_of(n, table->step[table->step[k].then - 1].link), 0));
    for (size_t pair = 0; pair < n * n; pair++) {
        uint32_t at = table->head[pair];
        if (at == 0)
            continue;
        PASS(add_arc(p, (uint32_t)(pair / n), entry_of(n, table->step[at - 1].link), 0));
        while (table->step[at - 1].then != 0)
            at = table->step[at - 1].then;
        PASS(add_arc(p, entry_of(n, table->step[at - 1].link) + 1, (uint32_t)(pair % n), 0));
    }
    qsort(p->arc, p->arcs, sizeof *p->arc, order_by_pair);
    for (size_t k = 0; k < p->arcs; k++)
        if (k == 0 || order_by_pair(&p->arc[k], &p->arc[distinct - 1]) != 0)
            p->arc[distinct++] = p->arc[k];
    struct capacity_arc *fewer = NULL; /* an array that has only ever grown */
    for (size_t k = 0; k < distinct; k++) {
        PASS(ARRAY_ROOM(fewer, k));
        fewer[k] = p->arc[k];
    }
    free(p->arc);
    p->arc = fewer;
    p->arcs = distinct;
    return add_links(p, n, NULL);
}

/* ---- flows */

/* Arcs between two vertices more, from the sources and to the sinks. */
static igraph_error_t list_arcs(struct plumbing *p, igraph_integer_t source)
{
    const struct route_graph *g = &p->t->graph;
    igraph_vector_int_clear(&p->ends);
    igraph_vector_clear(&p->rooms);
    for (size_t k = 0; k < p->arcs; k++) {
        double room = p->arc[k].room_Bps > 0 ? p->arc[k].room_Bps : 2 * p->most_Bps;
        IGRAPH_CHECK(igraph_vector_int_push_back(&p->ends, p->arc[k].from));
        IGRAPH_CHECK(igraph_vector_int_push_back(&p->ends, p->arc[k].to));
        IGRAPH_CHECK(igraph_vector_push_back(&p->rooms, room));
    }
    for (uint32_t i = 0; i < p->t->n; i++) {
        igraph_integer_t at = g->vertices > 0 ? g->vertex[i] : i;
        if (p->side[i] == 0)
            continue;
        IGRAPH_CHECK(igraph_vector_int_push_back(&p->ends, p->side[i] == 1 ? source : at));
        IGRAPH_CHECK(igraph_vector_int_push_back(&p->ends, p->side[i] == 1 ? at : source + 1));
        IGRAPH_CHECK(igraph_vector_push_back(&p->rooms, 2 * p->most_Bps));
    }
    return IGRAPH_SUCCESS;
}

/* The maximum flow from the devices of side 1 to those of side 2. */
static enum status flow(struct plumbing *p, double *out)
{
    igraph_t graph;
    igraph_real_t value = 0;
    igraph_integer_t source = (igraph_integer_t)p->vertices;
    PASS(from_igraph(list_arcs(p, source)));
    PASS(from_igraph(igraph_create(&graph, &p->ends, source + 2, IGRAPH_DIRECTED)));
    igraph_error_t e = igraph_maxflow_value(&graph, &value, source, source + 1, &p->rooms, NULL);
    igraph_destroy(&graph);
    PASS(from_igraph(e));
    *out = value > p->most_Bps * (1 + 1e-9) ? INFINITY : value;
    return STATUS_OK;
}

/* Half of every block of so many devices, in their order or, without, in the file's, against the
 * rest. */
static enum status halve(struct plumbing *p, const uint32_t *order, size_t block, double *least)
{
    double one;
    for (size_t i = 0; i < p->t->n; i++)
        p->side[order ? order[i] : i] = i % block < block / 2 ? 1 : 2;
    PASS(flow(p, &one));
    *least = fmin(*least, one);
    return STATUS_OK;
}

/* The halves between which least can flow, of those that are looked at. Blocks in the file's order
 * are cuts along each axis of a torus; those of less than a node only cut nodes apart. */
static enum status capacity_bisect(struct plumbing *p, double *out)
{
    enum status st;
    size_t n = p->t->n, least = 2;
    double flows = INFINITY;
    uint32_t *order = NULL;
    struct tiers tiers = {0};
    TRY(tiers_find(p->t, &tiers));
    if (tiers.levels > 1)
        for (size_t i = least = 0; i < n; i++)
            least += tiers.level[0].group_of[i] == tiers.level[0].group_of[0];
    TRY(ARRAY_NEW(order, n));
    TRY(device_order_near(p->t, order));
    TRY(halve(p, order, n, &flows));
    for (size_t block = n; block > least; block--)
        if (n % block == 0 && block % 2 == 0 && (block == n || n <= BLOCKS_OF))
            TRY(halve(p, NULL, block, &flows));
    *out = flows;
out:
    free(order);
    tiers_free(&tiers);
    return st;
}

/* What devices of the same part as d (d itself without parts) send to all others. */
static enum status send_out(struct plumbing *p, const uint32_t *part_of, uint32_t d, double *out)
{
    for (uint32_t i = 0; i < p->t->n; i++)
        p->side[i] = (part_of ? part_of[i] == part_of[d] : i == d) ? 1 : 2;
    return flow(p, out);
}

/* The first group of a level: its parts' sum over its own. */
static enum status oversubscribe(struct plumbing *p, const struct tiers_level *level,
                                 const uint32_t *part_of, double *out)
{
    double own, sum = 0, one;
    size_t parts = 0;
    uint32_t next = 0;
    PASS(send_out(p, level->group_of, 0, &own));
    for (uint32_t i = 0; i < p->t->n; i++) {
        bool first =
            !part_of || part_of[i] == next; /* parts are numbered by their lowest devices */
        next += first;
        if (level->group_of[i] != level->group_of[0] || !first)
            continue;
        if (parts++ >= MOST_PARTS)
            continue;
        PASS(send_out(p, part_of, i, &one));
        sum += one;
    }
    if (parts > MOST_PARTS) { /* the first stands for all */
        PASS(send_out(p, part_of, 0, &one));
        sum = one * (double)parts;
    }
    *out = isfinite(sum) && isfinite(own) ? sum / own : 0;
    return STATUS_OK;
}

/* All levels but the last, whose group is everybody. */
static enum status oversubscribe_levels(struct plumbing *p, double *out)
{
    struct tiers tiers = {0};
    enum status st;
    TRY(tiers_find(p->t, &tiers));
    for (size_t l = 0; l + 1 < tiers.levels; l++)
        TRY(oversubscribe(p, &tiers.level[l], l > 0 ? tiers.level[l - 1].group_of : NULL,
                          &out[tiers.level[l].tier]));
out:
    tiers_free(&tiers);
    return st;
}

enum status capacity_find(struct topology *t)
{
    enum status st;
    double bisection_Bps, *over = NULL;
    struct plumbing p = {.t = t};
    if (t->links == 0 || t->n < 2 || t->n > CAPACITY_DEVICES)
        return STATUS_OK;
    igraph_set_error_handler(igraph_error_handler_ignore);
    PASS(from_igraph(igraph_vector_int_init(&p.ends, 0)));
    st = from_igraph(igraph_vector_init(&p.rooms, 0));
    if (st != STATUS_OK) {
        igraph_vector_int_destroy(&p.ends);
        return st;
    }
    TRY(ARRAY_NEW(over, t->tiers));
    TRY(ARRAY_NEW(p.side, t->n));
    for (size_t k = 0; k < t->links; k++)
        p.most_Bps += t->link[k].bandwidth_Bps;
    TRY(t->graph.vertices > 0 ? plumb_graph(&p) : plumb_table(&p));
    TRY(capacity_bisect(&p, &bisection_Bps));
    TRY(oversubscribe_levels(&p, over));
    free(t->oversubscription);
    t->oversubscription = over;
    t->bisection_Bps = bisection_Bps;
    over = NULL;
out:
    igraph_vector_int_destroy(&p.ends);
    igraph_vector_destroy(&p.rooms);
    free(over);
    free(p.side);
    free(p.arc);
    return st;
}
