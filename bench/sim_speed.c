/* sim_speed - how fast the engines are: ops and messages per CPU second on 1F1B pipelines.
 *
 * P stages, M microbatches, forward 1 ms, backward 2 ms, 16 MB messages, every stage on its own
 * 50 GB/s port of 1 us. Prints TSV: median and best CPU seconds of the engine alone (lowering and
 * loading the platform excluded) and ops per CPU second. Usage: sim_speed [repeats]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lower.h"
#include "core/measurement.h"
#include "sim/engine.h"

enum { NAME = 16 };

static char *text(const char *t)
{
    char *copy = malloc(strlen(t) + 1);
    if (!copy)
        abort();
    return strcpy(copy, t);
}

static enum status chain(size_t n, struct model *out)
{
    struct model m = {.name = text("chain"), .element_bytes = 4, .n = n, .profiles = 1};
    struct model_edge *edge = calloc(n, sizeof *edge);
    m.op = calloc(n, sizeof *m.op);
    m.profile = calloc(1, sizeof *m.profile);
    m.profile[0] = (struct model_profile){
        text(""), 1, 1, calloc(n, sizeof(double)), calloc(n, sizeof(double)), NULL};
    for (uint32_t i = 0; i < n; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "op%u", i);
        m.op[i] = (struct model_op){.name = text(name),
                                    .kind = text("Block"),
                                    .shares = MODEL_NO_OP,
                                    .stash_bytes = 16000000,
                                    .output_bytes = 16000000};
        m.profile[0].forward_s[i] = 1e-3;
        m.profile[0].backward_s[i] = 2e-3;
        if (i > 0)
            edge[i - 1] = (struct model_edge){i - 1, i};
    }
    enum status st = model_finish(&m, edge, n - 1, "chain");
    free(edge);
    *out = m;
    return st;
}

static struct topology clique(size_t n)
{
    struct topology t = {.name = text("star"), .n = n, .types = 1, .tiers = 1};
    t.device = calloc(n, sizeof *t.device);
    t.type_of = calloc(n, sizeof *t.type_of);
    t.type = calloc(1, sizeof *t.type);
    t.tier = calloc(1, sizeof *t.tier);
    t.tier_of = calloc(n * n, sizeof *t.tier_of);
    t.type[0] = (struct device_type){text("gpu"), 1e12, 1e12, INT64_C(1) << 40, 0, 0, NULL};
    t.tier[0] = (struct topology_tier){text("port"), 2e-6, 50e9};
    for (size_t i = 0; i < n; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "g%zu", i);
        t.device[i] = text(name);
    }
    return t;
}

static char *star_file(size_t n)
{
    char *path = text("/tmp/foreline-speed-XXXXXX");
    FILE *f = fdopen(mkstemp(path), "w");
    if (!f)
        abort();
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"DijkstraCache\">\n",
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "<host id=\"g%zu\" speed=\"1Tf\"/>\n", i);
    fputs("<router id=\"switch\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<link id=\"l%zu\" bandwidth=\"50GBps\" latency=\"1us\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<route src=\"g%zu\" dst=\"switch\"><link_ctn id=\"l%zu\" direction=\"UP\"/>"
                "</route>\n",
                i, i);
    fputs("</zone>\n</platform>\n", f);
    fclose(f);
    return path;
}

static struct plan straight(const struct model *m, uint32_t microbatches)
{
    struct plan p = {.model = text("chain"),
                     .platform = text("star"),
                     .schedule = text("1f1b"),
                     .optimizer = text("sgd"),
                     .microbatches = microbatches,
                     .microbatch_size = 1,
                     .objective_s = NAN,
                     .stages = m->n};
    p.stage = calloc(m->n, sizeof *p.stage);
    for (uint32_t s = 0; s < m->n; s++) {
        p.stage[s] = (struct plan_stage){1, malloc(4), 1, malloc(4), 1, 1, false};
        p.stage[s].op[0] = p.stage[s].device[0] = s;
    }
    return p;
}

static enum status measure(size_t stages, uint32_t microbatches, size_t repeats)
{
    enum status st = STATUS_OK;
    struct model m = {0};
    struct topology t = clique(stages);
    struct program program = {0};
    struct plan plan = {0};
    char *platform = star_file(stages);
    double *cpu_s = calloc(repeats, sizeof *cpu_s);

    TRY(chain(stages, &m));
    plan = straight(&m, microbatches);
    TRY(plan_lower(&plan, &m, &t, &program));
    for (size_t e = 0; e < engines_n; e++) {
        double best = INFINITY, last = 0;
        size_t messages = 0;
        for (size_t k = 0; k < repeats; k++) {
            struct simulation s = {0};
            TRY(engines[e]->run(&program, &t, platform, &s));
            cpu_s[k] = s.cpu_s;
            best = fmin(best, s.cpu_s);
            messages = s.messages;
            for (size_t i = 0; i < s.timeline.n; i++)
                last = fmax(last, s.timeline.end_s[i]);
            simulation_free(&s);
        }
        double middle = median(cpu_s, repeats);
        printf("%s\t%zu\t%u\t%zu\t%zu\t%.9g\t%.4g\t%.4g\t%.3g\t%.3g\n", engines[e]->name, stages,
               microbatches, program.ops, messages, last, middle, best,
               (double)program.ops / middle, (double)messages / middle);
        fflush(stdout);
    }
out:
    free(cpu_s);
    unlink(platform);
    free(platform);
    plan_free(&plan);
    program_free(&program);
    topology_free(&t);
    model_free(&m);
    return st;
}

int main(int argc, char **argv)
{
    static const struct {
        size_t stages;
        uint32_t microbatches;
    } size[] = {{8, 32}, {64, 256}, {256, 1024}};
    size_t repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
    printf("# engine\tP\tM\tops\tmessages\titeration\tcpu\tbest_cpu\tops_rate\tmessage_rate\n"
           "#\t\t\t\t\ts\ts\ts\t1/s\t1/s\n");
    for (size_t k = 0; k < sizeof size / sizeof *size; k++)
        if (measure(size[k].stages, size[k].microbatches, repeats ? repeats : 1) != STATUS_OK) {
            fprintf(stderr, "sim_speed: %s\n", error_message());
            return 1;
        }
    return 0;
}
