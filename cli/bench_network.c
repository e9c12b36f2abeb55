/* bench network - patterns of flows on fluid links, on ns-3's packets and on an emulated network,
 * side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/engines.h"
#include "sim/ns3.h"
#include "sim/pattern.h"
#include "study/emulate_network.h"
#include "study/emulate_pattern.h"
#include "study/load.h"
#include "study/paths.h"

enum { SIZES = 5, RATIO = 8, LARGEST = 16 << 20, MOST_ENGINES = 8, MOST_WORDS = 128 };

struct network_bench {
    const struct arguments *a;
    struct topology t;
    char *path;
    struct paths_options paths;
    double dilation;
    size_t engines;
    const struct engine *engine[MOST_ENGINES]; /* NULL: the emulated network */
    struct json_writer json;
};

static const char *column_name(const struct network_bench *x, size_t k)
{
    return x->engine[k] ? x->engine[k]->name : "netns";
}

/* --engines: names of engines, and "netns". */
static enum status read_engines(struct network_bench *x)
{
    char copy[MOST_WORDS] = "", *word[MOST_ENGINES + 1];
    if (strlen(x->a->sim.engines) >= sizeof copy)
        return error_set(STATUS_USAGE, "--engines: list has more than %d characters",
                         MOST_WORDS - 1);
    memcpy(copy, x->a->sim.engines, strlen(x->a->sim.engines));
    size_t n = text_split(copy, ",", word, MOST_ENGINES + 1);
    if (n > MOST_ENGINES)
        return error_set(STATUS_USAGE, "--engines: list has more than %d engines", MOST_ENGINES);
    bool packets = false, emulated = false, models = false;
    for (size_t k = 0; k < n; k++, x->engines++) {
        if (strcmp(word[k], "netns") != 0 && engine_find(word[k], &x->engine[k]) != STATUS_OK)
            return error_context(STATUS_USAGE, "--engines takes simulation engines and 'netns'");
        if (x->engine[k] && x->engine[k]->packets) {
            packets = true;
            PASS(ns3_settings_use(x->a->sim.ns3));
        }
        emulated = emulated || !x->engine[k];
        models = models || (x->engine[k] && x->engine[k]->models);
    }
    if (arguments_given(x->a, "network-model") && !models)
        return error_set(STATUS_USAGE, "--network-model has no effect without --engines simgrid");
    if (arguments_given(x->a, "dilate") && !emulated)
        return error_set(STATUS_USAGE, "--dilate has no effect without --engines netns");
    return arguments_given(x->a, "ns3") && !packets
               ? error_set(STATUS_USAGE, "--ns3 has no effect without --engines ns3")
               : STATUS_OK;
}

/* What one column says; a network that it cannot have is a NaN, and a line on stderr. */
static enum status run_column(struct network_bench *x, size_t k, const struct pattern *p,
                              double *end_s)
{
    const struct simulation_options o = {.paths = x->paths,
                                         .no_links = true,
                                         .network_model = x->a->sim.network_model,
                                         .ns3 = x->a->sim.ns3};
    enum status st = x->engine[k] ? pattern_simulate(p, &x->t, x->path, x->engine[k], &o, end_s)
                                  : emulate_pattern(p, &x->t, x->path, x->dilation, end_s);
    if (st != STATUS_UNSUPPORTED)
        return st;
    fprintf(stderr, "foreline bench: %s\n", error_message());
    for (size_t f = 0; f < p->n; f++)
        end_s[f] = NAN;
    return STATUS_OK;
}

static double last_of(const double *end_s, size_t n)
{
    double last_s = 0;
    for (size_t f = 0; f < n; f++)
        last_s = isnan(end_s[f]) ? end_s[f] : fmax(last_s, end_s[f]);
    return last_s;
}

static void print_number(const char *before, double x)
{
    if (isnan(x))
        printf("%s-", before);
    else
        printf("%s%.6g", before, x);
}

static void print_row(struct network_bench *x, const char *name, int64_t bytes,
                      const struct pattern *p, const double *end_s)
{
    if (x->a->json) {
        json_open_object(&x->json, NULL, false);
        json_put_string(&x->json, "pattern", name);
        json_put_integer(&x->json, "bytes", bytes);
        json_put_integer(&x->json, "flows", (int64_t)p->n);
        for (size_t k = 0; k < x->engines; k++)
            json_put_reals(&x->json, column_name(x, k), end_s + k * p->n, p->n);
        json_close(&x->json);
        return;
    }
    printf("%s\t%lld\t%zu", name, (long long)bytes, p->n);
    for (size_t k = 0; k < x->engines; k++)
        print_number("\t", last_of(end_s + k * p->n, p->n));
    for (size_t k = 1; k < x->engines; k++)
        print_number("\t", last_of(end_s + k * p->n, p->n) / last_of(end_s, p->n));
    printf("\n");
    fflush(stdout);
}

static enum status run_pattern(struct network_bench *x, const char *name, int64_t bytes,
                               const struct pattern *p)
{
    enum status st;
    double *end_s = NULL;
    TRY(ARRAY_NEW(end_s, x->engines * p->n));
    for (size_t k = 0; k < x->engines; k++)
        TRY(run_column(x, k, p, end_s + k * p->n));
    print_row(x, name, bytes, p, end_s);
out:
    free(end_s);
    return st;
}

static void print_head(struct network_bench *x)
{
    if (x->a->json) {
        json_open_object(&x->json, NULL, false);
        json_put_string(&x->json, "platform", x->a->platform);
        json_open_array(&x->json, "cases", false);
        return;
    }
    printf("pattern\tbytes\tflows");
    for (size_t k = 0; k < x->engines; k++)
        printf("\t%s_s", column_name(x, k));
    for (size_t k = 1; k < x->engines; k++)
        printf("\t%s/%s", column_name(x, k), column_name(x, 0));
    printf("\n");
}

/* All patterns at all sizes, or the flows of a file. */
static enum status run_patterns(struct network_bench *x)
{
    enum status st = STATUS_OK;
    struct pattern p = {0};
    uint32_t ranks = (uint32_t)(x->a->run.ranks ? x->a->run.ranks : x->t.n);
    if (x->a->measure.flows) {
        int64_t bytes;
        TRY(pattern_read(x->a->measure.flows, &p));
        TRY(pattern_most_bytes(&p, &bytes));
        print_head(x);
        TRY(run_pattern(x, "file", bytes, &p));
        goto out;
    }
    print_head(x);
    for (size_t i = 0; pattern_name(i); i++) {
        int64_t bytes =
            arguments_given(x->a, "largest") ? (int64_t)x->a->measure.largest_bytes : LARGEST;
        for (size_t size = SIZES; size > 0; size--, bytes /= RATIO) {
            pattern_free(&p);
            TRY(pattern_make(i, ranks, bytes, x->a->seed, &p));
            TRY(run_pattern(x, pattern_name(i), bytes, &p));
        }
    }
out:
    pattern_free(&p);
    return st;
}

enum status bench_network(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    static const char *const patterns_only[] = {"largest", "ranks", NULL};
    struct network_bench x = {.a = a, .json.stream = stdout};
    TRY(arguments_check(a, TAKES(BENCH_NETWORK)));
    if (!a->platform)
        return error_set(STATUS_USAGE, "'bench network' needs --platform P");
    if (!(a->measure.largest_bytes >= 1 << 20 && a->measure.largest_bytes <= 1e12))
        return error_set(STATUS_USAGE, "--largest: got %s, expected 1 MiB to 1 TB",
                         units_of(UNIT_BYTES, (double)a->measure.largest_bytes).text);
    for (size_t k = 0; a->measure.flows && patterns_only[k]; k++)
        if (arguments_given(a, patterns_only[k]))
            return error_set(STATUS_USAGE, "--%s has no effect with --flows", patterns_only[k]);
    TRY(read_engines(&x));
    TRY(emulate_parse_dilation(a->emulation.dilate, &x.dilation));
    TRY(load_topology(a->platform, &x.t, &x.path));
    TRY(paths_read(a, &x.t, &x.paths));
    if (a->measure.flows && arguments_given(a, "seed") && !paths_are_random(&x.t, &x.paths))
        FAIL(STATUS_USAGE, "--seed has no effect with --flows; add --paths ecmp to use it");
    if (a->run.ranks == 1 || a->run.ranks > x.t.n)
        FAIL(STATUS_USAGE, "--ranks: got %zu, expected 2 to %zu (the devices of %s)", a->run.ranks,
             x.t.n, x.t.name);
    TRY(run_patterns(&x));
    if (a->json) {
        json_close(&x.json);
        json_close(&x.json);
    }
out:
    topology_free(&x.t);
    free(x.path);
    return st;
}
