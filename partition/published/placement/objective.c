/* objective.c - the row for the table of objectives, and results in its form. */
#include <stdio.h>
#include <stdlib.h>

#include "partition/published/placement/problem.h"

static enum status add_device(const struct placement_problem *p, const uint32_t *device,
                              uint32_t which, const char *name, struct objective_result *out)
{
    enum status st;
    size_t ops = 0;
    char(*text)[24] = calloc(p->n, sizeof *text);
    const char **op = calloc(p->n, sizeof *op);
    if (!text || !op) {
        st = error_set(STATUS_NOMEM, "%zu nodes", p->n);
        goto out;
    }
    for (size_t v = 0; v < p->n; v++)
        if (device[v] == which) {
            snprintf(text[ops], sizeof *text, "%lld", (long long)p->id[v]);
            op[ops] = text[ops];
            ops++;
        }
    st = ops > 0 ? objective_add_part(out, op, ops, name) : STATUS_OK;
out:
    free(text);
    free(op);
    return st;
}

enum status placement_result(const struct placement_problem *p, const uint32_t *device,
                             const uint32_t *order, struct objective_result *out)
{
    enum status st;
    size_t devices = p->accelerators + p->cpus, number[2] = {0, 0};
    double *load = calloc(devices, sizeof *load);
    bool *on_cpu = calloc(devices, sizeof *on_cpu), *used = calloc(devices, sizeof *used);
    if (!load || !on_cpu || !used) {
        st = error_set(STATUS_NOMEM, "%zu devices", devices);
        goto out;
    }
    for (size_t d = 0; d < devices; d++)
        on_cpu[d] = d >= p->accelerators;
    for (size_t v = 0; v < p->n; v++)
        used[device[v]] = true;
    TRY(placement_loads(p, device, devices, on_cpu, load));
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
        TRY(add_device(p, device, d, name, out));
    }
out:
    free(load);
    free(on_cpu);
    free(used);
    return st;
}

static const struct objective_algorithm *const algorithms[] = {
    &placement_ideals,
    &placement_noncontiguous,
    &placement_metis,
};

const struct objective objective_placement = {
    .name = "placement",
    .unit = "time per sample, in the unit of the file (ms)",
    .unit_s = 1e-3,
    .summary = "device placement of Tarnawski et al., NeurIPS 2020: the most loaded device, "
               "transfers included",
    .own_format = true,
    .algorithms = sizeof algorithms / sizeof *algorithms,
    .algorithm = algorithms,
    .score = placement_score,
};
