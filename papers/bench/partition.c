/* partition - our algorithms beside the published ones on their own inputs.
 *
 * Reads goldens.json of the workloads folder (argument, else FORELINE_WORKLOADS), runs for every
 * record the algorithm that answers it, and prints TSV: objective, golden, ratio, CPU seconds of
 * both, speed-up. Usage: partition [WORKLOADS [PEER]]
 *
 * partition WORKLOADS|- random WORK [EXACT_S [LIMIT_S [FIRST [LAST]]]]: placement on problems that
 * are not published, 50 by default, in the folder WORK; EXACT_S > 0 asks CBC (coinor-cbc; without
 * it GLPK), too, and remembers in WORK what it said. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "model/import.h"
#include "papers/bench/partition_random.h"
#include "papers/common/objective.h"

static const struct {
    const char *peer, *objective, *algorithm;
} answers[] = {
    {"dnn-partitioning/dp", "placement", "ideals"},
    {"dnn-partitioning/dpfast", "placement", "ideals"},
    {"dnn-partitioning/oneFpga", "placement", "ideals"},
    {"dnn-partitioning/pipeDream", "placement", "ideals"},
    {"dnn-partitioning/scotch", "placement", "noncontiguous"},
    {"dnn-partitioning/scotch", "placement", "metis"},
    {"dnn-partitioning/localSearch", "placement", "noncontiguous"},
    {"dnn-partitioning/ip-noncontig", "placement", "noncontiguous"},
    {"piper", "piper", "piper"},
    {"pipedream", "pipedream", "pipedream"},
    {"pippy-milp", "pippy", "milp"},
};

struct golden {
    char *peer, *input, *options; /* options: pipedream's command line */
    double objective, cpu_s;      /* NAN: none */
    bool changed;                 /* of a model that is not the file's: not comparable */
    struct objective_request request;
};

static void golden_free(struct golden *g)
{
    free(g->peer);
    free(g->input);
    free(g->options);
}

/* "-n 4 4 -b 1e10 1e9 --straight_pipeline --activation_compression_ratio 1" */
static void partition_bench_options(const char *text, struct objective_request *r)
{
    char *copy = malloc(strlen(text) + 1), *save = NULL, mode = 0;
    size_t bandwidths = 0;
    if (!copy)
        abort();
    strcpy(copy, text);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (!strcmp(word, "--straight_pipeline"))
            r->said.straight = true;
        else if (!strcmp(word, "--activation_compression_ratio"))
            r->said.charge_activations = true;
        else if (word[0] == '-')
            mode = word[1];
        else if (mode == 'n' && r->levels < OBJECTIVE_LEVELS)
            r->machines[r->levels++] = strtoul(word, NULL, 10);
        else if (mode == 'b' && bandwidths < OBJECTIVE_LEVELS)
            r->bandwidth_Bps[bandwidths++] = strtod(word, NULL);
        if (!strcmp(word, "--straight_pipeline") || !strcmp(word, "--activation_compression_ratio"))
            mode = 0;
    }
    for (; bandwidths < r->levels; bandwidths++)
        r->bandwidth_Bps[bandwidths] = 1e9; /* the original's default */
    free(copy);
}

static enum status read_params(const struct json_at *record, struct golden *g)
{
    struct json_at params;
    int64_t devices = 0, batch = 0, layers = 0, stages = 0;
    double memory = 0, bandwidth = 0;
    PASS(json_field(record, "params", &params));
    if (json_members(&params) == 0) {
        PASS(json_get_copy(&params, &g->options));
        partition_bench_options(g->options, &g->request);
        return STATUS_OK;
    }
    PASS(json_may_integer(&params, "devices", 0, INT32_MAX, &devices));
    PASS(json_may_integer(&params, "mbsInBatch", 0, INT32_MAX, &batch));
    PASS(json_may_real(&params, "memGiB", 0, 1e9, &memory));
    PASS(json_may_real(&params, "bwGiBps", 0, 1e9, &bandwidth));
    PASS(json_may_integer(&params, "layers", 0, INT32_MAX, &layers));
    PASS(json_may_integer(&params, "K", 0, INT32_MAX, &stages));
    g->changed = layers != 0;
    g->request.stages = (size_t)stages;
    g->request.devices = (size_t)devices;
    g->request.batch = (size_t)batch;
    g->request.memory_bytes = memory > 0 ? memory * 1073741824 : NAN;
    g->request.levels = 1;
    g->request.machines[0] = (size_t)devices;
    g->request.bandwidth_Bps[0] = bandwidth * 1073741824;
    return STATUS_OK;
}

static enum status read_golden(const struct json_at *record, struct golden *g)
{
    *g = (struct golden){.objective = NAN, .cpu_s = NAN, .request.memory_bytes = NAN};
    g->request.seed = 1;
    PASS(json_need_text(record, "peer", &g->peer));
    PASS(json_need_text(record, "input", &g->input));
    PASS(json_may_real(record, "objective", -1e300, 1e300, &g->objective));
    PASS(json_may_real(record, "cpu_seconds", 0, 1e300, &g->cpu_s));
    return read_params(record, g);
}

static enum status partition_bench_answer(const char *folder, struct golden *g,
                                          const char *objective, const char *algorithm)
{
    enum status st;
    const struct objective *o;
    struct objective_result result = {0};
    struct model m = {0};
    struct import_options options = {.minibatch_size = 1};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, g->input);
    TRY(objective_find(objective, &o));
    g->request.spec = path;
    if (!o->own_format) {
        options.nodes_apart = o->nodes_apart;
        TRY(model_import(path, &options, &m));
        g->request.model = &m;
    }
    st = objective_solve(o, algorithm, &g->request, &result);
    if (st == STATUS_INFEASIBLE) {
        printf("%s\t%s\t%s\t-\t%.10g\t-\t-\t%.4g\t-\tinfeasible%s\n", g->peer, g->input, algorithm,
               g->objective, g->cpu_s, isnan(g->objective) ? ", like the golden" : "");
        st = STATUS_OK;
    } else if (st == STATUS_OK) {
        printf("%s\t%s\t%s\t%.10g\t%.10g\t%.9f\t%.4g\t%.4g\t%.1f\t%s\n", g->peer, g->input,
               algorithm, result.value, g->objective, result.value / g->objective, result.cpu_s,
               g->cpu_s, g->cpu_s / result.cpu_s,
               result.proved_optimal                ? "proved"
               : isnan(g->objective) && result.note ? result.note
                                                    : "");
    }
    fflush(stdout);
out:
    objective_result_free(&result);
    model_free(&m);
    return st;
}

static enum status partition_bench_run(const char *folder, const char *peer)
{
    enum status st;
    struct json_document d = {0};
    struct json_at root, records;
    char path[4096];
    size_t n;
    snprintf(path, sizeof path, "%s/goldens.json", folder);
    TRY(json_read(path, NULL, 1, &d));
    root = json_root(&d);
    TRY(json_field(&root, "records", &records));
    TRY(json_get_array(&records, 1000000, &n));
    printf("# peer\tinput\talgorithm\tobjective\tgolden\tratio\tcpu\tgolden_cpu\tspeed_up\tnote\n"
           "#\t\t\t\t\t\ts\ts\t\t\n");
    for (size_t i = 0; i < n; i++) {
        struct json_at record = json_item(&records, i);
        struct golden g = {0};
        st = read_golden(&record, &g);
        for (size_t k = 0; st == STATUS_OK && k < sizeof answers / sizeof *answers; k++)
            if (!g.changed && !strcmp(answers[k].peer, g.peer) && (!peer || !strcmp(peer, g.peer)))
                st = partition_bench_answer(folder, &g, answers[k].objective, answers[k].algorithm);
        golden_free(&g);
        if (st != STATUS_OK)
            goto out;
    }
out:
    json_document_free(&d);
    return st;
}

/* random WORK [EXACT_S [LIMIT_S [FIRST [LAST]]]] */
static enum status run_random(const char *folder, int argc, char **argv)
{
    const struct random_options o = {
        .work = argv[0],
        .exact_s = argc > 1 ? strtod(argv[1], NULL) : 0,
        .limit_s = argc > 2 ? strtod(argv[2], NULL) : 0,
        .first = argc > 3 ? strtoul(argv[3], NULL, 10) : 0,
        .last = argc > 4 ? strtoul(argv[4], NULL, 10) : 50,
    };
    return random_compare(folder, &o);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : getenv("FORELINE_WORKLOADS");
    if (argc > 3 && !strcmp(argv[2], "random")) {
        enum status st = run_random(strcmp(folder, "-") != 0 ? folder : NULL, argc - 3, argv + 3);
        if (st != STATUS_OK)
            fprintf(stderr, "partition: %s\n", error_message());
        return st != STATUS_OK;
    }
    if (!folder) {
        puts("skipped: no workloads folder (argument or FORELINE_WORKLOADS)");
        return 0;
    }
    if (partition_bench_run(folder, argc > 2 ? argv[2] : NULL) != STATUS_OK) {
        fprintf(stderr, "partition: %s\n", error_message());
        return 1;
    }
    return 0;
}
