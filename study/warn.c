/* Looks at a plan, its program and its measurement for what would surprise a user: each warning is
 * one line of the measurement, and none of them changes a figure. */
#include "study/warn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/cost/cost.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/lower/lower.h"
#include "core/strategy/optimizer.h"
#include "exec/executor.h"
#include "sim/engines.h"
#include "sim/traffic.h"
#include "topologies/catalogue.h"

enum { NAMED = 3, LOOKED_AT = 1024 };

/* ---- costs */

/* How many ops of a stage have times on this type of device that were not measured near their size
 * (core/cost/cost.h). */
static size_t extrapolated_on(const struct plan *p, const struct plan_stage *s,
                              const struct model *m, const struct device_type *type)
{
    const struct cost_split split = cost_split_of(p, s);
    size_t n = 0;
    for (size_t k = 0; k < s->ops; k++)
        n += cost_op(m, type, s->op[k], p->microbatch_size, p->optimizer, &split).extrapolated;
    return n;
}

static bool runs_on(const struct plan_stage *s, const struct topology *t, uint32_t type)
{
    for (size_t k = 0; k < s->devices; k++)
        if (t->type_of[s->device[k]] == type)
            return true;
    return false;
}

/* Has the model measured times, of which none is of such a device? */
static bool is_unmeasured(const struct model *m, const struct device_type *type)
{
    for (size_t k = 0; k < m->profiles; k++)
        if (!*m->profile[k].device || !strcmp(m->profile[k].device, type->name))
            return false;
    return m->profiles > 0;
}

bool warn_of_type(const struct model *m, const struct device_type *type, char text[WARN_TYPE])
{
    const struct gpu *gpu = gpu_of_type(type->name);
    if (is_unmeasured(m, type))
        snprintf(text, WARN_TYPE,
                 "ignored the model's measured times: they were measured on '%.60s', but the plan "
                 "runs on '%.60s' (name the right device with model import --device)",
                 m->profile[0].device, type->name);
    else if (gpu && ((data_type_narrow(m->dtype) && type->peak[m->dtype] == 0) ||
                     (m->dtype == DATA_bf16 && !gpu_has_bf16(gpu))))
        snprintf(text, WARN_TYPE,
                 "device '%.60s' does not support %s: matrix multiplications take the time of its "
                 "default data type",
                 type->name, data_type_names[m->dtype]);
    else
        return false;
    return true;
}

/* Does the platform give its hosts cores that nothing computes on, or was the machine busy when its
 * figures were measured? */
static bool warn_of_host(const struct device_type *type, char text[WARN_TYPE])
{
    if (type->busy_spread > 0)
        snprintf(text, WARN_TYPE,
                 "'%.60s' was calibrated on a busy machine (repetitions differed by %.2g %%): run "
                 "calibrate again while it is idle",
                 type->name, 100 * type->busy_spread);
    else if (type->idle_cores > 0)
        snprintf(text, WARN_TYPE,
                 "host type '%.60s' has %g cores, but an op uses only one: make a host of each "
                 "core, or give the host the speed of all cores",
                 type->name, type->idle_cores + 1);
    return type->busy_spread > 0 || type->idle_cores > 0;
}

void warn_of_catalogue(const struct topology *t, FILE *to)
{
    for (uint32_t i = 0; i < t->types; i++) {
        const char *name = t->type[i].name;
        const struct gpu *meant = gpu_of_type(name) ? NULL : gpu_named(name);
        if (meant && gpu_of_type(meant->type)) /* no CPU */
            fprintf(to,
                    "warning: device type '%.60s' is not in the catalogue (did you mean '%s'?): "
                    "compute times are roofline estimates from its speed, usually too short\n",
                    name, meant->type);
    }
}

void warn_of_platform(const struct model *m, const struct topology *t, FILE *to)
{
    char text[WARN_TYPE];
    warn_of_catalogue(t, to);
    for (uint32_t i = 0; i < t->types; i++) {
        if (warn_of_type(m, &t->type[i], text))
            fprintf(to, "warning: %s\n", text);
        if (warn_of_host(&t->type[i], text))
            fprintf(to, "warning: %s\n", text);
    }
}

static enum status warn_of_costs(const struct plan *plan, const struct program *p,
                                 const struct evaluation_context *c, struct measurement *m)
{
    double busy_s = 0;
    for (uint32_t type = 0; type < c->topology->types; type++) {
        char text[WARN_TYPE];
        size_t n = 0, all = 0;
        for (size_t s = 0; s < plan->stages; s++)
            if (runs_on(&plan->stage[s], c->topology, type)) {
                all += plan->stage[s].ops;
                n += extrapolated_on(plan, &plan->stage[s], c->model, &c->topology->type[type]);
            }
        if (all > 0 && warn_of_type(c->model, &c->topology->type[type], text))
            PASS(measurement_warn(m, "%s", text));
        if (all > 0 && warn_of_host(&c->topology->type[type], text))
            PASS(measurement_warn(m, "%s", text));
        if (n > 0)
            PASS(measurement_warn(m,
                                  "times of %zu of %zu ops on '%s' are extrapolated, because the "
                                  "ops are smaller or larger than any measured one",
                                  n, all, c->topology->type[type].name));
    }
    for (size_t i = 0; i < p->ops; i++)
        busy_s += op_computes(&p->op[i]) ? p->op[i].seconds : 0;
    if (c->topology->links == 0 && c->topology->n > ROUTE_TABLE_DEVICES && c->engine &&
        !c->engine->file)
        PASS(measurement_warn(m,
                              "contention is ignored: the %s engine does not know the links of "
                              "more than %d devices in several zones. Try --engine %s",
                              c->engine->name, ROUTE_TABLE_DEVICES, engine_judge()->name));
    if (busy_s <= 0)
        PASS(measurement_warn(m,
                              "the model has neither FLOP nor measured times: compute takes 0 s"));
    return STATUS_OK;
}

/* ---- communication */

size_t warn_of_shards(const struct plan *p, const struct model *m)
{
    size_t n = 0;
    for (size_t s = 0; s < p->stages && p->steps == 0; s++) {
        bool divides = p->stage[s].tensor_parallel < 2;
        for (size_t k = 0; k < p->stage[s].ops && !divides; k++)
            divides = m->op[p->stage[s].op[k]].tensor != TENSOR_WHOLE;
        n += !divides;
    }
    return n;
}

static enum status warn_of_whole_shards(const struct plan *p, const struct model *model,
                                        struct measurement *m)
{
    size_t n = warn_of_shards(p, model);
    return n == 0 ? STATUS_OK
                  : measurement_warn(m,
                                     "tensor parallelism has no effect in %zu stage%s: no op there "
                                     "can be split over the tensor-parallel ranks",
                                     n, n > 1 ? "s" : "");
}

void warn_of_overlap(const struct plan *p, const struct topology *t, FILE *to)
{
    bool apart = false;
    for (size_t s = 0; s < p->stages && p->tensor_overlap; s++) {
        const struct plan_stage *stage = &p->stage[s];
        for (size_t k = 0; k < stage->devices; k++) {
            size_t first = k - k % stage->tensor_parallel;
            apart |= t->node_of[stage->device[k]] != t->node_of[stage->device[first]];
        }
    }
    if (apart)
        fputs("warning: tensor parallelism spans nodes, but TP overlap works only inside a node: "
              "plan with --no-tensor-overlap or fewer shards\n",
              to);
}

/* Replicas cost devices, and without parameters there is nothing to keep the same. */
static enum status warn_of_empty_stages(const struct plan *plan, const struct model *model,
                                        struct measurement *m)
{
    size_t n = 0, first = 0;
    for (size_t s = 0; s < plan->stages; s++) {
        int64_t bytes = 0;
        for (size_t k = 0; k < plan->stage[s].ops; k++) {
            const struct model_op *o = &model->op[plan->stage[s].op[k]];
            bytes += o->parameter_bytes + o->shared_bytes;
        }
        if (plan->stage[s].replicas > 1 && bytes == 0 && n++ == 0)
            first = s;
    }
    if (n > 0)
        PASS(measurement_warn(m,
                              "%zu replicated stage%s (the first: %zu) ha%s no parameters, so no "
                              "gradients are reduced over %s",
                              n, n > 1 ? "s" : "", first, n > 1 ? "ve" : "s",
                              n > 1 ? "the replicas of these stages" : "the stage's replicas"));
    return STATUS_OK;
}

/* A model file may say zero bytes where its author did not know: such messages are free. */
static enum status warn_of_empty_calls(struct measurement *m)
{
    for (size_t k = 0; k < m->calls; k++)
        if (m->call[k].bytes == 0)
            PASS(measurement_warn(m, "%.0f %s%s (%s) have a size of 0 bytes", m->call[k].calls,
                                  measured_call_name(&m->call[k]), m->call[k].calls > 1 ? "s" : "",
                                  op_purpose_words[m->call[k].purpose]));
    return STATUS_OK;
}

/* Devices of a plan in the order of its ranks, not more than are looked at; returns how many. */
static size_t first_devices(const struct plan *plan, uint32_t device[LOOKED_AT])
{
    size_t n = 0;
    for (size_t s = 0; s < plan->stages; s++) {
        if (s > 0 && plan->stage[s].device[0] == plan->stage[0].device[0])
            break; /* virtual stages: the first ones' devices again */
        for (size_t k = 0; k < plan->stage[s].devices && n < LOOKED_AT; k++)
            device[n++] = plan->stage[s].device[k];
    }
    return n;
}

/* A plan that leaves NVLink idle while its neighbours talk over the network has been placed badly,
 * or the platform's routes are not what their author meant: both are easily overlooked.
 *
 * One line for all tiers that stay inside a node, join devices of the plan and carry nothing. */
static enum status warn_of_idle_links(const struct plan *plan, const struct topology *t,
                                      const double *tier_bytes, struct measurement *m)
{
    enum status st;
    char text[256] = "";
    uint32_t device[LOOKED_AT];
    size_t ranks = first_devices(plan, device), *pairs = NULL;
    bool *inside = NULL;
    TRY(ARRAY_NEW(inside, t->tiers));
    TRY(ARRAY_NEW(pairs, t->tiers));
    if (!topology_inside(t, inside))
        goto out;
    for (size_t a = 0; a < ranks; a++)
        for (size_t b = 0; b < ranks; b++)
            if (a != b)
                pairs[topology_map_at(&t->between, device[a], device[b])]++;
    for (size_t k = 0; k < t->tiers; k++) {
        size_t n = strlen(text);
        if (inside[k] && pairs[k] > 0 && tier_bytes[k] <= 0)
            snprintf(text + n, sizeof text - n, "%s%s (%zu)", n > 0 ? ", " : "", t->tier[k].name,
                     pairs[k]);
    }
    if (*text)
        TRY(measurement_warn(m,
                             "these links inside nodes carry no traffic, although they connect "
                             "devices of the plan (number of device pairs): %s",
                             text));
out:
    free(pairs);
    free(inside);
    return st;
}

/* ---- devices */

/* A framework's kernels have no times on a type whose kernels are not known. */
static enum status warn_of_kernels(const struct plan *plan, const struct topology *t,
                                   struct measurement *m)
{
    if (!plan_framework(plan) || !plan_framework(plan)->by_kernel)
        return STATUS_OK;
    for (uint32_t k = 0; k < t->types; k++) {
        bool used = false;
        for (size_t s = 0; s < plan->stages && !used; s++)
            used = runs_on(&plan->stage[s], t, k);
        if (used && !kernels_known(&t->type[k].kernels))
            PASS(measurement_warn(m,
                                  "kernel speeds of device '%.60s' are unknown, so times are "
                                  "predicted as if --framework %s were not given",
                                  t->type[k].name, plan_framework(plan)->name));
    }
    return STATUS_OK;
}

/* Devices that no stage runs on, the first few by name. */
static enum status warn_of_idle_devices(const struct plan *plan, const struct topology *t,
                                        struct measurement *m)
{
    enum status st = STATUS_OK;
    char names[256] = "";
    size_t idle = 0;
    bool *used = NULL;
    TRY(ARRAY_NEW(used, t->n));
    for (size_t s = 0; s < plan->stages; s++)
        for (size_t k = 0; k < plan->stage[s].devices; k++)
            used[plan->stage[s].device[k]] = true;
    for (size_t d = 0; d < t->n; d++) {
        size_t n = strlen(names);
        if (!used[d] && idle++ < NAMED)
            snprintf(names + n, sizeof names - n, "%s%.60s", n > 0 ? ", " : "", t->device[d]);
    }
    if (idle > 0)
        TRY(measurement_warn(m, "%zu of the platform's %zu devices have no work: %s%s", idle, t->n,
                             names, idle > NAMED ? ", ..." : ""));
out:
    free(used);
    return st;
}

enum status warn_simulation(const struct plan *plan, const struct program *p,
                            const struct evaluation_context *context, struct measurement *m)
{
    enum status st = STATUS_OK;
    const struct topology *t = context->topology;
    char text[PERTURBATION_TEXT] = "";
    double *tier_bytes = NULL;
    TRY(ARRAY_NEW(tier_bytes, t->tiers));
    if (context->perturbation && *perturbation_print(context->perturbation, text))
        TRY(measurement_warn(m, "compute times are perturbed: %s", text));
    TRY(warn_of_costs(plan, p, context, m));
    TRY(warn_of_whole_shards(plan, context->model, m));
    TRY(warn_of_empty_stages(plan, context->model, m));
    TRY(warn_of_empty_calls(m));
    TRY(traffic_examine(p, t, &context->options.collective, m, tier_bytes));
    TRY(warn_of_idle_links(plan, t, tier_bytes, m));
    TRY(warn_of_idle_devices(plan, t, m));
    TRY(warn_of_kernels(plan, t, m));
out:
    free(tier_bytes);
    return st;
}

enum status warn_of_clip(const struct plan *p, const struct model *m, const struct topology *t,
                         FILE *out)
{
    struct optimizer o;
    struct program program = {0};
    if (!p->optimizer || optimizer_of(p->optimizer, &o) != STATUS_OK || o.clip <= 0)
        return STATUS_OK;
    PASS(plan_lower(p, m, t, &program));
    if (executor_supports(&program) != STATUS_OK)
        fprintf(out, "warning: foreline run does not support this plan: %s\n", error_message());
    program_free(&program);
    return STATUS_OK;
}
