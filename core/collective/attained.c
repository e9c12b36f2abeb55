/* What a collective attains on its members' devices: by their measured curves, else by the model of
 * core/cost/fabric.h. The shape is the ring's (all-to-all: every pair; sums in the switch: the
 * switch's) with bytes longer by what is lost on the way, so that contention lengthens what it
 * meets and a collective alone takes what the curve or the model says. */
#include <assert.h>
#include <math.h>

#include "core/collective/shapes.h"
#include "core/cost/fabric.h"

static_assert((int)FABRIC_ALLREDUCE == COLLECTIVE_ALLREDUCE &&
                  (int)FABRIC_ALLGATHER == COLLECTIVE_ALLGATHER &&
                  (int)FABRIC_REDUCESCATTER == COLLECTIVE_REDUCESCATTER &&
                  (int)FABRIC_ALLTOALL == COLLECTIVE_ALLTOALL &&
                  (int)FABRIC_BROADCAST == COLLECTIVE_BROADCAST,
              "kinds stand in one order");

/* The slowest tier on the way around the members. */
static const struct topology_tier *slowest_tier(const struct collective_group *g)
{
    const struct topology_tier *slowest = NULL;
    for (size_t k = 0; k < g->n; k++) {
        const struct topology_tier *t =
            collective_tier(g, g->order[k], g->order[k + 1 < g->n ? k + 1 : 0]);
        if (!slowest || t->bandwidth_Bps < slowest->bandwidth_Bps)
            slowest = t;
    }
    return slowest;
}

/* By the curves of every type among the members; the slowest counts. */
static bool by_curves(const struct collective_group *g, enum collective_kind kind, double bytes,
                      struct collective_attained *out)
{
    uint32_t last = UINT32_MAX, per_node = (uint32_t)(g->n / g->nodes);
    const struct topology *t = g->topology;
    const char *tier = NULL;
    if (!collective_equal_nodes(g))
        return false;
    for (size_t m = 0; m < g->n; m++) {
        double seconds, latency_s;
        const struct device_type *type = topology_type(t, g->device[m]);
        if (t->type_of[g->device[m]] == last)
            continue;
        last = t->type_of[g->device[m]];
        if (type->curves == 0)
            return false;
        if (!tier)
            tier = slowest_tier(g)->name;
        if (!fabric_seconds(type, (enum fabric_kind)kind, (uint32_t)g->n, per_node, tier, bytes,
                            &seconds, &latency_s))
            return false;
        if (seconds > out->seconds)
            out->seconds = seconds, out->latency_s = latency_s;
    }
    return true;
}

/* The constants of the first member's type, or what is taken for such a type. */
static struct fabric_model model_of(const struct collective_group *g, bool derive)
{
    const struct device_type *type = topology_type(g->topology, g->device[0]);
    bool said = type->fabric.share > 0, between = type->fabric.nic > 0;
    struct fabric_model m = said || !(derive || between) ? type->fabric : fabric_derive(type);
    m.start_s *= fitted_times(type->fitted.start);
    m.hop_s *= fitted_times(type->fitted.hop);
    return m;
}

static double latency_of(const struct collective_group *g, enum collective_kind kind,
                         const struct fabric_model *m)
{
    double n = (double)g->n, nodes = (double)g->nodes;
    if (g->nodes == 1)
        return m->start_s;
    if (kind == COLLECTIVE_ALLREDUCE)
        return 1.5 * m->start_s + 8 * m->hop_s * log2(nodes);
    return 1.5 * m->start_s + m->hop_s * (kind == COLLECTIVE_ALLTOALL ? nodes - 1 : n - 1);
}

bool collective_attain(const struct collective_group *g, enum collective_kind kind, double bytes,
                       const struct collective_options *options,
                       const struct collective_algorithm *chosen, struct collective_attained *out)
{
    struct collective_attained a = {0};
    bool fastest = collective_wants_fastest(options);
    if (kind > COLLECTIVE_BROADCAST || chosen == &collective_file ||
        (options && (options->nccl_protocols || (options->algorithm && !fastest))))
        return false; /* nothing is measured of the kinds behind it */
    if (by_curves(g, kind, bytes, &a)) {
        *out = a;
        return true;
    }
    struct fabric_model m = model_of(g, options && options->attained);
    if (m.share <= 0)
        return false;
    if (chosen->neighbours) {
        *out = (struct collective_attained){
            .latency_s = m.start_s, .inside = 1 / m.nic, .across = 1 / m.nic};
        return true;
    }
    a = (struct collective_attained){.latency_s = latency_of(g, kind, &m)};
    double lost = g->nodes == 1 && m.half_bytes > 0 ? 1 + pow(m.half_bytes / bytes, m.exponent) : 1;
    a.inside = lost / m.share;
    a.across = 1 / fabric_across(&m, (double)g->nodes);
    if (fastest) {
        a.latency_s = m.start_s; /* besides that of its shape, as of neighbours */
        *out = a;
        return true;
    }
    if (kind == COLLECTIVE_ALLREDUCE && g->nodes == 1 && m.reduce > 0 && g->n > 2) {
        /* Around a ring 2 (n - 1) / n of the buffer leave every member; to the switch all of it,
         * and of what it has summed every member's n-th, which the switch spreads. */
        double n = (double)g->n, ring = 2 * (n - 1) / n / m.share, summed = (n + 1) / n / m.reduce;
        a.switched = summed < ring;
        a.inside = a.switched ? lost * summed : a.inside;
    }
    *out = a;
    return true;
}

/* Is the flow within a node? */
static bool is_inside(const struct collective_group *g, const uint32_t *node,
                      const struct collective_flow *f)
{
    return g->nodes == 1 || node[f->from] == node[f->to];
}

void collective_stretch(const struct collective_group *g, const uint32_t *node,
                        const struct collective_attained *a, struct collective_shape *s)
{
    double latency_s = 0;
    for (size_t k = 0; k < s->phases; k++)
        latency_s += s->phase[k].latency_s;
    for (size_t k = 0; k < s->phases; k++)
        s->phase[k].latency_s = latency_s > 0 ? a->latency_s * (s->phase[k].latency_s / latency_s)
                                              : a->latency_s / (double)s->phases;
    for (size_t f = 0; f < s->flows; f++)
        s->flow[f].bytes *= is_inside(g, node, &s->flow[f]) ? a->inside : a->across;
}
