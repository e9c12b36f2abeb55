/* Plans and algorithms for people, and plans as JSON. */
#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/cost/cost.h"
#include "partition/graph/metis.h"
#include "study/expected.h"
#include "study/memory_answer.h"
#include "study/planning.h"

/* The published objectives (papers.h) print the same document with the value that they
 * minimise, a bound and a proof. Of a pipeline the value is the iteration, as the engine that is
 * named predicts it; the slowest stage is what the algorithm that cut it minimised. */
void plan_print_json(const struct plan *p, const struct model *m, const struct topology *t,
                     const struct plan_outcome *outcome, const struct provenance *by, FILE *out)
{
    struct json_writer w = {.stream = out};
    json_put_header(&w, "foreline-planning", 1, by);
    json_put_string(&w, "algorithm", p->algorithm);
    json_put_string(&w, "objective", outcome->a->objective);
    json_put_string(&w, "framework", p->framework);
    json_put_real(&w, "iteration_s", outcome->evaluation->iteration_s);
    json_put_real(&w, "samples_per_s", outcome->evaluation->samples_per_s);
    if (m->tokens_per_sample > 0) {
        json_put_real(&w, "tokens_per_s", outcome->machine.tokens_per_s);
        json_put_real(&w, "tokens_per_s_per_device",
                      outcome->machine.tokens_per_s / outcome->machine.devices);
    }
    json_put_real(&w, "model_flops", outcome->machine.done_flops);
    json_put_real(&w, "mfu", outcome->machine.done_flops / machine_nominal(&outcome->machine));
    expected_put(p, m, t, &w);
    json_put_bool(&w, "fits", outcome->evaluation->headroom_bytes >= 0);
    json_put_integer(&w, "peak_bytes", outcome->evaluation->peak_bytes);
    json_put_integer(&w, "headroom_bytes", outcome->evaluation->headroom_bytes);
    memory_error_put(p, &w);
    json_put_string(&w, "engine", outcome->evaluation->engine);
    json_put_bool(&w, "exact", outcome->evaluation->exact);
    json_put_real(&w, "slowest_stage_s", p->objective_s);
    json_put_real(&w, "cpu_s", outcome->cpu_s);
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
        if (stage->context_parallel > 1)
            json_put_integer(&w, "context_parallel", stage->context_parallel);
        json_put_bool(&w, "recompute", stage->recompute != RECOMPUTE_NONE);
        json_close(&w);
    }
    json_close(&w);
    if (outcome->ranking)
        plan_put_candidates(&w, outcome->ranking, outcome->a);
    json_close(&w);
}

static const double VISIBLE = 0.005;

/* Columns of names and devices in a line of 100; wide ones are as wide as they must be. */
enum { OP_NAME = 18, DEVICES_NAME = 18, STAGE_CELL = 512, STAGE_ROWS = 8 };

/* "n0g0,...,n0g7": the first and the last; wide, the first four. */
static const char *plan_print_devices(const struct plan_stage *stage, const struct topology *t,
                                      bool wide, char text[STAGE_CELL])
{
    size_t n = 0, shown = wide ? 4 : 1, end = stage->devices;
    bool all = end <= shown + 1;
    for (size_t k = 0; k < end && n < STAGE_CELL; k++)
        if (all || k < shown || k + 1 == end)
            n += (size_t)snprintf(text + n, STAGE_CELL - n, "%s%s%s", k ? "," : "",
                                  !all && k + 1 == end ? "...," : "", t->device[stage->device[k]]);
    return text;
}

/* A cell that is cut in its middle to `columns`, and padded; the padding counts columns, not
 * bytes. */
static void plan_print_cell(const char *name, size_t columns, FILE *out)
{
    char text[STAGE_CELL];
    text_shorten(name, columns, text, sizeof text);
    size_t used = text_columns(text);
    fprintf(out, "%s%*s ", text, (int)(columns > used ? columns - used : 0), "");
}

/* The widest name of a stage's first or last op. */
static size_t widest_name(const struct plan *p, const struct model *m)
{
    size_t most = OP_NAME;
    for (size_t s = 0; s < p->stages; s++)
        for (int end = 0; end < 2; end++) {
            const struct plan_stage *stage = &p->stage[s];
            size_t n = text_columns(m->op[stage->op[end ? stage->ops - 1 : 0]].name);
            most = n > most ? n : most;
        }
    return most;
}

/* How much longer passes may take than alone, as a share: beside collectives, by the framework
 * (core/lower/messages.c). */
static double most_interference(const struct plan *p)
{
    bool beside = p->bucket_bytes > 0 || p->zero == 3 || p->zero_keep || p->tensor_overlap,
         alone = true;
    for (size_t s = 0; s < p->stages; s++)
        alone = alone && p->stage[s].devices == 1;
    return p->issue.by_kernel && beside && !alone ? p->issue.interference : 0;
}

/* One line per stage: ops, seconds per microbatch, parameters, devices. */
void plan_print_stages(const struct plan *p, const struct model *m, const struct topology *t,
                       bool wide, FILE *out)
{
    size_t names = wide ? widest_name(p, m) : OP_NAME;
    size_t shown = wide || p->stages <= STAGE_ROWS ? p->stages : STAGE_ROWS - 1;
    fprintf(out, "%-5s %4s  %-*s %-*s %9s %9s %10s  %s\n", "stage", "ops", (int)names, "first",
            (int)names, "last", "forward", "backward", "parameters", "devices");
    for (size_t s = 0; s < shown; s++) {
        const struct plan_stage *stage = &p->stage[s];
        const struct device_type *type = topology_type(t, stage->device[0]);
        struct cost_pass forward = {0}, backward = {0};
        double bytes = 0;
        char devices[STAGE_CELL], text[STAGE_CELL];
        for (size_t k = 0; k < stage->ops; k++) {
            const struct cost_split split = cost_split_of(p, stage);
            struct op_cost c =
                cost_op(m, type, stage->op[k], p->microbatch_size, p->optimizer, &split);
            cost_pass_forward(&forward, c.forward_s, c.forward_host_s);
            cost_pass_backward(&backward, c.backward_s, c.backward_host_s);
            bytes += (double)m->op[stage->op[k]].parameter_bytes;
        }
        fprintf(out, "%-5zu %4zu  ", s, stage->ops);
        plan_print_cell(m->op[stage->op[0]].name, names, out);
        plan_print_cell(m->op[stage->op[stage->ops - 1]].name, names, out);
        fprintf(out, "%9s %9s %10s  %s\n", units_of(UNIT_SECONDS, forward.pass_s).text,
                units_of(UNIT_SECONDS, backward.pass_s).text, units_of(UNIT_BYTES, bytes).text,
                text_shorten(plan_print_devices(stage, t, wide, devices),
                             wide ? SIZE_MAX : DEVICES_NAME, text, sizeof text));
    }
    if (shown < p->stages)
        fprintf(out, "... %zu more stages: --wide\n", p->stages - shown);
    if (most_interference(p) >= VISIBLE)
        fprintf(out, "compute that overlaps a collective runs up to %.0f %% slower than listed\n",
                100 * most_interference(p));
}

/* "balanced   least slowest stage ...; exact ...", with the objective for published ones. */
static void print_algorithm(const char *name, const char *objective, const char *summary,
                            const char *guarantee, FILE *out)
{
    fprintf(out, "%-10s ", name);
    if (objective)
        fprintf(out, "--objective %-10s ", objective);
    fprintf(out, "%s; %s\n", summary, guarantee);
}

/* From the two tables, so that a new row is listed by itself. */
void plan_print_algorithms(FILE *out)
{
    for (size_t i = 0; i < partition_algorithms_n; i++)
        print_algorithm(partition_algorithms[i]->name, NULL, partition_algorithms[i]->summary,
                        partition_algorithms[i]->guarantee, out);
#define ALGORITHM(objective, name, on_devices, summary, guarantee)                                 \
    print_algorithm(#name, #objective, summary, guarantee, out);
#include "model/papers.def"
#undef ALGORITHM
}
