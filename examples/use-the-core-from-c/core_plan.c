/* core_plan.c - plans a model and predicts its iteration with foreline-core alone: no platform
 * file, no SimGrid, no other process. Usage: core_plan MODEL.json STAGES
 *
 * The machine is made here: 8 devices of 100 TFLOP/s and 80 GB; 50 GB/s and 5 us between any
 * two. */
#include <stdio.h>
#include <stdlib.h>

#include "core/engine/engine.h"
#include "partition/partition.h"

static const struct device_type device = {.name = "device",
                                          .flops = 100e12,
                                          .memory_Bps = 2e12,
                                          .memory_bytes = 80000000000,
                                          .launch_s = 5e-6};
static const struct topology_tier wire = {"wire", 5e-6, 50e9};

static enum status example_predict(const struct plan *plan, const struct model *model,
                                   const struct topology *machine)
{
    enum status st;
    struct program program = {0};
    struct simulation result = {0};
    double end_s = 0;
    TRY(plan_lower(plan, model, machine, &program));
    TRY(engine_analytic.run(&program, machine, NULL, NULL, &result));
    for (size_t i = 0; i < program.ops; i++)
        end_s = result.timeline.end_s[i] > end_s ? result.timeline.end_s[i] : end_s;
    printf("%zu stages: %.6g s per iteration\n", plan->stages, end_s);
out:
    simulation_free(&result);
    program_free(&program);
    return st;
}

int main(int argc, char **argv)
{
    enum status st = STATUS_USAGE;
    struct model model = {0};
    struct topology machine = {0};
    struct plan plan = {0};
    struct partition_request request = {.replicas = 1, .microbatches = 8, .microbatch_size = 1};
    request.schedule = "1f1b", request.optimizer = "adam";
    request.model = "model", request.platform = "machine";
    if (argc != 3)
        return fprintf(stderr, "usage: core_plan MODEL.json STAGES\n"), 2;
    request.stages = strtoul(argv[2], NULL, 10);
    TRY(model_read(argv[1], &model));
    TRY(topology_uniform(8, &device, &wire, &machine));
    TRY(partition_run(&partition_balanced, &model, &machine, &request, &plan));
    TRY(example_predict(&plan, &model, &machine));
out:
    if (st != STATUS_OK)
        fprintf(stderr, "core_plan: %s\n", error_message());
    plan_free(&plan);
    topology_free(&machine);
    model_free(&model);
    return st != STATUS_OK;
}
