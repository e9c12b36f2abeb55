/* Random placement problems: graphs made of the blocks that networks are made of, and contractions
 * and perturbations of given ones. Everything is drawn from the seed. */
#include "tests/placement_inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/data/edges.h"

static double uniform(struct placement_input *in)
{
    return (double)(random_next(&in->random) >> 11) * 0x1p-53;
}

static size_t below(struct placement_input *in, size_t n)
{
    return (size_t)((double)n * uniform(in));
}

/* A factor between 1 / most and most, as often below one as above. */
static double factor(struct placement_input *in, double most)
{
    return exp((2 * uniform(in) - 1) * log(most));
}

/* ---- graphs of blocks */

/* What all nodes of one random graph have in common. */
struct shape {
    double transfer;  /* cost of a typical output beside a typical latency of 1 */
    double slow_cpu;  /* CPU latency per accelerator latency */
    bool has_weights; /* nodes that hold a tensor and compute nothing */
};

static enum status add_node(struct placement_input *in, double ms, double bytes, double cost,
                            const struct shape *s)
{
    PASS(ARENA_ROOM(&in->memory, in->latency, in->n));
    PASS(ARENA_ROOM(&in->memory, in->cost, in->n));
    in->latency[in->n] = (struct nodes_latency){.cpu_ms = ms * s->slow_cpu * factor(in, 1.5),
                                                .accelerator_ms = ms,
                                                .size = bytes,
                                                .supported = true,
                                                .colour = (uint32_t)in->n};
    in->cost[in->n++] = cost;
    return STATUS_OK;
}

static enum status add_edge(struct placement_input *in, size_t from, size_t to)
{
    PASS(ARENA_ROOM(&in->memory, in->edge, in->edges));
    in->edge[in->edges++] = (struct model_edge){(uint32_t)from, (uint32_t)to};
    return STATUS_OK;
}

/* An op that reads `from`; its weights come as a node of their own where the shape has such. */
static enum status add_op(struct placement_input *in, size_t from, const struct shape *s)
{
    double ms = below(in, 3) ? factor(in, 5) : 0.02 * factor(in, 5), bytes = ms * 1e6;
    size_t op;
    PASS(add_node(in, ms, bytes * factor(in, 3), s->transfer * factor(in, 4), s));
    op = in->n - 1;
    PASS(add_edge(in, from, op));
    if (!s->has_weights || below(in, 2))
        return STATUS_OK;
    PASS(add_node(in, 0, bytes * factor(in, 10), s->transfer * factor(in, 8), s));
    PASS(add_edge(in, in->n - 1, op));
    in->latency[in->n - 1].cpu_ms = 0;
    /* The op stays the last node, which the next one reads. */
    struct nodes_latency l = in->latency[op];
    double cost = in->cost[op];
    in->latency[op] = in->latency[op + 1];
    in->cost[op] = in->cost[op + 1];
    in->latency[op + 1] = l;
    in->cost[op + 1] = cost;
    in->latency[op].colour = (uint32_t)op;
    in->latency[op + 1].colour = (uint32_t)op + 1;
    in->edge[in->edges - 2].to = (uint32_t)op + 1;
    in->edge[in->edges - 1] = (struct model_edge){(uint32_t)op, (uint32_t)op + 1};
    return STATUS_OK;
}

/* Branches of one to four ops that meet in a last one; one of them may be a bare skip. */
static enum status add_block(struct placement_input *in, const struct shape *s)
{
    size_t from = in->n - 1, branches = 1 + below(in, 4), ends[4] = {0}, skip = below(in, 2);
    for (size_t b = 0; b < branches; b++) {
        size_t length = 1 + below(in, 4), at = from;
        for (size_t i = 0; i < length; i++) {
            PASS(add_op(in, at, s));
            at = in->n - 1;
        }
        ends[b] = at;
    }
    PASS(add_op(in, ends[0], s));
    for (size_t b = 1; b < branches; b++)
        PASS(add_edge(in, ends[b], in->n - 1));
    return skip ? add_edge(in, from, in->n - 1) : STATUS_OK;
}

/* A backward node for every node, with its colour: it reads the backward nodes of its readers,
 * and in operator graphs what the node itself has made. */
static enum status add_backward(struct placement_input *in, const struct shape *s)
{
    size_t n = in->n, edges = in->edges;
    for (size_t v = 0; v < n; v++) {
        const struct nodes_latency *f = &in->latency[v];
        PASS(add_node(in, f->accelerator_ms * (1.5 + uniform(in)), f->size * factor(in, 1.5),
                      in->cost[v] * factor(in, 1.5), s));
        in->latency[n + v].backward = true;
        in->latency[n + v].colour = (uint32_t)v;
    }
    for (size_t e = 0; e < edges; e++) {
        PASS(add_edge(in, n + in->edge[e].to, n + in->edge[e].from));
        if (s->has_weights && below(in, 2))
            PASS(add_edge(in, in->edge[e].from, n + in->edge[e].to));
    }
    return STATUS_OK;
}

enum status placement_input_random(uint64_t seed, size_t nodes, struct placement_input *out)
{
    enum status st;
    struct placement_input in = {.random = seed, .memory_bytes = 1e15};
    struct shape s = {0};
    bool operators = below(&in, 2) > 0, trains = below(&in, 2) > 0;
    s.transfer = operators ? factor(&in, 4) : 0.02 * factor(&in, 4);
    s.slow_cpu = 5 + 20 * uniform(&in);
    s.has_weights = operators;
    in.accelerators = 2 + below(&in, 6);
    in.cpus = below(&in, 2);
    TRY(add_node(&in, factor(&in, 5), 1e6, s.transfer, &s));
    while (in.n < nodes)
        TRY(add_block(&in, &s));
    if (trains)
        TRY(add_backward(&in, &s));
    *out = in;
    in = (struct placement_input){0};
out:
    placement_input_free(&in);
    return st;
}

/* ---- given graphs */

enum status placement_input_copy(const struct placement_problem *p, uint64_t seed,
                                 struct placement_input *out)
{
    enum status st;
    struct placement_input in = {.n = p->n,
                                 .edges = p->edges,
                                 .memory_bytes = p->memory_bytes,
                                 .accelerators = p->accelerators,
                                 .cpus = p->cpus,
                                 .random = seed};
    TRY(ARENA_NEW(&in.memory, in.latency, p->n));
    TRY(ARENA_NEW(&in.memory, in.cost, p->n));
    TRY(ARENA_NEW(&in.memory, in.edge, p->edges));
    memcpy(in.latency, p->latency, p->n * sizeof *in.latency);
    memcpy(in.cost, p->cost, p->n * sizeof *in.cost);
    memcpy(in.edge, p->edge, p->edges * sizeof *in.edge);
    *out = in;
    in = (struct placement_input){0};
out:
    placement_input_free(&in);
    return st;
}

/* Is there a way from a to b that is longer than the edge between them? Depth first; edge[] need
 * not be sorted, graphs are small. */
static bool another_way(const struct placement_input *in, uint32_t a, uint32_t b, uint8_t *seen,
                        uint32_t *stack)
{
    size_t depth = 0;
    memset(seen, 0, in->n);
    stack[depth++] = a;
    while (depth > 0) {
        uint32_t v = stack[--depth];
        for (size_t e = 0; e < in->edges; e++) {
            uint32_t w = in->edge[e].to;
            if (in->edge[e].from != v || (v == a && w == b) || seen[w])
                continue;
            if (w == b)
                return true;
            seen[w] = 1;
            stack[depth++] = w;
        }
    }
    return false;
}

/* Node b becomes part of a; the last node takes its number. */
static void merge(struct placement_input *in, uint32_t a, uint32_t b)
{
    struct nodes_latency *x = &in->latency[a], *y = &in->latency[b];
    uint32_t last = (uint32_t)in->n - 1, colour = x->colour, gone = y->colour;
    bool a_sends = false, b_sends = false;
    size_t left = 0;
    for (size_t e = 0; e < in->edges; e++) {
        struct model_edge *edge = &in->edge[e];
        a_sends |= edge->from == a && edge->to != b;
        b_sends |= edge->from == b && edge->to != a;
        edge->from = edge->from == b ? a : edge->from;
        edge->to = edge->to == b ? a : edge->to;
        if (edge->from != edge->to)
            in->edge[left++] = *edge;
    }
    in->edges = left;
    in->cost[a] = (a_sends ? in->cost[a] : 0) + (b_sends ? in->cost[b] : 0);
    x->cpu_ms += y->cpu_ms;
    x->accelerator_ms += y->accelerator_ms;
    x->size += y->size;
    x->supported = x->supported && y->supported;
    for (size_t v = 0; v < in->n; v++)
        if (in->latency[v].colour == gone)
            in->latency[v].colour = colour;
    in->latency[b] = in->latency[last];
    in->cost[b] = in->cost[last];
    for (size_t e = 0; e < in->edges; e++) {
        in->edge[e].from = in->edge[e].from == last ? b : in->edge[e].from;
        in->edge[e].to = in->edge[e].to == last ? b : in->edge[e].to;
    }
    in->n--;
}

static size_t count_colours(const struct placement_input *in, uint8_t *seen, size_t most)
{
    size_t count = 0;
    memset(seen, 0, most);
    for (size_t v = 0; v < in->n; v++) {
        count += !seen[in->latency[v].colour];
        seen[in->latency[v].colour] = 1;
    }
    return count;
}

/* Of four random edges the one between the lightest nodes, so that no node swallows the others. */
static struct model_edge light_edge(struct placement_input *in)
{
    struct model_edge best = in->edge[below(in, in->edges)];
    for (int i = 0; i < 3; i++) {
        struct model_edge e = in->edge[below(in, in->edges)];
        const struct nodes_latency *l = in->latency;
        if (l[e.from].accelerator_ms + l[e.to].accelerator_ms <
            l[best.from].accelerator_ms + l[best.to].accelerator_ms)
            best = e;
    }
    return best;
}

enum status placement_input_contract(struct placement_input *in, size_t colours)
{
    enum status st = STATUS_OK;
    struct arena scratch = {0};
    uint8_t *seen;
    uint32_t *stack;
    size_t most = in->n, failures = 0;
    for (size_t v = 0; v < in->n; v++)
        if (in->latency[v].colour >= most)
            most = in->latency[v].colour + (size_t)1;
    TRY(ARENA_NEW(&scratch, seen, most));
    TRY(ARENA_NEW(&scratch, stack, in->n));
    while (in->edges > 0 && failures < 200 && count_colours(in, seen, most) > colours) {
        struct model_edge e = light_edge(in);
        failures++;
        if (in->latency[e.from].backward != in->latency[e.to].backward ||
            another_way(in, e.from, e.to, seen, stack))
            continue;
        merge(in, e.from, e.to);
        failures = 0;
    }
out:
    arena_free(&scratch);
    return st;
}

void placement_input_perturb(struct placement_input *in)
{
    static const double spread[] = {1.02, 1.2, 2, 4};
    double most = spread[below(in, 4)], all = factor(in, 4), bytes = 0, largest = 0;
    for (size_t v = 0; v < in->n; v++) {
        struct nodes_latency *l = &in->latency[v];
        double time = factor(in, most);
        l->accelerator_ms *= time;
        l->cpu_ms *= time * factor(in, 1.1);
        l->size *= factor(in, most);
        in->cost[v] *= all * factor(in, most);
        bytes += l->size;
    }
    for (size_t v = 0; v < in->n; v++) { /* what a colour holds cannot be parted */
        double colour = 0;
        for (size_t u = 0; u < in->n; u++)
            colour += in->latency[u].colour == in->latency[v].colour ? in->latency[u].size : 0;
        largest = fmax(largest, colour);
    }
    in->accelerators = 2 + below(in, 7);
    in->cpus = below(in, 3) > 0;
    /* Every second one is short of memory, but a largest-first fit has room. */
    in->memory_bytes =
        below(in, 2) ? 1e18 : bytes / (double)in->accelerators * (1.1 + uniform(in)) + largest;
}

enum status placement_input_write(const struct placement_input *in, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return error_set(STATUS_IO, "%s: cannot be written", path);
    fprintf(f, "{\"maxSizePerFPGA\": %.17g, \"maxFPGAs\": %zu, \"maxCPUs\": %zu, \"nodes\": [",
            in->memory_bytes, in->accelerators, in->cpus);
    for (size_t v = 0; v < in->n; v++) {
        const struct nodes_latency *l = &in->latency[v];
        fprintf(f,
                "%s\n{\"id\": %zu, \"cpuLatency\": %.17g, \"fpgaLatency\": %.17g, \"size\": %.17g, "
                "\"supportedOnFpga\": %d, \"isBackwardNode\": %d, \"colorClass\": %u}",
                v ? "," : "", v, l->cpu_ms, l->accelerator_ms, l->size, l->supported, l->backward,
                l->colour);
    }
    fprintf(f, "],\n\"edges\": [");
    for (size_t e = 0; e < in->edges; e++)
        fprintf(f, "%s\n{\"sourceId\": %u, \"destId\": %u, \"cost\": %.17g}", e ? "," : "",
                in->edge[e].from, in->edge[e].to, in->cost[in->edge[e].from]);
    fprintf(f, "]}\n");
    return fclose(f) == 0 ? STATUS_OK : error_set(STATUS_IO, "%s: cannot be written", path);
}

void placement_input_free(struct placement_input *in)
{
    arena_free(&in->memory);
    *in = (struct placement_input){0};
}
