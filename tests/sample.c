#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

char *sample_text(const char *text)
{
    char *copy = need(malloc(strlen(text) + 1));
    return strcpy(copy, text);
}

struct model sample_chain(size_t n, double forward_s, double backward_s, int64_t parameter_bytes,
                          int64_t output_bytes)
{
    struct model m = {.name = sample_text("chain"), .element_bytes = 4, .n = n, .profiles = 1};
    struct model_edge *edge = need(calloc(n + 1, sizeof *edge));
    m.op = need(calloc(n, sizeof *m.op));
    m.profile = need(calloc(1, sizeof *m.profile));
    m.profile[0] = (struct model_profile){.device = sample_text(""),
                                          .samples = 1,
                                          .tensor_parallel = 1,
                                          .forward_s = need(calloc(n, sizeof(double))),
                                          .backward_s = need(calloc(n, sizeof(double)))};
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "op%zu", i);
        m.op[i] = (struct model_op){.name = sample_text(name),
                                    .kind = sample_text("Block"),
                                    .parameter_bytes = parameter_bytes,
                                    .shares = MODEL_NO_OP,
                                    .stash_bytes = output_bytes,
                                    .output_bytes = output_bytes};
        m.profile[0].forward_s[i] = forward_s;
        m.profile[0].backward_s[i] = backward_s;
        if (i > 0)
            edge[i - 1] = (struct model_edge){(uint32_t)i - 1, (uint32_t)i};
    }
    if (model_finish(&m, edge, n - 1, "chain") != STATUS_OK)
        abort();
    free(edge);
    return m;
}

void sample_rewire(struct model *m, const struct model_edge *edge, size_t edges)
{
    free(m->in_start);
    free(m->out_start);
    free(m->in);
    free(m->out);
    if (model_finish(m, edge, edges, m->name) != STATUS_OK)
        abort();
}

const struct model_op *sample_op(const struct model *m, const char *name)
{
    uint32_t i = model_find(m, name);
    if (i == MODEL_NO_OP) {
        fprintf(stderr, "%s has no op '%s'\n", m->name, name);
        abort();
    }
    return &m->op[i];
}

struct topology sample_clique(size_t n, double latency_s, double bandwidth_Bps)
{
    struct topology t = {.name = sample_text("clique"), .n = n, .types = 1, .tiers = 1};
    t.device = need(calloc(n, sizeof *t.device));
    t.type_of = need(calloc(n, sizeof *t.type_of));
    t.type = need(calloc(1, sizeof *t.type));
    t.tier = need(calloc(1, sizeof *t.tier));
    t.type[0] = (struct device_type){.name = sample_text("device"),
                                     .flops = 1e12,
                                     .memory_Bps = 1e12,
                                     .memory_bytes = INT64_C(1) << 34};
    t.tier[0] = (struct topology_tier){sample_text("port"), latency_s, bandwidth_Bps};
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "h%zu", i);
        t.device[i] = sample_text(name);
    }
    return t;
}

char *sample_star_file(size_t n, double latency_s, double bandwidth_Bps)
{
    char *path = sample_text("/tmp/foreline-star-XXXXXX.xml");
    int fd = mkstemps(path, 4);
    FILE *f = need(fd < 0 ? NULL : fdopen(fd, "w"));
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"DijkstraCache\">\n",
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "<host id=\"h%zu\" speed=\"1Tf\"/>\n", i);
    fputs("<router id=\"switch\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<link id=\"l%zu\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i, bandwidth_Bps, latency_s / 2);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<route src=\"h%zu\" dst=\"switch\"><link_ctn id=\"l%zu\" direction=\"UP\"/>"
                "</route>\n",
                i, i);
    fputs("</zone>\n</platform>\n", f);
    fclose(f);
    return path;
}

struct plan sample_plan(const struct model *m, size_t stages, uint32_t replicas,
                        uint32_t microbatches, const char *schedule)
{
    struct plan p = {.model = sample_text("chain"),
                     .platform = sample_text("clique"),
                     .schedule = sample_text(schedule),
                     .optimizer = sample_text("sgd"),
                     .microbatches = microbatches,
                     .microbatch_size = 1,
                     .objective_s = NAN,
                     .stages = stages};
    p.stage = need(calloc(stages, sizeof *p.stage));
    for (size_t s = 0; s < stages; s++) {
        struct plan_stage *stage = &p.stage[s];
        size_t first = s * m->n / stages, last = (s + 1) * m->n / stages;
        stage->ops = last - first;
        stage->op = need(calloc(stage->ops, sizeof *stage->op));
        for (size_t k = 0; k < stage->ops; k++)
            stage->op[k] = (uint32_t)(first + k);
        stage->replicas = replicas;
        stage->tensor_parallel = stage->expert_parallel = stage->context_parallel = 1;
        stage->recompute_unit = 1;
        stage->devices = replicas;
        stage->device = need(calloc(replicas, sizeof *stage->device));
        for (uint32_t r = 0; r < replicas; r++)
            stage->device[r] = (uint32_t)(r * stages + s);
    }
    return p;
}
