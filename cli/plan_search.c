/* `foreline plan --algorithm auto`: the ranking, with reasons. */
#include <stdio.h>
#include <string.h>

#include "cli/evaluate.h"
#include "cli/interrupt.h"
#include "cli/plan.h"
#include "core/units.h"

enum { SAMPLES_PER_DEVICE = 8, TIME_LIMIT_S = 60 };

static void print_candidate(const struct auto_candidate *c, size_t place)
{
    char quick[UNITS_TEXT], thorough[UNITS_TEXT], headroom[UNITS_TEXT], shape[64];
    const struct plan *p = &c->plan;
    snprintf(shape, sizeof shape, "%zu x %u", p->stages, p->stage[0].replicas);
    int64_t room = c->thorough.headroom_bytes;
    units_print(UNIT_BYTES, room < 0 ? -(double)room : (double)room, headroom);
    printf("%-4zu %-9s %-7s %5u x %-4u %-9s %11s %11s %10.4g  %s%-10s %s\n", place, shape,
           p->stages > 1 ? p->schedule : "-", p->microbatches, p->microbatch_size,
           p->stages == 1 || p->stage[0].replicas == 1 ? "-"
           : c->placement == PLACE_PIPELINES           ? "pipelines"
                                                       : "replicas",
           units_print(UNIT_SECONDS, c->quick.iteration_s, quick),
           units_print(UNIT_SECONDS, c->thorough.iteration_s, thorough), c->thorough.samples_per_s,
           room < 0 ? "-" : " ", headroom, c->thorough.reason);
    if (strcmp(c->role, "candidate") != 0)
        printf("     ^ %s\n", c->role);
    if (!c->fits)
        printf("     ^ does not fit: %s too much on its fullest device\n", headroom);
}

static void print_ranking(const struct auto_result *r, size_t samples)
{
    printf("%zu plans of %zu samples per iteration tried, %zu of them too big for memory%s\n\n",
           r->tried, samples, r->too_big, r->interrupted ? "; interrupted, so not all" : "");
    printf("%-4s %-9s %-7s %-12s %-9s %11s %11s %10s  %-11s %s\n", "rank", "stages x", "sched.",
           "microbatches", "close", "analytic", "simgrid", "samples/s", "headroom",
           "time of all ranks");
    printf("%-4s %-9s %-7s %-12s\n", "", "replicas", "", "x samples");
    for (size_t i = 0; i < r->n; i++)
        print_candidate(&r->candidate[i], i + 1);
    putchar('\n');
}

enum status plan_by_search(const struct plan_arguments *a, const struct model *m,
                           const struct topology *t, const char *platform, struct plan *out)
{
    enum status st;
    struct auto_result result = {0};
    struct evaluation_context context = {m, t, platform};
    struct evaluator evaluator = evaluator_make(&context);
    struct auto_request request = {
        .fixed = {.stages = a->stages,
                  .replicas = (uint32_t)a->replicas,
                  .microbatches = (uint32_t)a->microbatches,
                  .microbatch_size = (uint32_t)a->microbatch_size,
                  .schedule = a->schedule,
                  .optimizer = a->optimizer,
                  .model = a->model,
                  .platform = a->platform,
                  .seed = a->seed},
        .samples = a->batch                                ? a->batch
                   : a->microbatches && a->microbatch_size ? a->microbatches * a->microbatch_size
                                                           : SAMPLES_PER_DEVICE * t->n,
        .finalists = a->finalists ? a->finalists : 1,
        .time_limit_s = a->time_limit_s > 0 ? a->time_limit_s : TIME_LIMIT_S,
        .stop = interrupt_catch(),
    };
    TRY(auto_search(m, t, &request, &evaluator, &result));
    if (!a->json)
        print_ranking(&result, request.samples);
    if (!result.candidate[0].fits)
        fprintf(stderr, "warning: no plan fits into memory; this one needs least time\n");
    *out = result.candidate[0].plan;
    result.candidate[0].plan = (struct plan){0};
out:
    interrupt_release();
    auto_result_free(&result);
    return st;
}
