/* The non-contiguous integer program of device placement, written as a file that GLPK and CBC
 * read.
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
#include "tests/placement_exact.h"

#include <glpk.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "papers/placement/graph.h"

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

/* ---- solvers */

struct solution {
    const struct placement_problem *p;
    struct placement_graph g;
    uint32_t *device; /* [units] */
    bool *placed;
    char lp[PATH];
};

static enum status begin(const struct placement_problem *p, const char *prefix, struct solution *s)
{
    uint32_t *rank;
    s->p = p;
    snprintf(s->lp, sizeof s->lp, "%s.lp", prefix);
    PASS(placement_merge(p, INFINITY, &s->g));
    PASS(ARENA_NEW(&s->g.memory, rank, s->g.n));
    PASS(ARENA_NEW(&s->g.memory, s->device, s->g.n));
    PASS(ARENA_NEW(&s->g.memory, s->placed, s->g.n));
    rank_units(&s->g, rank);
    return write_program(p, &s->g, rank, s->lp);
}

/* A column of the solver: "x12_3" with value 1 puts unit 12 on device 3. */
static void take(struct solution *s, const char *name, double value)
{
    unsigned v, d;
    if (sscanf(name, "x%u_%u", &v, &d) == 2 && value > 0.5 && v < s->g.n) {
        s->placed[v] = true;
        s->device[v] = d;
    }
}

/* The value of the split, if there is a whole one. */
static enum status score(const struct solution *s, struct placement_exact *out)
{
    enum status st = STATUS_OK;
    struct objective_result found = {0};
    uint32_t *of_node;
    for (size_t v = 0; v < s->g.n; v++)
        if (!s->placed[v])
            return STATUS_OK;
    TRY(ARENA_NEW(&found.memory, of_node, s->p->n));
    for (size_t v = 0; v < s->p->n; v++)
        of_node[v] = s->device[s->g.unit[v]];
    TRY(placement_result(s->p, of_node, NULL, &found));
    out->value = found.value;
out:
    objective_result_free(&found);
    return st;
}

/* "Optimal - objective value 3.5" or "Stopped on time - ...", then lines "7 x1_0 1 0". */
static void read_solution(const char *path, struct solution *s)
{
    char line[512], name[64];
    double value;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%*[* \t0-9]%63s %lf", name, &value) == 2)
            take(s, name, value);
    if (f)
        fclose(f);
}

/* The log ends with "Result - Optimal solution found", or names a "Lower bound:". */
static void read_log(const char *path, struct placement_exact *out)
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

enum status placement_exact_cbc(const struct placement_problem *p, const char *prefix,
                                double limit_s, struct placement_exact *out)
{
    enum status st;
    struct solution s = {0};
    char path[PATH], command[4 * PATH];
    *out = (struct placement_exact){.value = INFINITY};
    TRY(begin(p, prefix, &s));
    snprintf(command, sizeof command,
             "cbc '%s.lp' primalTolerance 1e-9 integerTolerance 1e-9 allowableGap 0 ratioGap 0 "
             "sec %.0f solve solution '%s.txt' > '%s.log' 2>&1",
             prefix, limit_s, prefix, prefix);
    if (system("cbc quit > /dev/null 2>&1") != 0)
        FAIL(STATUS_UNSUPPORTED, "cbc is not installed");
    if (system(command) != 0)
        FAIL(STATUS_EXTERNAL, "cbc failed on %s.lp", prefix);
    snprintf(path, sizeof path, "%s.txt", prefix);
    read_solution(path, &s);
    TRY(score(&s, out));
    snprintf(path, sizeof path, "%s.log", prefix);
    read_log(path, out);
out:
    placement_graph_free(&s.g);
    return st;
}

/* Remembers the bound of the tree when it is left early. */
static void watch(glp_tree *tree, void *bound)
{
    int node = glp_ios_best_node(tree);
    if (node != 0)
        *(double *)bound = glp_ios_node_bound(tree, node);
}

enum status placement_exact_glpk(const struct placement_problem *p, const char *prefix,
                                 double limit_s, struct placement_exact *out)
{
    enum status st;
    struct solution s = {0};
    glp_prob *lp = NULL;
    glp_iocp options;
    double begin_s = clock_cpu();
    *out = (struct placement_exact){.value = INFINITY};
    TRY(begin(p, prefix, &s));
    glp_term_out(GLP_OFF);
    lp = glp_create_prob();
    if (glp_read_lp(lp, NULL, s.lp) != 0)
        FAIL(STATUS_EXTERNAL, "GLPK cannot read %s", s.lp);
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.tm_lim = (int)(1000 * limit_s);
    options.cb_func = watch;
    options.cb_info = &out->bound;
    int code = glp_intopt(lp, &options), state = glp_mip_status(lp);
    if (code == 0 && state == GLP_OPT)
        out->bound = INFINITY; /* of its own value, below */
    if (state == GLP_OPT || state == GLP_FEAS)
        for (int c = 1; c <= glp_get_num_cols(lp); c++)
            take(&s, glp_get_col_name(lp, c), glp_mip_col_val(lp, c));
    TRY(score(&s, out));
    out->bound = fmin(out->bound, out->value);
    out->cpu_s = clock_cpu() - begin_s;
out:
    if (lp)
        glp_delete_prob(lp);
    glp_free_env();
    placement_graph_free(&s.g);
    return st;
}
