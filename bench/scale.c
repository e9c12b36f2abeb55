/* scale - what folding costs as pods grow: GPT-3 175B on nodes of 8 H100, contention included.
 *
 * 16 stages x GPUs / 128 replicas x 8 shards, 1F1B, 32 microbatches of one sequence for each
 * replica; stages side by side, shards in a node. Everything counts: writing and reading the
 * platform, lowering, the proof of symmetry, the simulation. A process for each line, so that
 * memory is its own. Prints TSV. FAMILY: "rail", or with more of its parameters than nodes, gpus
 * and type "rail:oversubscription=2". Usage: scale analytic|simgrid whole|folded FAMILY ZERO
 * COLLECTIVE GPUS...; ZERO 0 to 3, COLLECTIVE as simulate's --collective. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/data/measurement.h"
#include "core/lower/lower.h"
#include "model/zoo.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/sample.h"
#include "topologies/generate.h"

enum { STAGES = 16, SHARDS = 8, MICROBATCHES = 32 };

/* CPU seconds of this process and the engine's child. */
static double cpu(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    double s = 0;
    const struct rusage *const both[] = {&self, &children};
    for (size_t k = 0; k < 2; k++)
        s += (double)(both[k]->ru_utime.tv_sec + both[k]->ru_stime.tv_sec) +
             1e-6 * (double)(both[k]->ru_utime.tv_usec + both[k]->ru_stime.tv_usec);
    return s;
}

/* The larger of the two. */
static double peak_MB(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    long most = self.ru_maxrss > children.ru_maxrss ? self.ru_maxrss : children.ru_maxrss;
    return (double)most / 1e3 * 1.024;
}

/* Megatron's order: shards in a node, replicas side by side, then stages. */
static struct plan scale_make_plan(const struct model *m, uint32_t replicas, uint32_t zero)
{
    struct plan p = sample_plan(m, STAGES, replicas, MICROBATCHES * replicas, "1f1b");
    free(p.optimizer);
    p.optimizer = sample_text("adam");
    p.zero = zero;
    for (uint32_t s = 0; s < STAGES; s++) {
        struct plan_stage *stage = &p.stage[s];
        stage->tensor_parallel = SHARDS;
        stage->devices = (size_t)replicas * SHARDS;
        free(stage->device);
        stage->device = calloc(stage->devices, sizeof *stage->device);
        for (uint32_t d = 0; stage->device && d < stage->devices; d++)
            stage->device[d] = s * (uint32_t)stage->devices + d;
    }
    return p;
}

/* What all lines have in common. */
struct scale_question {
    const struct engine *engine;
    const char *how, *family;
    uint32_t zero;
    struct simulation_options options;
};

struct laps {
    double read_s, simulate_s; /* reading; lowering, the proof of symmetry, simulating */
    size_t ranks;              /* that were simulated */
};

static enum status scale_simulate(const struct scale_question *q, const char *path,
                                  uint32_t replicas, struct laps *laps, double *iteration_s)
{
    bool fold = strcmp(q->how, "folded") == 0;
    enum status st;
    struct topology t = {0};
    struct model m = {0};
    struct plan plan = {0};
    struct program program = {0};
    struct simulation s = {0};
    struct plan_classes classes = {0};
    TRY(platform_read(path, &t));
    laps->read_s = cpu();
    TRY(zoo_build("gpt3-175b", &m));
    plan = scale_make_plan(&m, replicas, q->zero);
    if (fold) {
        const struct engine_folded what = {
            .plan = &plan, .model = &m, .topology = &t, .platform = path, .options = &q->options};
        TRY(engine_run_folded(q->engine, &what, &classes, &program, &s));
    } else {
        TRY(plan_lower(&plan, &m, &t, &program));
        TRY(q->engine->run(&program, &t, path, &q->options, &s));
    }
    laps->simulate_s = cpu() - laps->read_s;
    laps->ranks = program.ranks;
    *iteration_s = 0;
    for (size_t i = 0; i < program.ops; i++)
        *iteration_s = s.timeline.end_s[i] > *iteration_s ? s.timeline.end_s[i] : *iteration_s;
out:
    simulation_free(&s);
    free(classes.of);
    program_free(&program);
    plan_free(&plan);
    model_free(&m);
    topology_free(&t);
    return st;
}

/* One line of the table. */
static enum status scale_measure(const struct scale_question *q, uint32_t devices)
{
    enum status st;
    const char *family = q->family;
    char path[] = "/tmp/foreline-scale-XXXXXX.xml", spec[256];
    double iteration_s = 0;
    struct laps laps = {0};
    FILE *f = NULL;
    int fd = mkstemps(path, 4);
    if (fd < 0 || !(f = fdopen(fd, "w")))
        return error_set(STATUS_IO, "no temporary file");
    size_t name = strcspn(family, ":");
    snprintf(spec, sizeof spec, "%.*s:nodes=%u,gpus=8,type=H100%s%s", (int)name, family,
             devices / 8, family[name] ? "," : "", family[name] ? family + name + 1 : "");
    TRY(generate_platform(spec, f));
    fclose(f);
    f = NULL;
    TRY(scale_simulate(q, path, devices / STAGES / SHARDS, &laps, &iteration_s));
    printf("%u\t%s\t%u\t%s\t%s\t%s\t%.9g\t%.3g\t%.3g\t%.3g\t%zu\t%.0f\n", devices, family, q->zero,
           q->options.collective.algorithm, q->engine->name, q->how, iteration_s, cpu(),
           laps.read_s, laps.simulate_s, laps.ranks, peak_MB());
out:
    if (f)
        fclose(f);
    unlink(path);
    return st;
}

int main(int argc, char **argv)
{
    struct scale_question q = {0};
    if (argc < 7) {
        fputs("usage: scale analytic|simgrid whole|folded FAMILY ZERO COLLECTIVE GPUS...\n",
              stderr);
        return 2;
    }
    q.how = argv[2];
    q.family = argv[3];
    q.zero = (uint32_t)strtoul(argv[4], NULL, 10);
    q.options.collective.algorithm = argv[5];
    if (engine_find(argv[1], &q.engine) != STATUS_OK) {
        fprintf(stderr, "scale: %s\n", error_message());
        return 2;
    }
    puts("# GPUs\tplatform\tZeRO\tcollective\tengine\thow\titeration s\tCPU s\tread s\tsimulate s"
         "\tranks\tMB");
    for (int k = 6; k < argc; k++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            enum status st = scale_measure(&q, (uint32_t)strtoul(argv[k], NULL, 10));
            if (st != STATUS_OK)
                fprintf(stderr, "scale: %s\n", error_message());
            fflush(stdout);
            _exit(st != STATUS_OK);
        }
        int code = 0;
        if (pid < 0 || waitpid(pid, &code, 0) < 0 || code != 0)
            return 1;
    }
    return 0;
}
