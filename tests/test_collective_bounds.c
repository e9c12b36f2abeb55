/* Collectives on every family of generated platforms against what no algorithm can be faster than:
 * not over 1.3 times, or the table below says why. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/collective/collective.h"
#include "partition/capacity.h"
#include "sim/call.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/sample.h"

static const double tolerance = 1.3;

static const char *const specs[] = {
    "node:gpus=8",
    "mesh:gpus=8",
    "rail:nodes=4,gpus=4",
    "leaf-spine:nodes=8,gpus=2,rack=4,oversubscription=2",
    "fat-tree:nodes=8,gpus=2,edge=2,pod=2",
    "dragonfly+:groups=3,leaves=2,nodes=2,gpus=2,nics=2",
    "torus:x=4,y=4",
    "torus:x=6,y=4,z=2",
    "torus:x=3,y=3,gpus=2",
    "wan:sites=2,nodes=2,gpus=4",
    "nvl:domains=2,gpus=8",
};

/* What may be more, up to a factor, and why. */
static const struct exception {
    const char *spec, *kinds; /* beginning of the one, the other */
    double most;
    const char *why;
} exceptions[] = {
    {"rail", "scatter", 4, "all leaves by the first member's own port; no plan has scatters"},
    {"dragonfly+", "gather", 2, "the same, of gathers"},
    {"dragonfly+", "scatter", 2, "the same"},
    {"nvl", "gather", 8, "the same"},
    {"nvl", "scatter", 8, "the same"},
    {"torus:x=6,y=4,z=2", "broadcast", 1.77,
     "where a dimension is a row, a tree for each of "
     "three dimensions, not for each of five links"},
    {"torus:x=6,y=4,z=2", "reduce", 1.77, "the same"},
    {"torus:x=6,y=4,z=2", "gather", 1.77, "the same"},
    {"torus:x=6,y=4,z=2", "scatter", 1.77, "the same"},
    {"torus:x=3,y=3,gpus=2", "all-to-all", 1.51,
     "the bound: a half of nine nodes is no cut "
     "along the torus; links are full"},
};

/* Bytes per second out of a device: of its links. */
static double egress_of(const struct topology *t, uint32_t device)
{
    double Bps = 0;
    const struct route_graph *g = &t->graph;
    uint32_t v = g->vertex[device];
    for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++)
        Bps += t->link[g->hop[g->first[e]]].bandwidth_Bps;
    return Bps;
}

/* Nodes of several devices; 1: there are none, or no others. */
static size_t nodes_of(const struct topology *t, const struct collective_group *g)
{
    size_t nodes = t->grid.each > 0 ? t->n / t->grid.each : g->nodes;
    return nodes == t->n ? 1 : nodes;
}

/* Bytes per second out of the first node. */
static double node_egress(const struct topology *t, const struct collective_group *g)
{
    double Bps = 0;
    if (t->grid.dimensions > 0) {
        for (size_t d = 0; d < GRID_DIMENSIONS; d++)
            Bps += (t->grid.wraps[d] ? 2 : t->grid.length[d] > 1 ? 1 : 0) * 50e9;
        return Bps;
    }
    for (uint32_t d = 0; d < t->n; d++)
        if (t->node_of[d] != t->node_of[0])
            Bps = fmax(Bps, topology_between(t, 0, d)->bandwidth_Bps);
    return Bps * collective_nics(g);
}

/* The least seconds of a set of `own` of n members, out of which Bps lead, or into it. */
static double cut_seconds(enum collective_kind kind, double S, double own, double n, double Bps)
{
    double others = n - own;
    switch (kind) {
    case COLLECTIVE_ALLREDUCE: /* of equal sets each; of one cut: the sum out, the sum in */
        return fmax(2 * S * others / n * (own < n / 2 ? 1 : 0), S) / Bps;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCESCATTER:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
        return S * others / n / Bps;
    case COLLECTIVE_ALLTOALL:
        return S / n * own * others / Bps;
    default:
        return S / Bps;
    }
}

static double bound_of(const struct topology *t, const struct collective_group *g,
                       enum collective_kind kind, double bytes)
{
    double n = (double)t->n, latency_s = 0;
    size_t nodes = nodes_of(t, g);
    double bound = cut_seconds(kind, bytes, 1, n, egress_of(t, 0));
    if (nodes > 1)
        bound = fmax(bound, cut_seconds(kind, bytes, n / (double)nodes, n, node_egress(t, g)));
    bound = fmax(bound, cut_seconds(kind, bytes, n / 2, n, t->bisection_Bps));
    for (uint32_t d = 1; d < t->n; d++)
        latency_s = fmax(latency_s, topology_between(t, 0, d)->latency_s);
    return bound + latency_s;
}

static const struct exception *excepted(const char *spec, enum collective_kind kind)
{
    for (size_t k = 0; k < sizeof exceptions / sizeof *exceptions; k++)
        if (!strncmp(spec, exceptions[k].spec, strlen(exceptions[k].spec)) &&
            !strcmp(collective_kind_name[kind], exceptions[k].kinds))
            return &exceptions[k];
    return NULL;
}

/* The fastest algorithm that works in links: not the switch. */
static double fastest(struct call *c, const struct collective_group *g, const char **name)
{
    double best = INFINITY, seconds;
    for (size_t a = 0; a < collective_algorithms_n; a++) {
        struct collective_options o = {.algorithm = collective_algorithms[a]->name};
        if (!collective_applies(collective_algorithms[a], g,
                                (enum collective_kind)op_collective[c->kind]) ||
            !strcmp(o.algorithm, "switch"))
            continue;
        if (call_simulate(c, &engine_analytic, &o, &seconds) != STATUS_OK)
            fail_msg("%s", error_message());
        if (seconds < best)
            best = seconds, *name = o.algorithm;
    }
    return best;
}

static void collectives_are_near_their_bounds(void **state)
{
    size_t over = 0;
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        uint32_t device[64];
        struct topology t = generated(specs[k]);
        struct collective_group g;
        assert_int_equal(capacity_find(&t), STATUS_OK);
        for (uint32_t d = 0; d < t.n; d++)
            device[d] = d;
        assert_int_equal(collective_group_make(&t, device, t.n, &g), STATUS_OK);
        for (int64_t bytes = 256000000; bytes <= 1024000000; bytes *= 4)
            for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++) {
                struct call c = {&t, generated_path, t.n, kind, bytes};
                enum collective_kind of = (enum collective_kind)op_collective[kind];
                const char *name = "";
                double seconds = fastest(&c, &g, &name);
                double bound = bound_of(&t, &g, of, (double)bytes);
                const struct exception *x = excepted(specs[k], of);
                double most = x ? x->most : tolerance;
                /* an exception that is none would hide the next one */
                double least = x ? tolerance : 1 - 1e-9;
                if (seconds >= least * bound && seconds <= most * bound)
                    continue;
                print_message("%s, %s of %g bytes: %s %g s, %.3f times the bound%s%s\n", specs[k],
                              collective_kind_name[of], (double)bytes, name, seconds,
                              seconds / bound, x ? "; " : "", x ? x->why : "");
                over++;
            }
        collective_group_free(&g);
        topology_free(&t);
    }
    assert_int_equal(over, 0);
}

/* SimGrid sends whole bytes: what flows have beyond them is lost. */
static void both_engines_agree_on_all_algorithms(void **state)
{
    static const char *const few[] = {"torus:x=3,y=2,gpus=2", "mesh:gpus=5",
                                      "leaf-spine:nodes=3,gpus=2,rack=2"};
    for (size_t k = 0; k < sizeof few / sizeof *few; k++) {
        struct topology t = generated(few[k]);
        for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++)
            for (size_t a = 0; a < collective_algorithms_n; a++) {
                const struct call c = {&t, generated_path, t.n, kind, 72000000};
                struct collective_options o = {.algorithm = collective_algorithms[a]->name};
                double quick_s, slow_s;
                if (!collective_algorithms[a]->serves[op_collective[kind]])
                    continue;
                assert_int_equal(call_simulate(&c, &engine_analytic, &o, &quick_s), STATUS_OK);
                assert_int_equal(call_simulate(&c, &engine_simgrid, &o, &slow_s), STATUS_OK);
                if (!(fabs(quick_s - slow_s) <= 1e-6 * slow_s))
                    fail_msg("%s, %s by %s: %g s, SimGrid %g s", few[k],
                             collective_kind_name[op_collective[kind]], o.algorithm, quick_s,
                             slow_s);
            }
        topology_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_near_their_bounds),
        cmocka_unit_test(both_engines_agree_on_all_algorithms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
