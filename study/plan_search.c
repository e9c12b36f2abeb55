/* `foreline plan --algorithm auto`: the ranking, with reasons. */
#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "study/evaluate.h"
#include "study/interrupt.h"
#include "study/planning.h"

enum {
    SAMPLES_PER_DEVICE = 8,
    TIME_LIMIT_S = 40,
    MOST_DEVICES = 2048, /* for SimGrid: its routes take long to find on larger platforms */
    MOST_EFFORT = 400000 /* ops of all finalists: a few seconds of SimGrid */
};

/* "selective, zero 1" */
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

static void print_candidate(const struct auto_candidate *c, size_t place)
{
    char quick[UNITS_TEXT], thorough[UNITS_TEXT], headroom[UNITS_TEXT], shape[64], memory[32];
    const struct plan *p = &c->plan;
    size_t teams = 1;
    while (teams < p->stages && p->stage[teams].device[0] != p->stage[0].device[0])
        teams++;
    snprintf(shape, sizeof shape, "%zu x %u x %u", p->stages, p->stage[0].replicas,
             p->stage[0].tensor_parallel);
    const struct evaluation *best = c->verified ? &c->thorough : &c->quick;
    int64_t room = best->headroom_bytes;
    units_print(UNIT_BYTES, room < 0 ? -(double)room : (double)room, headroom);
    printf("%-4zu %-13s %-13s %5u x %-4u %-17s %-9s %11s %11s %10.4g  %s%-10s %s\n", place, shape,
           p->stages > 1 ? p->schedule : "-", p->microbatches, p->microbatch_size,
           saving(p, memory),
           teams == 1 || p->stage[0].replicas == 1 ? "-"
           : c->placement == PLACE_PIPELINES       ? "pipelines"
                                                   : "replicas",
           units_print(UNIT_SECONDS, c->quick.iteration_s, quick),
           c->verified ? units_print(UNIT_SECONDS, c->thorough.iteration_s, thorough) : "-",
           best->samples_per_s, room < 0 ? "-" : " ", headroom, best->reason);
    if (teams < p->stages)
        printf("     ^ %zu stages on each device\n", p->stages / teams);
    if (strcmp(c->role, "candidate") != 0)
        printf("     ^ %s\n", c->role);
    if (!c->fits)
        printf("     ^ does not fit: %s too much on its fullest device\n", headroom);
}

static void print_ranking(const struct auto_result *r, size_t samples, const char *engine)
{
    printf("%zu plans of %zu samples per iteration tried, %zu of them too big for memory; %zu "
           "shapes that cannot win left out%s\n",
           r->tried, samples, r->too_big, auto_shapes_left_out(r),
           r->interrupted ? "; interrupted, so not all" : "");
    for (size_t i = 0; i < auto_filters_n; i++)
        if (r->left_out[i] > 0)
            printf("  %-9s %7zu %-9s %s\n", auto_filters[i].name, r->left_out[i],
                   auto_level_names[auto_filters[i].level], auto_filters[i].reason);
    putchar('\n');
    printf("%-4s %-13s %-13s %-12s %-17s %-9s %11s %11s %10s  %-11s %s\n", "rank", "stages x",
           "schedule", "microbatches", "memory saved by", "local", "quick", engine, "samples/s",
           "headroom", "time of all ranks");
    printf("%-4s %-13s %-13s %-12s\n", "", "rep. x shards", "", "x samples");
    for (size_t i = 0; i < r->n; i++)
        print_candidate(&r->candidate[i], i + 1);
    putchar('\n');
}

/* Samples per iteration. */
static size_t samples_of(const struct plan_arguments *a, const struct topology *t)
{
    if (a->batch)
        return a->batch;
    if (a->microbatches && a->microbatch_size)
        return a->microbatches * a->microbatch_size;
    return SAMPLES_PER_DEVICE * t->n;
}

enum status plan_search(const struct plan_arguments *a, struct evaluation_context *context,
                        const volatile int *stop, struct auto_result *out)
{
    enum status st;
    struct evaluator evaluator = evaluator_make(context);
    struct auto_request request = {
        .samples = samples_of(a, context->topology),
        .finalists = a->finalists ? a->finalists : 1,
        .time_limit_s = a->time_limit_s > 0 ? a->time_limit_s : TIME_LIMIT_S,
        .effort = MOST_EFFORT,
        .memory_given = a->recompute || a->zero,
        .executable = a->executable,
        .stop = stop,
    };
    if (context->topology->n > MOST_DEVICES)
        context->engine = &engine_analytic;
    TRY(plan_request(a, &request.fixed));
    TRY(auto_search(context->model, context->topology, &request, &evaluator, out));
out:
    return st;
}

enum status plan_make(const struct plan_arguments *a, struct evaluation_context *context,
                      struct plan *out)
{
    enum status st;
    struct plan_arguments checked = *a;
    struct auto_result found = {0};
    TRY(plan_check_arguments(&checked));
    if (strcmp(checked.algorithm, "auto") != 0) {
        st = plan_by_algorithm(&checked, context->model, context->topology, out);
        goto out;
    }
    TRY(plan_search(&checked, context, NULL, &found));
    *out = found.candidate[0].plan;
    found.candidate[0].plan = (struct plan){0};
out:
    auto_result_free(&found);
    return st;
}

enum status plan_by_search(const struct plan_arguments *a, const struct model *m,
                           const struct topology *t, const char *platform, struct plan *out)
{
    enum status st;
    struct auto_result result = {0};
    struct evaluation_context context = {.model = m, .topology = t, .platform = platform};
    TRY(plan_search(a, &context, interrupt_catch(), &result));
    if (!a->json)
        print_ranking(&result, samples_of(a, t), context.engine ? context.engine->name : "simgrid");
    if (!result.candidate[0].fits)
        fprintf(stderr, "warning: no plan fits into memory; this one needs least time\n");
    *out = result.candidate[0].plan;
    result.candidate[0].plan = (struct plan){0};
out:
    interrupt_release();
    auto_result_free(&result);
    return st;
}
