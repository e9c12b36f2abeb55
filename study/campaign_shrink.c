/* Plans with fewer replicas. */
#include "study/campaign_shrink.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"

/* Every stage keeps its first streams, `share` of them. False: a stage has none. */
static bool keep_streams(struct plan *p, double share)
{
    for (size_t s = 0; s < p->stages; s++) {
        struct plan_stage *stage = &p->stage[s];
        uint32_t streams = plan_streams(stage),
                 kept = (uint32_t)floor(streams * share * (1 + 1e-12));
        if (kept == 0)
            return false;
        stage->replicas = stage->replicas / streams * kept;
        stage->devices = (size_t)stage->replicas * stage->tensor_parallel;
    }
    p->microbatches = plan_even_microbatches(p, p->microbatches);
    return true;
}

static bool fits(const struct campaign_shrink *s, const struct program *p,
                 const struct measurement *m)
{
    for (uint32_t r = 0; r < m->ranks && r < p->ranks; r++)
        if (m->rank[r].peak_bytes > topology_type(s->on->topology, p->rank[r].device)->memory_bytes)
            return false;
    return true;
}

/* *out stays where there is no such plan. */
static enum status try_streams(const struct campaign_shrink *s, uint32_t streams, double *out)
{
    enum status st;
    struct plan p = {0};
    struct program program = {0};
    struct measurement m = {0};
    struct evaluation_context on = *s->on;
    on.simulated_only = true;
    TRY(plan_copy(s->plan, &p));
    if (keep_streams(&p, (double)streams / s->streams))
        TRY(evaluate_plan(&p, &on, s->engine, &m, &program, NULL));
    if (m.iteration_s > 0 && fits(s, &program, &m))
        *out = fmax(1, m.iteration_s / s->iteration_s);
out:
    measurement_free(&m);
    program_free(&program);
    plan_free(&p);
    return st;
}

enum status campaign_shrink_open(const struct plan *plan, const struct evaluation_context *on,
                                 const struct engine *engine, struct campaign_shrink *out)
{
    *out = (struct campaign_shrink){
        .plan = plan, .on = on, .engine = engine, .streams = plan_streams(&plan->stage[0])};
    for (size_t s = 1; s < plan->stages; s++) {
        uint32_t streams = plan_streams(&plan->stage[s]);
        out->streams = streams < out->streams ? streams : out->streams;
    }
    return ARRAY_NEW(out->times, out->streams + 1);
}

void campaign_shrink_free(struct campaign_shrink *s)
{
    free(s->times);
    *s = (struct campaign_shrink){0};
}

enum status campaign_shrink_times(void *shrink, uint32_t lost, double *out)
{
    struct campaign_shrink *s = shrink;
    double left = floor(s->streams * fmax(0, s->nodes - lost) / s->nodes * (1 + 1e-12));
    uint32_t streams = (uint32_t)left;
    double *times = &s->times[streams];
    for (uint32_t k = streams; k > 0 && !(*times > 0); k--) {
        enum status st = try_streams(s, k, times);
        if (st == STATUS_NOMEM)
            return st;
    }
    *times = *times > 0 ? *times : INFINITY;
    *out = lost == 0 ? 1 : *times;
    return STATUS_OK;
}
