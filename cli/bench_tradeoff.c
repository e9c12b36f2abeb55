/* bench tradeoff - memory against communication: the ways to spread a model over some devices, each
 * a plan that is simulated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "sim/engines.h"
#include "study/load.h"
#include "study/paths.h"
#include "study/planning.h"

struct tradeoff_row {
    const char *name;
    bool replicas, shards, stages; /* as many as devices; else one */
    size_t zero;
    bool sequence, buckets, recompute;
};
static const struct tradeoff_row rows[] = {
    {.name = "one device"},
    {.name = "data parallel", .replicas = true},
    {.name = "  in buckets", .replicas = true, .buckets = true},
    {.name = "ZeRO 1", .replicas = true, .zero = 1},
    {.name = "ZeRO 2", .replicas = true, .zero = 2},
    {.name = "ZeRO 3", .replicas = true, .zero = 3},
    {.name = "tensor parallel", .shards = true},
    {.name = "  and sequence", .shards = true, .sequence = true},
    {.name = "pipeline", .stages = true},
    {.name = "  and recompute", .stages = true, .recompute = true},
};

static struct arguments arguments_of(const struct tradeoff_row *r, const struct arguments *given,
                                     size_t n)
{
    struct arguments a = *given;
    a.algorithm = "balanced";
    a.microbatch_size = 1;
    a.optimizer = "adam";
    a.replicas = r->replicas ? (uint32_t)n : 1;
    a.tensor_parallel = r->shards ? (uint32_t)n : 1;
    a.stages = r->stages ? n : 1;
    a.zero = (uint32_t)r->zero;
    a.sequence_parallel = r->sequence;
    a.bucket_bytes = r->buckets ? 25 << 20 : 0;
    a.recompute = r->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    a.chosen = KNOB_BIT(replicas) | KNOB_BIT(tensor_parallel) | KNOB_BIT(zero) |
               KNOB_BIT(sequence_parallel) | KNOB_BIT(bucket_bytes) | KNOB_BIT(recompute);
    return a;
}

/* Memory of the fullest device, bytes over the busiest link, and what the mean rank waits. */
static void tradeoff_print(const struct tradeoff_row *r, const struct measurement *m)
{
    int64_t peak = 0;
    double bytes = 0, exposed_s = 0;
    for (size_t k = 0; k < m->links; k++)
        bytes = fmax(bytes, m->link[k].bytes);
    for (size_t k = 0; k < m->ranks; k++) {
        peak = m->rank[k].peak_bytes > peak ? m->rank[k].peak_bytes : peak;
        exposed_s += m->rank[k].exposed_comm_s / (double)m->ranks;
    }
    printf("%-16s %10.2f %12.2f %12.2f %12.2f%s\n", r->name, (double)peak / 1073741824, bytes / 1e9,
           1e3 * m->iteration_s, 1e3 * exposed_s,
           measurement_overfull(m) > 0 ? "  does not fit" : "");
}

static enum status tradeoff_simulate(const struct tradeoff_row *r, const struct arguments *given,
                                     size_t n, struct evaluation_context *context)
{
    enum status st;
    const struct arguments a = arguments_of(r, given, n);
    struct plan plan = {0};
    struct measurement m = {0};
    st = plan_make(&a, context, &plan);
    if (st == STATUS_INFEASIBLE || st == STATUS_INVALID || st == STATUS_USAGE) { /* no such plan */
        printf("%-16s %s\n", r->name, error_message());
        st = STATUS_OK;
        goto out;
    }
    TRY(st);
    TRY(evaluate_plan(&plan, context, context->engine, &m, NULL, NULL));
    tradeoff_print(r, &m);
out:
    measurement_free(&m);
    plan_free(&plan);
    return st;
}

enum status bench_tradeoff(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    const size_t n = a->run.ranks ? a->run.ranks : 8;
    struct model m = {0};
    struct topology t = {0};
    char *path = NULL;
    struct evaluation_context context = {.model = &m, .topology = &t};
    TRY(arguments_check(a, TAKES(BENCH_TRADEOFF)));
    if (!a->model || !a->platform)
        return error_set(STATUS_USAGE, "'bench tradeoff' needs --model M and --platform P");
    if (engine_find(a->sim.engine, &context.engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    TRY(load_model(a->model, &m));
    TRY(load_topology(a->platform, &t, &path));
    context.platform = path;
    TRY(paths_read(a, &t, &context.options.paths));
    const char *framework = plan_choose_framework(a, &m, &t).name;
    if (framework && framework_parse(framework, &(struct framework){0}) != STATUS_OK)
        TRY(error_context(STATUS_USAGE, "--framework"));
    printf("# %s on %zu of %s: an iteration of %zu microbatches of one sample, adam, %s, %s\n",
           a->model, n, a->platform, a->microbatches, a->sim.engine,
           framework ? framework : framework_name(0));
    printf("# %-14s %10s %12s %12s %12s\n", "plan", "memory", "busiest link", "iteration",
           "exposed");
    printf("# %-14s %10s %12s %12s %12s\n", "", "GiB", "GB", "ms", "ms");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        TRY(tradeoff_simulate(&rows[k], a, n, &context));
out:
    free(path);
    topology_free(&t);
    model_free(&m);
    return st;
}
