/* Loads what a published objective is to plan for, and simulates the plans that its splits make. */
#include "papers/command/objective_target.h"

#include <math.h>
#include <stdlib.h>

#include "study/evaluate.h"
#include "study/load.h"

enum status objective_target_open(const struct arguments *a, const struct objective *o,
                                  const struct objective_request *r, const char *platform,
                                  struct objective_target *x)
{
    enum status st;
    char *path = NULL;
    *x = (struct objective_target){0};
    TRY(load_model_members(a->model, &x->m, &x->members));
    TRY(load_topology(platform, &x->t, &path));
    x->q = (struct objective_plan_request){.objective = o,
                                           .request = r,
                                           .model = &x->m,
                                           .members = &x->members,
                                           .topology = &x->t,
                                           .model_name = a->model,
                                           .platform_name = platform,
                                           .schedule = a->schedule,
                                           .optimizer = a->optimizer,
                                           .microbatches = (uint32_t)a->microbatches,
                                           .microbatch_size = (uint32_t)a->microbatch_size,
                                           .seed = a->seed};
out:
    free(path);
    return st;
}

void objective_target_close(struct objective_target *x)
{
    topology_free(&x->t);
    import_members_free(&x->members);
    model_free(&x->m);
    *x = (struct objective_target){0};
}

enum status objective_simulate(void *simulator, const struct objective_result *split,
                               double *seconds)
{
    struct objective_plan_request q = *(const struct objective_plan_request *)simulator;
    struct plan p = {0};
    struct evaluation e;
    size_t rounded;
    const struct evaluation_context context = {.model = q.model, .topology = q.topology};
    q.result = split;
    enum status st = objective_plan(&q, &p, &rounded);
    if (st == STATUS_OK)
        st = evaluate_once(&context, &p, &e);
    plan_free(&p);
    *seconds = st == STATUS_OK && e.headroom_bytes >= 0 ? e.iteration_s : (double)INFINITY;
    return st == STATUS_NOMEM ? st : STATUS_OK;
}
