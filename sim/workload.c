/* The two workloads of LogGOPSim's and ATLAHS' papers, made of ordinary models, plans and
 * topologies, so that the engines meet nothing special in them. */
#include "sim/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/schedule/schedule.h"

const double workload_latency_s = 1e-6, workload_bandwidth_Bps = 50e9;
const int64_t workload_gradient_bytes = 64 << 20, workload_activation_bytes = 8 << 20;

static const struct workload_kind
    ring = {.name = "ring",
            .summary = "a ring all-reduce of 64 MiB over all ranks",
            .multiple = 1,
            .stages = 1,
            .microbatches = 1},
    pipe = {.name = "pipe",
            .summary = "1f1b over 16 replicated stages; a ring all-reduce of 64 MiB for each stage",
            .multiple = WORKLOAD_STAGES,
            .stages = WORKLOAD_STAGES,
            .microbatches = WORKLOAD_MICROBATCHES,
            .forward_s = 1e-3,
            .backward_s = 2e-3},
    *const kinds[] = {&ring, &pipe};

enum status workload_find(const char *name, const struct workload_kind **out)
{
    return text_find("workload", name, kinds, sizeof kinds / sizeof *kinds, out);
}

/* Measured times, on any device. */
static enum status fill_profile(const struct workload_kind *kind, struct model *m)
{
    struct model_profile *p;
    PASS(ARRAY_NEW(p, 1));
    m->profile = p;
    m->profiles = 1;
    p->samples = 1;
    p->tensor_parallel = 1;
    PASS(ARRAY_NEW(p->forward_s, m->n));
    PASS(ARRAY_NEW(p->backward_s, m->n));
    for (size_t i = 0; i < m->n; i++) {
        p->forward_s[i] = kind->forward_s;
        p->backward_s[i] = kind->backward_s;
    }
    return text_copy("", &p->device);
}

/* A chain of an op for each stage. */
static enum status workload_make_model(const struct workload_kind *kind, struct model *out)
{
    enum status st;
    struct model m = {.element_bytes = 4, .n = kind->stages};
    struct model_edge edge[WORKLOAD_STAGES];
    TRY(ARRAY_NEW(m.op, m.n));
    for (size_t i = 0; i < m.n; i++) {
        char name[32];
        snprintf(name, sizeof name, "stage%zu", i);
        m.op[i] = (struct model_op){.parameter_bytes = workload_gradient_bytes,
                                    .shares = MODEL_NO_OP,
                                    .stash_bytes = workload_activation_bytes,
                                    .output_bytes = workload_activation_bytes};
        TRY(text_copy(name, &m.op[i].name));
        TRY(text_copy("stage", &m.op[i].kind));
        if (i > 0)
            edge[i - 1] = (struct model_edge){(uint32_t)i - 1, (uint32_t)i};
    }
    TRY(fill_profile(kind, &m));
    TRY(text_copy(kind->name, &m.name));
    struct model finished = m;
    m = (struct model){0}; /* model_finish() frees it when it fails */
    TRY(model_finish(&finished, edge, kind->stages - 1, kind->name));
    *out = finished;
out:
    model_free(&m);
    return st;
}

/* A replicated stage of one op on consecutive devices. */
static enum status workload_make_stage(uint32_t s, uint32_t replicas, struct plan_stage *out)
{
    *out = (struct plan_stage){.ops = 1,
                               .op = malloc(sizeof *out->op),
                               .devices = replicas,
                               .device = malloc(replicas * sizeof *out->device),
                               .replicas = replicas};
    out->own = strategy_at_least_usual(&out->own);
    if (!out->op || !out->device)
        return error_set(STATUS_NOMEM, "out of memory for a plan with %u replicas", replicas);
    out->op[0] = s;
    for (uint32_t r = 0; r < replicas; r++)
        out->device[r] = s * replicas + r;
    return STATUS_OK;
}

/* The plan of the workload over all ranks. */
static enum status workload_make_plan(const struct workload_kind *kind, size_t ranks,
                                      const char *platform, struct plan *out)
{
    enum status st;
    uint32_t replicas = (uint32_t)(ranks / kind->stages);
    struct plan p = {
        .microbatches = kind->microbatches * replicas, .microbatch_size = 1, .objective_s = NAN};
    TRY(text_copy(kind->name, &p.model));
    TRY(text_copy(platform, &p.platform));
    TRY(text_copy(schedule_usual(false), &p.schedule));
    TRY(text_copy("sgd", &p.optimizer));
    TRY(ARRAY_NEW(p.stage, kind->stages));
    for (; p.stages < kind->stages; p.stages++)
        TRY(workload_make_stage((uint32_t)p.stages, replicas, &p.stage[p.stages]));
    MOVE(out, p);
out:
    if (p.stage && p.stages < kind->stages)
        p.stages++; /* the one that is half made */
    plan_free(&p);
    return st;
}

/* A full-duplex port for each endpoint: the links and routes of workload_write_platform()'s file,
 * named as SimGrid names them. The switch is the last vertex. */
static enum status add_ports(struct topology *t)
{
    struct route_graph *g = &t->graph;
    uint32_t n = (uint32_t)t->n;
    PASS(ARRAY_NEW(t->link, 2 * t->n));
    PASS(ARRAY_NEW(g->vertex, t->n));
    PASS(ARRAY_NEW(g->start, t->n + 2));
    PASS(ARRAY_NEW(g->to, 2 * t->n));
    PASS(ARRAY_NEW(g->first, 2 * t->n + 1));
    PASS(ARRAY_NEW(g->hop, 2 * t->n));
    for (uint32_t k = 0; k < 2 * n; k++) { /* edges up to the switch, then down from it */
        char name[48];
        snprintf(name, sizeof name, "switch_link_%" PRIu32 "_%s", k % n, k < n ? "UP" : "DOWN");
        PASS(text_copy(name, &t->link[k].name));
        t->link[k].bandwidth_Bps = workload_bandwidth_Bps;
        t->links++;
        g->vertex[k % n] = g->start[k % n] = k % n;
        g->to[k] = k < n ? n : k - n;
        g->hop[k] = k;
        g->first[k + 1] = k + 1;
    }
    g->start[n] = n;
    g->start[n + 1] = 2 * n;
    g->vertices = t->n + 1;
    g->edges = g->hops = 2 * t->n;
    return route_graph_find_blocks(g);
}

/* All endpoints on one switch, when no platform is given; compute is free but for what the
 * workload says. */
static enum status make_switch(size_t ranks, struct topology *out)
{
    struct topology t = {0};
    const struct device_type type = {.name = (char *)"endpoint",
                                     .flops = HUGE_VAL, /* the update is free */
                                     .memory_Bps = HUGE_VAL,
                                     .memory_bytes = INT64_C(1) << 40};
    const struct topology_tier tier = {(char *)"port", workload_latency_s, workload_bandwidth_Bps};
    enum status st = topology_uniform(ranks, &type, &tier, &t);
    if (st == STATUS_OK && ranks > 1)
        st = add_ports(&t);
    if (st == STATUS_OK)
        MOVE(out, t);
    topology_free(&t);
    return st;
}

enum status workload_make(const struct workload_kind *kind, size_t ranks, struct topology *platform,
                          struct workload *out)
{
    enum status st;
    struct workload w = {0};
    size_t most = platform->n > 0 ? platform->n : TOPOLOGY_MAX_DEVICES;

    if (ranks == 0 || ranks % kind->multiple != 0 || ranks > most)
        return error_set(STATUS_INVALID,
                         "%s: got %zu ranks, expected a multiple of %zu, at most %zu", kind->name,
                         ranks, kind->multiple, most);
    TRY(workload_make_model(kind, &w.model));
    TRY(workload_make_plan(kind, ranks, platform->n > 0 ? platform->name : "switch", &w.plan));
    if (platform->n == 0) {
        TRY(make_switch(ranks, &w.topology));
    } else {
        w.topology = *platform;
        *platform = (struct topology){0};
    }
    MOVE(out, w);
out:
    workload_free(&w);
    return st;
}

void workload_free(struct workload *w)
{
    model_free(&w->model);
    topology_free(&w->topology);
    plan_free(&w->plan);
}

void workload_write_platform(size_t ranks, FILE *to)
{
    fprintf(
        to,
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\">\n"
        "<cluster id=\"switch\" prefix=\"d\" suffix=\"\" radical=\"0-%zu\" speed=\"1Tf\"\n"
        " bw=\"%.17gBps\" lat=\"%.17gs\" sharing_policy=\"SPLITDUPLEX\"/>\n</platform>\n",
        ranks - 1, workload_bandwidth_Bps, workload_latency_s / 2);
}
