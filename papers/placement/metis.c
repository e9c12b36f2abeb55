/* The split that a general graph partitioner finds: latencies balanced, the cut small.
 *
 * Of several partitions (seeds x imbalances) by METIS the one with the best value is kept,
 * after units were moved out of accelerators that are too full. Units that accelerators do not
 * support go to the first CPU beforehand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "papers/placement/graph.h"
#include "partition/graph/metis.h"

/* METIS knows neither the largest load nor what a part pays for its cut, so try several. */
static const double imbalances[] = {1.001, 1.03, 1.1, 1.3};
enum { SEEDS = 4, TRIES = SEEDS * sizeof imbalances / sizeof *imbalances };

struct metis_attempt_work {
    struct placement_problem p;
    struct placement_graph g;
    struct metis_graph graph; /* of the units that accelerators support */
    struct metis_edge *edge;
    double *weight;
    uint32_t *vertex, *unit; /* [g.n] vertex of a unit, and back */
    uint32_t *part;          /* [g.n] of a vertex */
    uint32_t *at, *device;   /* [g.n] device of a unit; [p.n] of a node */
    bool *on_cpu;            /* [devices] */
    double *room, *load;     /* [devices] */
    size_t devices, moved;
    struct arena memory;
};

static void work_free(struct metis_attempt_work *w)
{
    placement_graph_free(&w->g);
    placement_free(&w->p);
    arena_free(&w->memory);
}

static enum status placement_metis_prepare(const struct objective_request *r,
                                           struct metis_attempt_work *w)
{
    PASS(placement_read(r, &w->p));
    if (w->p.accelerators == 0)
        return error_set(STATUS_INFEASIBLE,
                         "%s: --algorithm metis needs accelerators, but the file has none",
                         r->spec);
    PASS(placement_merge(&w->p, INFINITY, &w->g));
    size_t n = w->g.n;
    w->devices = w->p.accelerators + w->p.cpus;
    PASS(ARENA_NEW(&w->memory, w->edge, w->g.net_start[w->g.nets] + 1));
    PASS(ARENA_NEW(&w->memory, w->weight, n));
    PASS(ARENA_NEW(&w->memory, w->vertex, n));
    PASS(ARENA_NEW(&w->memory, w->unit, n));
    PASS(ARENA_NEW(&w->memory, w->part, n));
    PASS(ARENA_NEW(&w->memory, w->at, n));
    PASS(ARENA_NEW(&w->memory, w->device, w->p.n));
    PASS(ARENA_NEW(&w->memory, w->on_cpu, w->devices));
    PASS(ARENA_NEW(&w->memory, w->room, w->devices));
    PASS(ARENA_NEW(&w->memory, w->load, w->devices));
    return STATUS_OK;
}

/* Names the first node of unit u that accelerators do not support. */
static enum status refuse_unit(const struct objective_request *r,
                               const struct metis_attempt_work *w, uint32_t u)
{
    size_t v = 0;
    while (w->g.unit[v] != u || w->p.latency[v].supported)
        v++;
    return error_set(STATUS_INFEASIBLE,
                     "%s: node %lld does not run on accelerators (supportedOnFpga is 0), and there "
                     "is no CPU",
                     r->spec, (long long)w->p.id[v]);
}

/* A net becomes edges from its source to each of its readers: METIS knows no nets. */
static enum status build_graph(const struct objective_request *r, struct metis_attempt_work *w)
{
    for (size_t d = w->p.accelerators; d < w->devices; d++)
        w->on_cpu[d] = true;
    for (uint32_t u = 0; u < w->g.n; u++) {
        if (!w->g.supported[u] && w->p.cpus == 0)
            return refuse_unit(r, w, u);
        w->vertex[u] = (uint32_t)w->graph.n;
        if (w->g.supported[u]) {
            w->weight[w->graph.n] = w->g.accelerator[u];
            w->unit[w->graph.n++] = u;
        }
    }
    for (size_t e = 0; e < w->g.nets; e++)
        for (size_t k = w->g.net_start[e]; k < w->g.net_start[e + 1]; k++) {
            uint32_t from = w->g.net_source[e], to = w->g.net_dest[k];
            if (w->g.supported[from] && w->g.supported[to])
                w->edge[w->graph.edges++] =
                    (struct metis_edge){w->vertex[from], w->vertex[to], w->g.net_cost[e]};
        }
    w->graph.weight = w->weight;
    w->graph.edge = w->edge;
    return STATUS_OK;
}

/* ---- memory */

/* Free bytes and latency of every device. */
static void measure_room(struct metis_attempt_work *w)
{
    for (size_t d = 0; d < w->devices; d++) {
        w->room[d] = w->on_cpu[d] ? INFINITY : w->p.memory_bytes;
        w->load[d] = 0;
    }
    for (size_t u = 0; u < w->g.n; u++) {
        w->room[w->at[u]] -= w->g.size[u];
        w->load[w->at[u]] += w->on_cpu[w->at[u]] ? w->g.cpu[u] : w->g.accelerator[u];
    }
}

/* Device with room for unit u that it would keep least busy; an accelerator if one has room. */
static size_t roomiest(const struct metis_attempt_work *w, uint32_t u)
{
    size_t best = w->devices;
    for (size_t d = 0; d < w->devices; d++) {
        if (d == w->at[u] || w->room[d] < w->g.size[u])
            continue;
        if (best == w->devices || (!w->on_cpu[d] && w->load[d] < w->load[best]) ||
            (w->on_cpu[d] && w->on_cpu[best] && w->load[d] < w->load[best]))
            best = d;
    }
    return best;
}

/* Move the largest unit that another device has room for out of `full`, to where it disturbs
 * the balance least; false when no unit can leave. */
static bool relieve(struct metis_attempt_work *w, size_t full)
{
    size_t best = w->g.n, to = w->devices;
    for (uint32_t u = 0; u < w->g.n; u++) {
        if (w->at[u] != full || w->g.size[u] <= 0 ||
            (best < w->g.n && w->g.size[u] <= w->g.size[best]))
            continue;
        size_t d = roomiest(w, u);
        if (d == w->devices)
            continue;
        best = u;
        to = d;
    }
    if (best == w->g.n)
        return false;
    w->at[best] = (uint32_t)to;
    w->moved++;
    measure_room(w);
    return true;
}

/* Accelerators are relieved one by one; false when there is no room anywhere. */
static bool fit_memory(struct metis_attempt_work *w)
{
    w->moved = 0;
    measure_room(w);
    for (size_t d = 0; d < w->p.accelerators; d++)
        while (w->room[d] < 0)
            if (!relieve(w, d))
                return false;
    return true;
}

/* ---- the best of several */

struct metis_best {
    double value;
    uint32_t *device; /* [p.n] */
    size_t moved, tries, fitting;
    double imbalance;
};

/* One partition, judged by the exact value. */
static enum status placement_metis_attempt(struct metis_attempt_work *w,
                                           const struct metis_options *o, struct metis_best *best)
{
    double value = 0;
    PASS(metis_partition(&w->graph, w->p.accelerators, o, w->part));
    for (uint32_t u = 0; u < w->g.n; u++)
        w->at[u] = (uint32_t)w->p.accelerators; /* the first CPU */
    for (size_t v = 0; v < w->graph.n; v++)
        w->at[w->unit[v]] = w->part[v];
    best->tries++;
    if (!fit_memory(w))
        return STATUS_OK;
    best->fitting++;
    for (size_t v = 0; v < w->p.n; v++)
        w->device[v] = w->at[w->g.unit[v]];
    PASS(placement_loads(&w->p, w->device, w->devices, w->on_cpu, w->load));
    for (size_t d = 0; d < w->devices; d++)
        value = fmax(value, w->load[d]);
    if (value < best->value) {
        best->value = value;
        best->moved = w->moved;
        best->imbalance = o->imbalance;
        memcpy(best->device, w->device, w->p.n * sizeof *w->device);
    }
    return STATUS_OK;
}

static enum status placement_metis_explain(const struct metis_attempt_work *w,
                                           const struct metis_best *best,
                                           struct objective_result *out)
{
    char moved[64] = "";
    if (best->moved > 0)
        snprintf(moved, sizeof moved, "; %zu groups moved to fit memory", best->moved);
    return objective_set_note(
        out,
        "METIS on %zu groups of nodes; best of %zu partitions, each bisection "
        "allowed %g %% imbalance%s",
        w->graph.n, best->fitting, 100 * (best->imbalance - 1), moved);
}

enum status placement_metis_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct metis_attempt_work w = {0};
    struct metis_best best = {.value = INFINITY};
    TRY(placement_metis_prepare(r, &w));
    TRY(build_graph(r, &w));
    TRY(ARENA_NEW(&w.memory, best.device, w.p.n));
    for (size_t i = 0; i < TRIES && !(i > 0 && r->stop && *r->stop); i++) {
        const struct metis_options o = {.seed = SEEDS * r->seed + i % SEEDS,
                                        .imbalance = imbalances[i / SEEDS]};
        TRY(placement_metis_attempt(&w, &o, &best));
    }
    if (isinf(best.value))
        FAIL(STATUS_INFEASIBLE,
             "%s: none of METIS's %zu partitions fits accelerators of %.6g bytes, even after "
             "groups of nodes are moved",
             r->spec, best.tries, w.p.memory_bytes);
    out->lower_bound = NAN;
    out->interrupted = best.tries < TRIES;
    TRY(placement_result(&w.p, best.device, NULL, out));
    TRY(placement_metis_explain(&w, &best, out));
out:
    work_free(&w);
    return st;
}
