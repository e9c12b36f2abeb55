/* plan - cut a model into pipeline stages and place them on the devices of a platform. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/load.h"
#include "core/cost.h"
#include "core/json.h"
#include "core/lower.h"
#include "core/schedule.h"
#include "core/units.h"
#include "partition/partition.h"
#include "sim/engine.h"

static const char *model_spec, *platform_name, *output;
static const char *algorithm_name = "balanced", *schedule = "1f1b", *optimizer = "adam";
static size_t stages, replicas = 1, microbatches = 8, microbatch_size = 1, seed = 1;
static bool json;

static const struct option_spec options[] = {
    {OPTION_STRING, "model", &model_spec, "M", "zoo name with overrides, or model file"},
    {OPTION_STRING, "platform", &platform_name, "P", "shipped name, or SimGrid XML file"},
    {OPTION_STRING, "algorithm", &algorithm_name, "A", "balanced, uniform, or list"},
    {OPTION_SIZE, "stages", &stages, "N", "pipeline stages; 0: as many as devices allow"},
    {OPTION_SIZE, "replicas", &replicas, "N", "data-parallel replicas of every stage"},
    {OPTION_SIZE, "microbatches", &microbatches, "N", "per iteration, over all replicas"},
    {OPTION_SIZE, "microbatch-size", &microbatch_size, "N", "samples per microbatch"},
    {OPTION_STRING, "schedule", &schedule, "gpipe|1f1b", "order of microbatches"},
    {OPTION_STRING, "optimizer", &optimizer, "adam|sgd", "state and time of the update"},
    {OPTION_SIZE, "seed", &seed, "N", "seed of parameters and data"},
    {OPTION_STRING, "output", &output, "FILE", "write the plan (also -o)"},
    {OPTION_FLAG, "json", &json, NULL, "print the result as JSON, SI units"},
    {.type = OPTION_END},
};

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static enum status list_algorithms(void)
{
    for (size_t i = 0; i < partition_algorithms_n; i++)
        printf("%-10s %s; %s\n", partition_algorithms[i]->name, partition_algorithms[i]->summary,
               partition_algorithms[i]->guarantee);
    return STATUS_OK;
}

static enum status check_options(int argc)
{
    const struct schedule *known;
    if (argc > 0)
        return error_set(STATUS_USAGE, "plan takes no operands, only options");
    if (!model_spec || !platform_name)
        return error_set(STATUS_USAGE, "--model and --platform are needed");
    if (strcmp(optimizer, "adam") != 0 && strcmp(optimizer, "sgd") != 0)
        return error_set(STATUS_USAGE, "--optimizer: there are adam, sgd, not '%s'", optimizer);
    if (schedule_find(schedule, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "--schedule");
    if (replicas < 1 || replicas > TOPOLOGY_MAX_DEVICES || microbatches < 1 ||
        microbatches > 10000000 || microbatch_size < 1 || microbatch_size > 10000000)
        return error_set(STATUS_USAGE, "--replicas, --microbatches and --microbatch-size must be "
                                       "at least 1 and at most 10 million");
    if (replicas > microbatches)
        return error_set(STATUS_USAGE, "%zu replicas need at least as many microbatches, not %zu",
                         replicas, microbatches);
    return STATUS_OK;
}

static void print_json(const struct plan *p, const struct model *m, const struct topology *t,
                       double cpu_s)
{
    struct json_writer w = {.stream = stdout};
    struct provenance by = command_provenance(seed);
    json_put_header(&w, "foreline-planning", 1, &by);
    json_put_string(&w, "algorithm", p->algorithm);
    json_put_string(&w, "objective", "pipeline");
    json_put_real(&w, "objective_value", p->objective_s);
    json_put_real(&w, "lower_bound", NAN);
    json_put_bool(&w, "proved_optimal", false);
    json_put_real(&w, "cpu_s", cpu_s);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        json_open_object(&w, NULL, false);
        json_open_array(&w, "ops", true);
        for (size_t k = 0; k < stage->ops; k++)
            json_put_string(&w, NULL, m->op[stage->op[k]].name);
        json_close(&w);
        json_open_array(&w, "devices", true);
        for (size_t k = 0; k < stage->devices; k++)
            json_put_string(&w, NULL, t->device[stage->device[k]]);
        json_close(&w);
        json_put_integer(&w, "replicas", stage->replicas);
        json_put_integer(&w, "tensor_parallel", stage->tensor_parallel);
        json_put_bool(&w, "recompute", stage->recompute);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

/* One line per stage: ops, seconds per microbatch, parameters, what it sends on, devices. */
static void print_stages(const struct plan *p, const struct model *m, const struct topology *t)
{
    printf("%-5s %5s  %-22s %-22s %10s %10s %12s  %s\n", "stage", "ops", "first", "last", "forward",
           "backward", "parameters", "devices");
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        const struct device_type *type = topology_type(t, stage->device[0]);
        char forward[UNITS_TEXT], backward[UNITS_TEXT], size[UNITS_TEXT];
        double forward_s = 0, backward_s = 0, bytes = 0;
        for (size_t k = 0; k < stage->ops; k++) {
            struct op_cost c = cost_op(m, type, stage->op[k], p->microbatch_size, p->optimizer);
            forward_s += c.forward_s;
            backward_s += c.backward_s;
            bytes += (double)m->op[stage->op[k]].parameter_bytes;
        }
        printf("%-5zu %5zu  %-22s %-22s %10s %10s %12s  ", s, stage->ops, m->op[stage->op[0]].name,
               m->op[stage->op[stage->ops - 1]].name, units_print(UNIT_SECONDS, forward_s, forward),
               units_print(UNIT_SECONDS, backward_s, backward),
               units_print(UNIT_BYTES, bytes, size));
        for (size_t k = 0; k < stage->devices && k < 4; k++)
            printf("%s%s", k ? "," : "", t->device[stage->device[k]]);
        printf("%s\n", stage->devices > 4 ? ",..." : "");
    }
}

/* A first prediction, on stderr: milliseconds, and it proves that the plan can run. */
static enum status predict(const struct plan *p, const struct model *m, const struct topology *t)
{
    enum status st;
    struct program program = {0};
    struct simulation s = {0};
    struct measurement r = {0};
    char text[UNITS_TEXT];
    TRY(plan_lower(p, m, t, &program));
    TRY(engine_analytic.run(&program, t, NULL, &s));
    TRY(measurement_from_timeline(&program, &s.timeline, &r));
    fprintf(stderr,
            "%s: %zu stage%s, %u microbatches of %u; analytic engine: %s per iteration, "
            "%.4g samples/s, bubble %.1f %%\n",
            p->algorithm, p->stages, p->stages == 1 ? "" : "s", p->microbatches, p->microbatch_size,
            units_print(UNIT_SECONDS, r.iteration_s, text), r.samples_per_s,
            100 * r.bubble_fraction);
out:
    measurement_free(&r);
    simulation_free(&s);
    program_free(&program);
    return st;
}

static enum status plan(int argc, char **argv)
{
    enum status st;
    const struct partition_algorithm *algorithm;
    struct model m = {0};
    struct topology t = {0};
    struct plan p = {0};
    char *path = NULL;

    (void)argv;
    if (!strcmp(algorithm_name, "list"))
        return list_algorithms();
    TRY(check_options(argc));
    if (partition_find(algorithm_name, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--algorithm");
    TRY(load_model(model_spec, &m));
    TRY(load_topology(platform_name, &t, &path));
    size_t most = t.n / replicas < m.n ? t.n / replicas : m.n;
    struct partition_request request = {
        .stages = stages ? stages
                  : most ? most
                         : 1,
        .replicas = (uint32_t)replicas,
        .microbatches = (uint32_t)microbatches,
        .microbatch_size = (uint32_t)microbatch_size,
        .schedule = schedule,
        .optimizer = optimizer,
        .model = model_spec,
        .platform = platform_name,
        .seed = seed,
    };
    double begin = cpu_seconds();
    TRY(partition_run(algorithm, &m, &t, &request, &p));
    double cpu_s = cpu_seconds() - begin;
    TRY(predict(&p, &m, &t));
    struct provenance by = command_provenance(seed);
    if (output)
        TRY(plan_write(&p, &m, &t, output, &by));
    if (json)
        print_json(&p, &m, &t, cpu_s);
    else
        print_stages(&p, &m, &t);
out:
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
    free(path);
    return st;
}

const struct command command_plan = {
    .name = "plan",
    .synopsis = "--model M --platform P [-o FILE]",
    .summary = "cut a model into stages over the devices of a platform",
    .details = "Prints the stages with their predicted forward and backward time per microbatch\n"
               "and writes a plan file that simulate and run take. Stage neighbours are placed\n"
               "close to each other: inside a node before across nodes.\n"
               "One iteration trains microbatches x microbatch-size samples, whatever the number\n"
               "of replicas, so that plans with different replicas can be compared.\n"
               "--algorithm list prints the algorithms with what they guarantee.",
    .options = options,
    .run = plan,
};
