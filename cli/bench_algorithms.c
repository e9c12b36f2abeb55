/* bench algorithms - what an engine says of every collective, by every algorithm, on a platform. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "core/base/array.h"
#include "core/base/units.h"
#include "core/collective/collective.h"
#include "sim/call.h"
#include "sim/engines.h"
#include "study/load.h"
#include "topologies/msccl.h"

enum { SIZES = 4, RATIO = 16 };

struct algorithms {
    const struct engine *engine;
    struct call call;
    struct collective_group group;
    struct steps_algorithm steps; /* of --algorithm-file */
    struct collective_options options;
};

/* A line of the table. `chosen`: the words that take this one. */
static enum status print_call(struct algorithms *x, const char *name, const char *chosen)
{
    double seconds, bytes = (double)x->call.bytes;
    enum collective_kind kind = (enum collective_kind)op_collective[x->call.kind];
    PASS(call_simulate(&x->call, x->engine, &x->options, &seconds));
    double algbw = bytes / seconds;
    printf("%s\t%.0f\t%s\t%s\t%.6g\t%.6g\t%.6g\n", collective_kind_name[kind], bytes, name, chosen,
           seconds, algbw, algbw * collective_bus_factor(kind, x->call.ranks));
    return STATUS_OK;
}

/* All algorithms that can do the kind of collective there, and the file's. */
static enum status print_kind(struct algorithms *x, enum op_kind kind, int64_t bytes)
{
    static const char *const words[] = {"-", "auto", "fastest", "auto,fastest"};
    struct collective_choice usual, fastest;
    enum collective_kind of = (enum collective_kind)op_collective[kind];
    x->options.algorithm = NULL;
    PASS(collective_choose(&x->group, of, bytes, &x->options, &usual));
    x->options.algorithm = collective_fastest.name;
    PASS(collective_choose(&x->group, of, bytes, &x->options, &fastest));
    x->call.kind = kind;
    x->call.bytes = bytes;
    for (size_t k = 0; k < collective_algorithms_n; k++) {
        const struct collective_algorithm *a = collective_algorithms[k];
        size_t chosen = (a == usual.algorithm) + 2u * (a == fastest.algorithm);
        x->options.algorithm = a->name;
        if (collective_applies(a, &x->group, of))
            PASS(print_call(x, a->name, words[chosen]));
    }
    if (!collective_follows(x->steps.path ? &x->steps : NULL, of, bytes, x->group.n))
        return STATUS_OK;
    x->options.steps = &x->steps;
    enum status st = print_call(x, collective_file.name, words[0]);
    x->options.steps = NULL;
    return st;
}

static enum status algorithms_group(struct algorithms *x)
{
    uint32_t *device;
    if (x->call.ranks < 2 || x->call.ranks > x->call.topology->n)
        return error_set(STATUS_USAGE, "--ranks: got %zu, expected 2 to %zu (the devices of %s)",
                         x->call.ranks, x->call.topology->n, x->call.topology->name);
    PASS(ARRAY_NEW(device, x->call.ranks));
    for (uint32_t k = 0; k < x->call.ranks; k++)
        device[k] = k;
    enum status st = collective_group_make(x->call.topology, device, x->call.ranks, &x->group);
    if (st == STATUS_OK)
        x->options.nics = collective_nics(&x->group);
    free(device);
    return st;
}

enum status bench_algorithms(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct topology t = {0};
    struct algorithms x = {.call.topology = &t};
    char *path = NULL;
    TRY(arguments_check(a, TAKES(BENCH_ALGORITHMS)));
    if (!a->platform)
        return error_set(STATUS_USAGE, "'bench algorithms' needs --platform P");
    if (!(a->measure.largest_bytes >= 4096 && a->measure.largest_bytes <= 1e15))
        return error_set(STATUS_USAGE, "--largest: got %s, expected 4 KiB to 1 PB",
                         units_of(UNIT_BYTES, (double)a->measure.largest_bytes).text);
    int64_t largest = (int64_t)a->measure.largest_bytes;
    if (engine_find(a->sim.engine, &x.engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    if (a->sim.algorithm_file)
        TRY(msccl_read(a->sim.algorithm_file, &x.steps));
    TRY(load_topology(a->platform, &t, &path));
    x.call.platform = path;
    x.call.ranks = a->run.ranks ? a->run.ranks : t.n;
    TRY(algorithms_group(&x));
    if (x.steps.path && x.steps.ranks != x.group.n)
        FAIL(STATUS_USAGE, "%s: the algorithm needs %u ranks, got %zu. Try --ranks %u",
             x.steps.path, x.steps.ranks, x.group.n, x.steps.ranks);
    printf("collective\tbytes\talgorithm\tchosen\tseconds\talgbw_Bps\tbusbw_Bps\n");
    for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++)
        for (int64_t size = SIZES, bytes = largest; size > 0; size--, bytes /= RATIO)
            TRY(print_kind(&x, kind, bytes));
out:
    collective_group_free(&x.group);
    steps_free(&x.steps);
    topology_free(&t);
    free(path);
    return st;
}
