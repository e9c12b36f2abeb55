/* The non-contiguous integer program of device placement, written for and solved by CBC.
 *
 *     minimise T
 *     sum over d of x[v,d] = 1                                  every unit is somewhere
 *     in[t,d]  >= x[r,d] - x[s,d]    for every reader r of net t with source s
 *     out[t,d] >= x[s,d] - x[r,d]
 *     T >= sum a[v] x[v,d] + sum c[t] (in[t,d] + out[t,d])      accelerators
 *     T >= sum b[v] x[v,d]                                      CPUs
 *     sum size[v] x[v,d] <= memory                              accelerators
 *
 * Units are colours (placement_merge without a limit). Accelerators are alike: the i-th unit by
 * latency is on none later than the i-th. Source: Tarnawski et al., NeurIPS 2020, and their ip.py.
 */
#include "bench/partition_exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "partition/published/placement/graph.h"

enum { PATH = 4200 };

/* Units by accelerator latency, the longest first. */
static void rank_units(const struct placement_graph *g, uint32_t *rank)
{
    for (size_t v = 0; v < g->n; v++) {
        rank[v] = 0;
        for (size_t u = 0; u < g->n; u++)
            rank[v] += g->accelerator[u] > g->accelerator[v] ||
                       (!(g->accelerator[u] < g->accelerator[v]) && u < v);
    }
}

static void write_loads(FILE *f, const struct placement_problem *p, const struct placement_graph *g)
{
    size_t devices = p->accelerators + p->cpus;
    for (size_t d = 0; d < devices; d++) {
        bool cpu = d >= p->accelerators;
        fprintf(f, " l%zu: T", d);
        for (size_t v = 0; v < g->n; v++)
            fprintf(f, " - %.17g x%zu_%zu%s", cpu ? g->cpu[v] : g->accelerator[v], v, d,
                    v % 8 == 7 ? "\n" : "");
        for (size_t t = 0; t < g->nets && !cpu; t++)
            fprintf(f, " - %.17g i%zu_%zu - %.17g o%zu_%zu\n", g->net_cost[t], t, d, g->net_cost[t],
                    t, d);
        fprintf(f, " >= 0\n");
        if (cpu)
            continue;
        double all = 0;
        for (size_t v = 0; v < g->n; v++)
            all += g->size[v];
        if (all <= p->memory_bytes)
            continue;
        fprintf(f, " m%zu:", d); /* in units of the memory, for the solver's tolerance */
        for (size_t v = 0; v < g->n; v++)
            fprintf(f, " + %.17g x%zu_%zu%s", g->size[v] / p->memory_bytes, v, d,
                    v % 8 == 7 ? "\n" : "");
        fprintf(f, " <= 1\n");
    }
}

static void write_nets(FILE *f, const struct placement_problem *p, const struct placement_graph *g)
{
    for (size_t t = 0; t < g->nets; t++)
        for (size_t k = g->net_start[t]; k < g->net_start[t + 1]; k++)
            for (size_t d = 0; d < p->accelerators; d++) {
                uint32_t r = g->net_dest[k], s = g->net_source[t];
                fprintf(f, " i%zu_%zu - x%u_%zu + x%u_%zu >= 0\n", t, d, r, d, s, d);
                fprintf(f, " o%zu_%zu - x%u_%zu + x%u_%zu >= 0\n", t, d, s, d, r, d);
            }
}

static enum status write_program(const struct placement_problem *p, const struct placement_graph *g,
                                 const uint32_t *rank, const char *path)
{
    size_t devices = p->accelerators + p->cpus;
    FILE *f = fopen(path, "w");
    if (!f)
        return error_set(STATUS_IO, "%s: cannot be written", path);
    fprintf(f, "Minimize\n obj: T\nSubject To\n");
    for (size_t v = 0; v < g->n; v++) {
        fprintf(f, " a%zu:", v);
        for (size_t d = 0; d < devices; d++)
            fprintf(f, " + x%zu_%zu", v, d);
        fprintf(f, " = 1\n");
    }
    write_loads(f, p, g);
    write_nets(f, p, g);
    fprintf(f, "Bounds\n");
    for (size_t v = 0; v < g->n; v++)
        for (size_t d = 0; d < p->accelerators; d++)
            if (d > rank[v] || !g->supported[v] || g->size[v] > p->memory_bytes)
                fprintf(f, " x%zu_%zu = 0\n", v, d);
    fprintf(f, "Binaries\n");
    for (size_t v = 0; v < g->n; v++)
        for (size_t d = 0; d < devices; d++)
            fprintf(f, " x%zu_%zu\n", v, d);
    fprintf(f, "End\n");
    return fclose(f) == 0 ? STATUS_OK : error_set(STATUS_IO, "%s: cannot be written", path);
}

/* "Optimal - objective value 3.5" or "Stopped on time - ...", then lines "7 x1_0 1 0". */
static enum status read_solution(const struct placement_problem *p, const struct placement_graph *g,
                                 const char *path, struct exact *out)
{
    enum status st = STATUS_OK;
    struct objective_result found = {0};
    char line[512];
    uint32_t *device, *of_node;
    bool *placed;
    size_t count = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return STATUS_OK;
    TRY(ARENA_NEW(&found.memory, device, g->n));
    TRY(ARENA_NEW(&found.memory, placed, g->n));
    TRY(ARENA_NEW(&found.memory, of_node, p->n));
    while (fgets(line, sizeof line, f)) {
        unsigned v, d;
        double value;
        if (sscanf(line, "%*[* \t0-9]x%u_%u %lf", &v, &d, &value) == 3 && value > 0.5 && v < g->n) {
            count += !placed[v];
            placed[v] = true;
            device[v] = d;
        }
    }
    if (count < g->n) /* no split, or none that is whole */
        goto out;
    for (size_t v = 0; v < p->n; v++)
        of_node[v] = device[g->unit[v]];
    TRY(placement_result(p, of_node, NULL, &found));
    out->value = found.value;
out:
    fclose(f);
    objective_result_free(&found);
    return st;
}

/* The log ends with "Result - Optimal solution found", or names a "Lower bound:". */
static void read_log(const char *path, struct exact *out)
{
    char line[512];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strstr(line, "Result - Optimal solution found"))
            out->bound = out->value;
        sscanf(line, "Lower bound: %lf", &out->bound);
        sscanf(line, "Total time (CPU seconds): %lf", &out->cpu_s);
    }
    if (f)
        fclose(f);
}

enum status exact_solve(const struct placement_problem *p, const char *prefix, double limit_s,
                        struct exact *out)
{
    enum status st;
    struct placement_graph g = {0};
    char path[PATH], command[4 * PATH];
    uint32_t *rank;
    *out = (struct exact){.value = INFINITY};
    TRY(placement_merge(p, INFINITY, &g));
    TRY(ARENA_NEW(&g.memory, rank, g.n));
    rank_units(&g, rank);
    snprintf(path, sizeof path, "%s.lp", prefix);
    TRY(write_program(p, &g, rank, path));
    snprintf(command, sizeof command,
             "cbc '%s.lp' primalTolerance 1e-9 integerTolerance 1e-9 allowableGap 0 ratioGap 0 "
             "sec %.0f solve solution '%s.txt' > '%s.log' 2>&1",
             prefix, limit_s, prefix, prefix);
    if (system("cbc quit > /dev/null 2>&1") != 0) /* NOLINT */
        FAIL(STATUS_UNSUPPORTED, "cbc is not installed");
    if (system(command) != 0) /* NOLINT */
        FAIL(STATUS_EXTERNAL, "cbc failed on %s.lp", prefix);
    snprintf(path, sizeof path, "%s.txt", prefix);
    TRY(read_solution(p, &g, path, out));
    snprintf(path, sizeof path, "%s.log", prefix);
    read_log(path, out);
out:
    placement_graph_free(&g);
    return st;
}
