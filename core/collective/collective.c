/* Collective operations: the table of algorithms, the choice among them, and the closed form of the
 * shape that one makes. */
#include "core/collective/collective.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/collective/shapes.h"

const char *const collective_protocol_name[COLLECTIVE_PROTOCOLS] = {"ideal", "LL", "LL128",
                                                                    "Simple"};

#define COLLECTIVE(name) &collective_##name,
const struct collective_algorithm *const collective_algorithms[] = {
#include "core/collective/algorithms.def"
};
#undef COLLECTIVE
const size_t collective_algorithms_n = sizeof collective_algorithms / sizeof *collective_algorithms;

const char *collective_name(size_t i)
{
    if (i == 0)
        return "auto";
    return i <= collective_algorithms_n ? collective_algorithms[i - 1]->name : NULL;
}

enum status collective_find(const char *name, const struct collective_algorithm **out)
{
    if (strcmp(name, "auto") != 0)
        return text_find("collective algorithm", name, collective_algorithms,
                         collective_algorithms_n, out);
    *out = NULL;
    return STATUS_OK;
}

/* ---- closed form */

/* What passes the ports of the members and, behind them, of the nodes: a list for each and each
 * direction, with an entry for each bandwidth, since tiers of one bandwidth share a port. */
struct collective_ports {
    uint32_t *node;  /* [n] of each member */
    uint32_t *first; /* [2 * (n + nodes)] into load, or NONE */
    struct load {
        double bandwidth_Bps, seconds;
        uint32_t next;
    } * load; /* what flows or tiers can make necessary, whichever is less */
    uint32_t loads;
    double nics; /* of a node; 0: not counted */
};
static const uint32_t NONE = UINT32_MAX;

/* Lists for all ports, empty; room for one load per flow and port, or per tier, whichever is
 * less. */
static enum status ports_open(const struct collective_group *g, size_t flows, double nics,
                              struct collective_ports *p)
{
    size_t ends = 2 * (g->n + g->nodes), all = ends * g->topology->tiers;
    *p = (struct collective_ports){.nics = nics};
    PASS(ARRAY_NEW(p->node, g->n));
    PASS(ARRAY_NEW(p->first, ends));
    PASS(ARRAY_NEW(p->load, all < 4 * flows ? all : 4 * flows));
    for (uint32_t k = 0; k < g->nodes; k++)
        for (size_t i = g->node_start[k]; i < g->node_start[k + 1]; i++)
            p->node[g->order[i]] = k;
    return STATUS_OK;
}

static void ports_free(struct collective_ports *p)
{
    free(p->node);
    free(p->first);
    free(p->load);
}

/* Seconds that the port is busy, these included. */
static double collective_port_seconds(struct collective_ports *p, size_t end, double bandwidth_Bps,
                                      double seconds)
{
    uint32_t at = p->first[end];
    while (at != NONE && p->load[at].bandwidth_Bps != bandwidth_Bps)
        at = p->load[at].next;
    if (at == NONE) {
        at = p->loads++;
        p->load[at] = (struct load){bandwidth_Bps, 0, p->first[end]};
        p->first[end] = at;
    }
    return p->load[at].seconds += seconds;
}

/* Seconds of a phase: those of its busiest port, over the ports of members in both directions
 * and, where a node shares its network interfaces, those of nodes. A flow alone is part of what
 * its ports carry, so it needs no look of its own. */
static double transfer_seconds(const struct collective_group *g, const struct collective_shape *s,
                               const struct collective_phase *phase, struct collective_ports *p)
{
    double worst = 0;
    if (s->algorithm->transfer_s)
        return s->algorithm->transfer_s(g, s, phase);
    memset(p->first, 0xff, 2 * (g->n + g->nodes) * sizeof *p->first);
    p->loads = 0;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        const struct collective_flow *flow = &s->flow[f];
        double Bps = collective_tier(g, flow->from, flow->to)->bandwidth_Bps;
        double seconds = flow->bytes / Bps;
        double out = collective_port_seconds(p, 2 * (size_t)flow->from, Bps, seconds);
        double in = collective_port_seconds(p, 2 * (size_t)flow->to + 1, Bps, seconds);
        uint32_t from = p->node[flow->from], to = p->node[flow->to];
        worst = larger(worst, larger(out, in)); /* a flow is part of what its ports carry */
        if (p->nics > 0 && from != to) {
            out = collective_port_seconds(p, 2 * (g->n + from), Bps, seconds / p->nics);
            in = collective_port_seconds(p, 2 * (g->n + to) + 1, Bps, seconds / p->nics);
            worst = larger(worst, larger(out, in));
        }
    }
    return worst;
}

/* The closed form of a shape as it stands. */
static void close_phases(const struct collective_group *g, struct collective_ports *p,
                         struct collective_shape *s)
{
    s->seconds = 0;
    for (size_t k = 0; k < s->phases; k++) {
        s->phase[k].transfer_s = transfer_seconds(g, s, &s->phase[k], p);
        s->seconds += s->phase[k].latency_s + s->phase[k].transfer_s;
    }
}

/* Make one phase of all: as long as its busiest port, and what the first and the last chunk leave
 * idle: all phases after one another, less that, a chunk's share of it. */
static void run_in_chunks(const struct collective_group *g, struct collective_ports *p,
                          struct collective_shape *s)
{
    double largest = 0, latency_s = 0, transfer_s = 0;
    if (s->phases < 2)
        return;
    for (size_t f = 0; f < s->flows; f++)
        largest = larger(largest, s->flow[f].bytes);
    for (size_t k = 0; k < s->phases; k++) {
        latency_s += s->phase[k].latency_s;
        transfer_s += s->phase[k].transfer_s;
    }
    s->phases = 0;
    collective_end_phase(s, latency_s);
    double busiest_s = transfer_seconds(g, s, s->phase, p);
    s->phase[0].latency_s += (transfer_s - busiest_s) / s->algorithm->chunks(largest);
    s->phase[0].transfer_s = busiest_s;
    s->seconds = s->phase[0].latency_s + busiest_s;
}

enum status collective_close(const struct collective_group *g, double nics,
                             struct collective_attained *a, struct collective_shape *s)
{
    enum status st;
    struct collective_ports p;
    TRY(ports_open(g, s->flows, nics, &p));
    if (a && a->seconds > 0) {
        double transfer_s = 0;
        close_phases(g, &p, s);
        for (size_t k = 0; k < s->phases; k++)
            transfer_s += s->phase[k].transfer_s;
        a->inside = a->across = larger(a->seconds - a->latency_s, 1e-6 * a->seconds) / transfer_s;
        a->latency_s = larger(a->seconds - a->inside * transfer_s, 0);
    }
    if (a)
        collective_stretch(g, p.node, a, s);
    close_phases(g, &p, s);
    if (s->algorithm->chunks)
        run_in_chunks(g, &p, s);
out:
    ports_free(&p);
    return st;
}

/* ---- shapes */

/* NCCL's estimate instead of the topology's: bytes grow by what the protocol costs. */
static void apply_protocol(struct collective_shape *s, const struct collective_choice *choice)
{
    struct collective_phase *phase = s->phase;
    double factor = choice->transfer_s / phase->transfer_s;
    assert(s->phases == 1);
    for (size_t f = 0; f < s->flows; f++)
        s->flow[f].bytes *= factor;
    phase->latency_s = choice->latency_s;
    phase->transfer_s = choice->transfer_s;
    s->seconds = phase->latency_s + phase->transfer_s;
    s->protocol = choice->protocol;
}

size_t collective_count_channels(const struct collective_group *g,
                                 const struct collective_options *o)
{
    size_t most = g->nodes > 1 ? collective_smallest_node(g) : 1;
    double asked = o && o->nics > 1 ? ceil(o->nics) : 1;
    return asked < (double)most ? (size_t)asked : most;
}

bool collective_applies(const struct collective_algorithm *a, const struct collective_group *g,
                        enum collective_kind kind)
{
    return a->serves[kind] && (!a->equal_nodes || collective_equal_nodes(g)) &&
           (!a->neighbours || g->grid) && (a->most == 0 || g->n <= a->most);
}

/* The first of the list that applies, where the table below knows no better. */
static const struct collective_algorithm *fallback(const struct collective_group *g,
                                                   enum collective_kind kind)
{
    size_t i = 0;
    while (!collective_algorithms[i]->plain ||
           !collective_applies(collective_algorithms[i], g, kind))
        i++;
    return collective_algorithms[i];
}

/* A network of neighbours, which NCCL's table knows nothing about: not NVLink or PCIe in a node. */
static bool is_network_of_neighbours(const struct collective_group *g)
{
    const struct collective_grid *grid = g->grid;
    size_t stride = 1;
    if (!grid || g->n == 2)
        return false;
    for (size_t d = 0; d < GRID_DIMENSIONS && grid->length[d] == 1; d++)
        stride *= grid->length[d];
    return !topology_tier_inside(
        collective_tier(g, grid->member[0], grid->member[stride * grid->each]));
}

enum status collective_choose(const struct collective_group *g, enum collective_kind kind,
                              int64_t bytes, const struct collective_options *options,
                              struct collective_choice *out)
{
    const struct collective_algorithm *asked = NULL;
    struct collective_choice choice = {0};
    if (options && options->algorithm)
        PASS(collective_find(options->algorithm, &asked));
    if (bytes < 0)
        return error_set(STATUS_INVALID, "%s: got a size of %" PRId64 " bytes, expected 0 or more",
                         collective_kind_name[kind], bytes);
    if (g->n > 1 && options && collective_follows(options->steps, kind, bytes, g->n)) {
        *out = (struct collective_choice){.algorithm = &collective_file};
        return STATUS_OK;
    }
    bool fastest = collective_wants_fastest(options);
    if (asked && !collective_applies(asked, g, kind))
        asked = NULL;
    choice.algorithm = asked ? asked : fallback(g, kind);
    if (g->n > 1 && bytes > 0)
        collective_table(g, kind, (double)bytes, (uint32_t)collective_count_channels(g, options),
                         asked, &choice);
    if (g->n > 1 && bytes > 0 && !asked && (fastest || is_network_of_neighbours(g)))
        PASS(collective_take_fastest(g, kind, (double)bytes, options, &choice));
    *out = choice;
    return STATUS_OK;
}

/* What is attained by the usual algorithm takes the place of the fastest one's shape if it is less,
 * or measured. */
static enum status take_usual(const struct collective_group *g, enum collective_kind kind,
                              int64_t bytes, const struct collective_options *options,
                              bool measured, struct collective_shape *s)
{
    struct collective_options usual = *options;
    struct collective_shape other;
    usual.algorithm = NULL;
    PASS(collective_shape_make(g, kind, bytes, &usual, &other));
    if (measured || other.seconds <= s->seconds) {
        struct collective_shape slower = *s;
        *s = other;
        other = slower;
    }
    collective_shape_free(&other);
    return STATUS_OK;
}

enum status collective_shape_make(const struct collective_group *g, enum collective_kind kind,
                                  int64_t bytes, const struct collective_options *options,
                                  struct collective_shape *out)
{
    enum status st;
    struct collective_shape s = {0};
    struct collective_choice choice;
    struct collective_attained a = {0};
    bool fastest = collective_wants_fastest(options);

    TRY(collective_choose(g, kind, bytes, options, &choice));
    s.algorithm = choice.algorithm;
    if (g->n > 1 && bytes > 0) {
        bool attained = collective_attain(g, kind, (double)bytes, options, s.algorithm, &a);
        s.lengthened = attained;
        if (attained && !fastest && (!s.algorithm->neighbours || a.seconds > 0))
            s.algorithm = a.switched ? &collective_switch : fallback(g, kind);
        if (s.algorithm == &collective_file)
            TRY(collective_follow(g, options->steps, (double)bytes, &s));
        else
            TRY(s.algorithm->shape(g, kind, (double)bytes, collective_count_channels(g, options),
                                   &s));
        for (size_t k = 0; (fastest || s.algorithm->neighbours) && k < s.phases; k++)
            a.latency_s += s.phase[k].latency_s;
        TRY(collective_close(g, options ? options->nics : 0, attained ? &a : NULL, &s));
        if (options && options->nccl_protocols && choice.protocol != COLLECTIVE_IDEAL)
            apply_protocol(&s, &choice);
    }
    if (fastest && s.lengthened)
        TRY(take_usual(g, kind, bytes, options, a.seconds > 0, &s));
    MOVE(out, s);
out:
    collective_shape_free(&s);
    return st;
}

void collective_shape_free(struct collective_shape *s)
{
    free(s->phase);
    free(s->flow);
    *s = (struct collective_shape){0};
}
