/* `--algorithm auto`: the search within the constraints that are given, and its ranking. */
#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "study/evaluate.h"
#include "study/planning.h"

enum {
    SAMPLES_PER_DEVICE = 8, /* of an iteration, when nothing is said about it */
    TIME_LIMIT_S = 40,      /* for trying plans; the ranking of finalists comes on top */
    MOST_DEVICES = 2048,    /* for SimGrid: its routes take long to find on larger platforms */
    MOST_EFFORT = 400000    /* ops of all finalists: a few seconds of SimGrid */
};

/* "selective, zero 1" */
/* What a plan does to need less memory, for the ranking's column. */
static const char *saving(const struct plan *p, char text[32])
{
    const char *recompute = plan_recompute_names[p->stage[0].recompute];
    if (p->zero && p->stage[0].recompute)
        snprintf(text, 32, "%s, zero %u", recompute, p->zero);
    else if (p->zero)
        snprintf(text, 32, "zero %u", p->zero);
    else
        snprintf(text, 32, "%s", p->stage[0].recompute ? recompute : "-");
    return text;
}

/* A row of the ranking, and below it what is unusual about the plan: several stages on a device, a
 * baseline, more memory than there is. */
static void print_candidate(const struct auto_candidate *c, size_t place, FILE *out)
{
    char headroom[UNITS_TEXT], shape[64], memory[32];
    const struct plan *p = &c->plan;
    size_t teams = 1;
    while (teams < p->stages && p->stage[teams].device[0] != p->stage[0].device[0])
        teams++;
    snprintf(shape, sizeof shape, "%zu x %u x %u", p->stages, p->stage[0].replicas,
             p->stage[0].tensor_parallel);
    const struct evaluation *best = c->verified ? &c->thorough : &c->quick;
    int64_t room = best->headroom_bytes;
    units_print(UNIT_BYTES, room < 0 ? -(double)room : (double)room, headroom);
    fprintf(out, "%-4zu %-13s %-13s %5u x %-4u %-17s %-9s %11s %11s %10.4g  %s%-10s %s\n", place,
            shape, p->stages > 1 ? p->schedule : "-", p->microbatches, p->microbatch_size,
            saving(p, memory),
            teams == 1 || p->stage[0].replicas == 1 ? "-"
            : c->placement == PLACE_PIPELINES       ? "pipelines"
                                                    : "replicas",
            units_of(UNIT_SECONDS, c->quick.iteration_s).text,
            c->verified ? units_of(UNIT_SECONDS, c->thorough.iteration_s).text : "-",
            best->samples_per_s, room < 0 ? "-" : " ", headroom, best->reason);
    if (teams < p->stages)
        fprintf(out, "     ^ %zu stages on each device\n", p->stages / teams);
    if (strcmp(c->role, "candidate") != 0)
        fprintf(out, "     ^ %s\n", c->role);
    if (!c->fits)
        fprintf(out, "     ^ does not fit: %s too much on its fullest device\n", headroom);
}

/* Samples per iteration, the same for all candidates: what is given, else 8 per device rounded down
 * to whole microbatches of what is given about these. */
static size_t samples_of(const struct arguments *a, const struct topology *t)
{
    size_t replicas = a->replicas ? a->replicas : 1;
    size_t unit = (a->microbatches ? a->microbatches : replicas) *
                  (a->microbatch_size ? a->microbatch_size : 1),
           usual = SAMPLES_PER_DEVICE * t->n;
    if (a->batch)
        return a->batch;
    if ((a->microbatches && a->microbatch_size) || usual < unit)
        return unit;
    return usual - usual % unit;
}

void plan_print_ranking(const struct auto_result *r, const struct arguments *a,
                        const struct evaluation_context *context, FILE *out)
{
    fprintf(out,
            "%zu plans of %zu samples per iteration tried, %zu of them too big for memory; %zu "
            "shapes that cannot win left out%s\n",
            r->tried, samples_of(a, context->topology), r->too_big, auto_shapes_left_out(r),
            r->interrupted ? "; interrupted, so not all" : "");
    for (size_t i = 0; i < auto_filters_n; i++)
        if (r->left_out[i] > 0)
            fprintf(out, "  %-9s %7zu %-9s %s\n", auto_filters[i].name, r->left_out[i],
                    auto_level_names[auto_filters[i].level], auto_filters[i].reason);
    putc('\n', out);
    fprintf(out, "%-4s %-13s %-13s %-12s %-17s %-9s %11s %11s %10s  %-11s %s\n", "rank", "stages x",
            "schedule", "microbatches", "memory saved by", "local", "quick",
            context->engine ? context->engine->name : "simgrid", "samples/s", "headroom",
            "time of all ranks");
    fprintf(out, "%-4s %-13s %-13s %-12s\n", "", "rep. x shards", "", "x samples");
    for (size_t i = 0; i < r->n; i++)
        print_candidate(&r->candidate[i], i + 1, out);
    putc('\n', out);
}

/* Leave out of the ranking what breaks a constraint. The search keeps constraints on shapes by
 * itself; the baselines, which it tries for comparison, need not, and a plan that breaks what the
 * user asked for is no alternative however fast it is. */
static enum status keep_constraints(const struct arguments *a, struct auto_result *r)
{
    size_t kept = 0;
    const char *broken = NULL, *first = NULL;
    for (size_t i = 0; i < r->n; i++) {
        broken = plan_breaks(&r->candidate[i].plan, a);
        first = first ? first : broken;
        if (broken)
            plan_free(&r->candidate[i].plan);
        else
            r->candidate[kept++] = r->candidate[i];
    }
    r->n = kept;
    if (kept == 0)
        return error_set(STATUS_INFEASIBLE, "no plan was found that keeps --%s", first);
    return STATUS_OK;
}

/* Why the search has found no shape at all: a constraint that is impossible by itself, else all that
 * are given. */
static enum status name_constraints(const struct arguments *a, const struct model *m,
                                    const struct topology *t, size_t samples)
{
    const struct {
        const char *name;
        size_t value, most;
    } all[] = {{"stages", a->stages, partition_most_stages(m, (uint32_t)a->tensor_parallel)},
               {"replicas", a->replicas, t->n},
               {"tensor-parallel", a->tensor_parallel, t->n},
               {"chunks", a->chunks, SIZE_MAX},
               {"microbatches", a->microbatches, SIZE_MAX},
               {"microbatch-size", a->microbatch_size, SIZE_MAX},
               {"batch", a->batch, SIZE_MAX}};
    char given[256] = "";
    for (size_t k = 0, n = 0; k < sizeof all / sizeof *all && n < sizeof given; k++) {
        if (all[k].value > all[k].most)
            return error_set(STATUS_INFEASIBLE,
                             "--%s %zu: at most %zu for %s on the %zu devices of %s", all[k].name,
                             all[k].value, all[k].most, m->name, t->n, t->name);
        if (all[k].value)
            n += (size_t)snprintf(given + n, sizeof given - n, "%s--%s %zu", n ? ", " : " with ",
                                  all[k].name, all[k].value);
    }
    return error_set(STATUS_INFEASIBLE,
                     "no plan of %s on the %zu devices of %s trains %zu samples per iteration%s",
                     m->name, t->n, t->name, samples, given);
}

/* On platforms of more than MOST_DEVICES devices the finalists are looked at by the analytic engine
 * too, because SimGrid would need minutes to find its routes. */
enum status plan_search(const struct arguments *a, struct evaluation_context *context,
                        const volatile int *stop, struct auto_result *out)
{
    enum status st;
    struct evaluator evaluator = evaluator_make(context);
    struct auto_request request = {
        .fixed = plan_request(a),
        .samples = samples_of(a, context->topology),
        .finalists = a->finalists ? a->finalists : 1,
        .time_limit_s = a->time_limit_s > 0 ? a->time_limit_s : TIME_LIMIT_S,
        .effort = MOST_EFFORT,
        .memory_given = a->recompute || a->zero || arguments_given(a, "zero"),
        .executable = a->executable,
        .stop = stop,
    };
    struct auto_result result = {0};
    if (context->topology->n > MOST_DEVICES)
        context->engine = &engine_analytic;
    st = auto_search(context->model, context->topology, &request, &evaluator, &result);
    if (st == STATUS_INFEASIBLE && result.n == 0)
        st = name_constraints(a, context->model, context->topology, request.samples);
    TRY(st);
    TRY(keep_constraints(a, &result));
    MOVE(out, result);
out:
    auto_result_free(&result);
    return st;
}

void plan_take_best(struct auto_result *r, struct plan *out)
{
    MOVE(out, r->candidate[0].plan);
}

/* No interrupt: points of experiments are stopped between points, not inside one. */
enum status plan_make(const struct arguments *a, struct evaluation_context *context,
                      struct plan *out)
{
    enum status st;
    struct arguments settled = *a;
    struct auto_result found = {0};
    TRY(plan_settle(&settled));
    if (strcmp(settled.algorithm, "auto") != 0) {
        st = plan_by_algorithm(&settled, context->model, context->topology, out);
        goto out;
    }
    TRY(plan_search(&settled, context, NULL, &found));
    plan_take_best(&found, out);
out:
    auto_result_free(&found);
    return st;
}
