/* NCCL's public cost table (src/graph/tuning.cc of NCCL 2.28): microseconds and GB/s throughout. */
#include <math.h>
#include <string.h>

#include "core/collective/shapes.h"

enum generation { VOLTA, AMPERE, HOPPER, BLACKWELL, GENERATIONS };
enum { TREE, RING, ALGORITHMS };
enum { NVLINK, PCI, NET, LINKS };
enum { PROTOCOLS = 3, SIZES = 23, CHANNELS_MIN = 2, CHANNELS_MAX = 32 };

static const double base_us[ALGORITHMS][PROTOCOLS] = {{6.8, 14, 8.4}, {6.6, 14, 8.4}};
static const double step_us[LINKS][ALGORITHMS][PROTOCOLS] = {
    {{.6, 1.25, 4}, {.6, 1.9, 3.4}}, {{1, 1.9, 4}, {1, 2.5, 5.7}}, {{5, 8.5, 14}, {2.7, 4, 14}}};
/* By generation, then 1, 2, more nodes. */
static const double ll_max[GENERATIONS][3] = {
    {39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double ring_ll128_max[GENERATIONS][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}};
static const double tree_ll128_max[GENERATIONS][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_max[GENERATIONS][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
/* Share of the tree's bandwidth reached at 64 B, 128 B, ...; all of it from 512 MiB on */
static const double tree_correction[PROTOCOLS][SIZES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};
static const double channel_GBps[GENERATIONS] = {20, 20, 30, 40}; /* what NCCL's search gives one */
static const double net_overhead_us = 1;                          /* Intel hosts */

/* What the table asks about a group. */
struct nccl_fabric {
    size_t n, nodes;
    bool several; /* members in a node */
    bool known;   /* generation */
    enum generation generation;
    int inside;                 /* NVLINK or PCI */
    double inside_us, inter_us; /* latency beyond that of the table's Simple ring */
    double GBps;                /* of a ring over all members */
    double channels;
    size_t column; /* 1, 2, more nodes */
};

/* The generation by the name of the device type; *known false and Ampere for other names. */
static enum generation generation_of(const char *type, bool *known)
{
    static const struct {
        const char *part;
        enum generation generation;
    } names[] = {{"V100", VOLTA},     {"A100", AMPERE},   {"A800", AMPERE}, {"H100", HOPPER},
                 {"H200", HOPPER},    {"H800", HOPPER},   {"H20", HOPPER},  {"B100", BLACKWELL},
                 {"B200", BLACKWELL}, {"B300", BLACKWELL}};
    *known = true;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strstr(type, names[k].part))
            return names[k].generation;
    *known = false;
    return AMPERE;
}

/* The slowest edge of the ring inside nodes and across. */
static struct nccl_fabric fabric_of(const struct collective_group *g, uint32_t channels)
{
    struct nccl_fabric f = {.n = g->n, .nodes = g->nodes, .inside = NVLINK};
    double inside = INFINITY, across = INFINITY, inside_us = 0, across_us = 0;
    for (size_t node = 0; node < g->nodes; node++) {
        for (size_t k = g->node_start[node]; k < g->node_start[node + 1]; k++) {
            bool leaves = k + 1 == g->node_start[node + 1] && g->nodes > 1;
            const struct topology_tier *tier =
                collective_tier(g, g->order[k], g->order[k + 1 < g->n ? k + 1 : 0]);
            double *GBps = leaves ? &across : &inside, *us = leaves ? &across_us : &inside_us;
            *GBps = fmin(*GBps, tier->bandwidth_Bps * 1e-9);
            *us = fmax(*us, tier->latency_s * 1e6);
            if (!leaves && strncmp(tier->name, "nv", 2) != 0)
                f.inside = PCI;
        }
    }
    f.several = g->n > g->nodes;
    f.generation = generation_of(topology_type(g->topology, g->device[0])->name, &f.known);
    f.inside_us = fmax(0, inside_us - step_us[f.inside][RING][2]);
    f.inter_us = fmax(0, across_us - step_us[NET][RING][2]);
    f.GBps = fmin(inside, across * channels);
    f.channels = fmin(fmax(round(f.GBps / channel_GBps[f.generation]), CHANNELS_MIN), CHANNELS_MAX);
    f.column = g->nodes > 2 ? 2 : g->nodes - 1;
    return f;
}

/* Latency of a ring: base, then a step inside a node or across nodes for every hop of the
 * critical path, n - 1 hops once or, for an all-reduce, twice. Large all-reduces across nodes
 * with the Simple protocol are measured to be slower; NCCL scales them by generation. */
static double ring_us(const struct nccl_fabric *f, enum collective_kind kind, double bytes,
                      int protocol)
{
    double n = (double)f->n, twice = kind == COLLECTIVE_ALLREDUCE ? 2 : 1;
    double steps = twice * (n - 1), inter = twice * (double)(f->nodes - 1);
    double overhead = f->nodes > 1 ? net_overhead_us * (protocol == 2 ? 3 : 1) : 0;
    double inside = fmax(step_us[f->inside][RING][protocol], overhead) + f->inside_us;
    double across = step_us[NET][f->several ? RING : TREE][protocol] + f->inter_us;
    double us = base_us[RING][protocol] + (steps - inter) * inside + inter * across;
    if (kind == COLLECTIVE_ALLREDUCE && protocol == 2 && f->nodes > 1 &&
        bytes / (f->channels * n) >= 64)
        us *= f->generation == VOLTA ? 1.9 : 1.4;
    return us;
}

/* Row of ll_max: by GPU in one node, by CPU across nodes (Intel: the first). */
static double ll_limit(const struct nccl_fabric *f)
{
    return ll_max[f->nodes == 1 ? f->generation : VOLTA][f->column];
}

/* Bandwidth of a ring, of the buffer: the links', lessened by what the protocol costs (LL sends as
 * many flags as data, LL128 8 bytes of 128), over the share of the buffer that a link carries. */
static double ring_GBps(const struct nccl_fabric *f, enum collective_kind kind, int protocol)
{
    double n = (double)f->n, bus = f->GBps;
    bool rooted = kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE;
    double steps = kind == COLLECTIVE_ALLREDUCE ? 2 * (n - 1) : rooted ? n : n - 1;
    if (protocol == 0)
        bus = fmin(ll_limit(f), bus / 2);
    else if (protocol == 1)
        bus = fmin(0.92 * bus, f->channels * ring_ll128_max[f->generation][f->column]);
    return bus * n / steps;
}

/* Latency of the double tree: chains inside nodes and log2(nodes) levels, up and down. */
static double tree_us(const struct nccl_fabric *f, int protocol)
{
    double inside = step_us[f->inside][TREE][protocol] + f->inside_us;
    double across = step_us[NET][TREE][protocol] + f->inter_us;
    return base_us[TREE][protocol] +
           2 * ((double)(f->n / f->nodes - 1) * inside + floor(log2((double)f->nodes)) * across);
}

/* Bandwidth of the double tree, of the buffer: each half goes up and down, so half of the links';
 * small buffers reach the share of the correction table. */
static double tree_GBps(const struct nccl_fabric *f, double bytes, int protocol)
{
    double bus = fmin(0.92 * f->GBps, f->channels * tree_max[f->generation][f->column]);
    double size = floor(log2(bytes / 64));
    if (protocol == 0)
        bus = fmin(bus / 3.8, ll_limit(f));
    else if (protocol == 1)
        bus = fmin(bus * (f->nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                   f->channels * tree_ll128_max[f->generation][f->column]);
    return bus / 2 * (size < SIZES ? tree_correction[protocol][size > 0 ? (size_t)size : 0] : 1);
}

void collective_table(const struct collective_group *g, enum collective_kind kind, double bytes,
                      uint32_t channels, const struct collective_algorithm *only,
                      struct collective_choice *out)
{
    const struct collective_algorithm *const algorithms[ALGORITHMS] = {
        [TREE] = &collective_tree, [RING] = &collective_ring};
    struct nccl_fabric f = fabric_of(g, channels);
    double best = INFINITY;
    for (int a = 0; a < ALGORITHMS; a++) {
        if (!algorithms[a]->serves[kind] || (only && only != algorithms[a]))
            continue;
        for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
            double us = a == TREE ? tree_us(&f, protocol) : ring_us(&f, kind, bytes, protocol);
            double GBps =
                a == TREE ? tree_GBps(&f, bytes, protocol) : ring_GBps(&f, kind, protocol);
            bool wired = f.inside == NVLINK || !f.several;
            if (protocol == 1 && !(f.known && wired)) /* LL128 needs NVLink */
                continue;
            if (us + bytes / (1e3 * GBps) < best) {
                best = us + bytes / (1e3 * GBps);
                *out = (struct collective_choice){
                    algorithms[a], (enum collective_protocol)(COLLECTIVE_LL + protocol), us * 1e-6,
                    bytes / (1e9 * GBps)};
            }
        }
    }
}
