/* bench - how fast the engines are, and what they say, on workloads that others have published; and
 * what this machine does in collectives and in overlap. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/bench.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "core/data/measurement.h"
#include "core/lower/lower.h"
#include "sim/engines.h"
#include "sim/export/export.h"
#include "sim/workload.h"
#include "study/load.h"
#include "study/network_options.h"
#include "study/paths.h"

struct bench_result {
    double iteration_s, cpu_s;
    size_t ops, messages;
    int64_t peak_rss_bytes;
};

/* Of this process and, at their end, its children (SimGrid runs in one). */
static void account(struct bench_result *r)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    const struct timeval used[] = {self.ru_utime, self.ru_stime, children.ru_utime,
                                   children.ru_stime};
    for (size_t k = 0; k < sizeof used / sizeof *used; k++)
        r->cpu_s += (double)used[k].tv_sec + 1e-6 * (double)used[k].tv_usec;
    long most = self.ru_maxrss > children.ru_maxrss ? self.ru_maxrss : children.ru_maxrss;
    r->peak_rss_bytes = (int64_t)most * 1024; /* Linux: KiB */
}

/* The switch in a file that has no name, so that nothing remains whatever happens. */
static enum status write_platform(size_t ranks, FILE **file, char path[32])
{
    *file = tmpfile();
    if (!*file)
        return error_set(STATUS_IO, "cannot create a temporary file: %s", strerror(errno));
    workload_write_platform(ranks, *file);
    int cause = file_flush(*file);
    if (cause != 0)
        return error_set(STATUS_IO, "cannot create a temporary file: %s", strerror(cause));
    snprintf(path, 32, "/proc/self/fd/%d", fileno(*file));
    return STATUS_OK;
}

/* "goal=FILE": the same program for another simulator. */
static enum status write_export(const struct invocation *in, const struct program *p,
                                const struct topology *t, const struct simulation_options *s)
{
    const struct exporter *e;
    const char *path;
    struct export_options o = {.collective = &s->collective};
    if (!in->a.sim.export)
        return STATUS_OK;
    if (export_parse(in->a.sim.export, &e, &path, &o.unit_s) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    return e->write(p, t, &o, path, &in->by);
}

static enum status bench_measure(const struct invocation *in, const struct engine *engine,
                                 const struct workload *w, const char *platform,
                                 struct simulation_options o, struct bench_result *out)
{
    enum status st;
    struct program program = {0};
    struct simulation s = {0};
    bool settled;

    TRY(paths_read(&in->a, &w->topology, &o.paths));
    TRY(plan_lower(&w->plan, &w->model, &w->topology, &program));
    TRY(write_export(in, &program, &w->topology, &o));
    TRY(engine->run(&program, &w->topology, platform, &o, &s));
    *out = (struct bench_result){.iteration_s = timeline_iteration(&program, &s.timeline, &settled),
                                 .ops = program.ops,
                                 .messages = s.messages};
    account(out);
out:
    simulation_free(&s);
    program_free(&program);
    return st;
}

static void bench_print_json(const struct arguments *a, const char *workload,
                             const struct bench_result *r)
{
    struct json_writer out = {.stream = stdout};
    json_open_object(&out, NULL, false);
    json_put_string(&out, "workload", workload);
    json_put_integer(&out, "ranks", (int64_t)a->run.ranks);
    json_put_string(&out, "engine", a->sim.engine);
    json_put_real(&out, "iteration_s", r->iteration_s);
    json_put_integer(&out, "ops", (int64_t)r->ops);
    json_put_integer(&out, "messages", (int64_t)r->messages);
    json_put_real(&out, "cpu_s", r->cpu_s);
    json_put_real(&out, "ops_per_s", (double)r->ops / r->cpu_s);
    json_put_integer(&out, "peak_rss_bytes", r->peak_rss_bytes);
    json_close(&out);
}

static void print_text(const struct arguments *a, const char *workload,
                       const struct bench_result *r)
{
    printf("workload    %s over %zu ranks\nengine      %s\niteration   %s\n", workload,
           a->run.ranks, a->sim.engine, units_of(UNIT_SECONDS, r->iteration_s).text);
    printf("ops         %zu\nmessages    %zu\ncpu         %s, %.3g ops/s\npeak memory %s\n", r->ops,
           r->messages, units_of(UNIT_SECONDS, r->cpu_s).text, (double)r->ops / r->cpu_s,
           units_of(UNIT_BYTES, (double)r->peak_rss_bytes).text);
}

static enum status bench(struct invocation *in)
{
    enum status st;
    struct arguments *a = &in->a;
    const struct engine *engine;
    const struct workload_kind *kind;
    struct workload w = {0};
    struct simulation_options o = {.collective.algorithm = "ring"};
    struct topology t = {0};
    struct bench_result r;
    char *path = NULL, temporary[32] = "";
    FILE *file = NULL;

    static const struct way {
        const char *name;
        enum status (*run)(struct invocation *in);
    } ways[] = {{"algorithms", bench_algorithms}, {"collectives", bench_real_collectives},
                {"network", bench_network},       {"overlap", bench_overlap},
                {"shards", bench_shards},         {"tradeoff", bench_tradeoff}};
    PASS(command_expect(in, 1,
                        "ring, pipe, algorithms, collectives, network, overlap, shards or "
                        "tradeoff"));
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        if (!strcmp(in->operand[0], ways[k].name))
            return ways[k].run(in);
    PASS(arguments_check(a, TAKES(BENCH)));
    if (a->run.ranks == 0)
        a->run.ranks = 64;
    if (workload_find(in->operand[0], &kind) != STATUS_OK)
        return STATUS_USAGE;
    if (engine_find(a->sim.engine, &engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    TRY(network_options_read(a, engine, &o));
    if (a->platform)
        TRY(load_topology(a->platform, &t, &path));
    st = workload_make(kind, a->run.ranks, &t, &w);
    if (st != STATUS_OK) {
        st = st == STATUS_INVALID ? error_context(STATUS_USAGE, "--ranks") : st;
        goto out;
    }
    if (!a->platform && engine->file)
        TRY(write_platform(a->run.ranks, &file, temporary));
    TRY(bench_measure(in, engine, &w, a->platform ? path : temporary, o, &r));
    if (a->json)
        bench_print_json(a, kind->name, &r);
    else
        print_text(a, kind->name, &r);
out:
    if (file)
        fclose(file);
    free(path);
    topology_free(&t);
    workload_free(&w);
    return st;
}

const struct command command_bench = {
    .name = "bench",
    .synopsis = "ring|pipe|algorithms|collectives|network|overlap|shards|tradeoff",
    .summary =
        "benchmark simulation engines, this machine's collectives, and memory/time trade-offs",
    .details =
        "ring         one ring all-reduce of 64 MiB over all ranks\n"
        "pipe         16 stages x N/16 replicas, 64 microbatches per replica, 1F1B: 1 ms forward,\n"
        "             2 ms backward, 8 MiB of activations; then a 64 MiB ring all-reduce per "
        "stage\n"
        "algorithms   simulate every collective with every algorithm that supports it over N "
        "devices of\n"
        "             --platform; prints a tab-separated table for 'foreline plot'\n"
        "collectives  run real collectives with N ranks on this machine: first compares the "
        "results of\n"
        "             all-reduce (sum, average, minimum, maximum), reduce-scatter, all-gather,\n"
        "             broadcast, reduce, gather, scatter and all-to-all with a plain loop, then "
        "prints\n"
        "             times of 4 KiB to 4 MiB like nccl-tests, with the number of wrong elements\n"
        "network      time until the last of several flows ends, by each of --engines: one flow, "
        "a\n"
        "             ring, a tree, all-to-all, incast and many short flows over --platform, each "
        "with\n"
        "             five sizes per rank; netns: TCP on an emulated network\n"
        "overlap      a matrix multiplication and a memory copy, first in sequence, then in two "
        "threads\n"
        "shards       measure the inputs of a strategy search (plan --algorithm spmd): FLOP/s of "
        "a\n"
        "             training step of a HiDup model and bytes per second of four collectives on "
        "the\n"
        "             whole tensor; also measure the search's assumptions: how much matrix\n"
        "             multiplications and collectives slow each other down, and small slices cost\n"
        "tradeoff     simulate the memory and communication of a model on N devices under data\n"
        "             parallelism, ZeRO 1 to 3, tensor and pipeline parallelism: one plan per row\n"
        "\n"
        "ring and pipe use a full-duplex port of 50 GB/s per rank to one switch, 1 us from port to "
        "port,\n"
        "or devices of --platform. They print the iteration time, the number of simulated ops and\n"
        "messages (a ring counts one per edge), and the cost of the simulation: CPU seconds of\n"
        "this process and its child, ops per CPU second, largest resident set.\n"
        "docs/reference/bench.md compares foreline with other simulators.",
    .examples = "foreline bench ring --ranks 8\n"
                "foreline bench algorithms --platform torus:x=4,y=4 --largest 1GB\n"
                "foreline bench network --platform leaf-spine:nodes=4,gpus=1,rack=2 --engines "
                "analytic,ns3\n",
    .often = "model platform ranks engine repeats json",
    .run = bench,
};
