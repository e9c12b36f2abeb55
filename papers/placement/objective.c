/* The row of the placement objective, and results in its form: a part per device that has
 * nodes. */
#include <stdio.h>

#include "papers/placement/problem.h"

/* Accelerators are numbered in the order of the parts. */
enum status placement_result(const struct placement_problem *p, const uint32_t *device,
                             const uint32_t *order, struct objective_result *out)
{
    const struct objective_ops nodes = {p->n, .id = p->id};
    size_t devices = p->accelerators + p->cpus, number[2] = {0, 0};
    double *load;
    bool *on_cpu, *used;
    PASS(ARENA_NEW(&out->memory, load, devices));
    PASS(ARENA_NEW(&out->memory, on_cpu, devices));
    PASS(ARENA_NEW(&out->memory, used, devices));
    for (size_t d = 0; d < devices; d++)
        on_cpu[d] = d >= p->accelerators;
    for (size_t v = 0; v < p->n; v++)
        used[device[v]] = true;
    PASS(placement_loads(p, device, devices, on_cpu, load));
    out->value = 0;
    for (size_t i = 0; i < devices; i++) {
        uint32_t d = order ? order[i] : (uint32_t)i;
        char name[32];
        if (!used[d])
            continue;
        out->value = load[d] > out->value ? load[d] : out->value;
        if (on_cpu[d] && p->cpus == 1)
            snprintf(name, sizeof name, "cpu");
        else
            snprintf(name, sizeof name, "%s%zu", on_cpu[d] ? "cpu" : "fpga", ++number[on_cpu[d]]);
        PASS(objective_add_part(out, &nodes, device, d, name));
    }
    return STATUS_OK;
}

const struct objective objective_placement = {
    .name = "placement",
    .unit = "time per sample, in the unit of the file (ms)",
    .unit_s = 1e-3,
    .summary = "device placement of Tarnawski et al., NeurIPS 2020: the most loaded device, "
               "transfers included",
    .own_format = true,
    .score = placement_score,
};
