/* Is what was asked for possible with this model: experts, and layers that are made again? */
#include <stdlib.h>

#include "core/array.h"
#include "core/cost.h"
#include "study/planning.h"

/* Experts are spread evenly, and there are some. */
static enum status check_experts(size_t spread, const struct model *m)
{
    bool experts = spread <= 1;
    for (size_t i = 0; i < m->n && spread > 1; i++) {
        const struct model_op *o = &m->op[i];
        int64_t n = o->exchange_bytes > 0 ? model_attribute(o, "experts", (int64_t)spread) : 0;
        experts = experts || o->exchange_bytes > 0;
        if (n % (int64_t)spread != 0)
            return error_set(STATUS_INFEASIBLE,
                             "--expert-parallel %zu does not divide the %lld experts of %s", spread,
                             (long long)n, m->name);
    }
    return experts ? STATUS_OK
                   : error_set(STATUS_INFEASIBLE, "--expert-parallel %zu: %s has no experts",
                               spread, m->name);
}

/* Is there an op whose experts get as many tokens as routers send them? Others have a capacity. */
static enum status check_imbalance(double imbalance, const struct model *m)
{
    const struct cost_split split = {1, 2, false, 1, 2, NULL, 1};
    bool any = imbalance == 0;
    for (size_t i = 0; i < m->n && !any; i++)
        any = cost_part(&m->op[i], &split).load > 1;
    return any ? STATUS_OK
               : error_set(STATUS_INFEASIBLE,
                           "--expert-imbalance: %s has no experts that take all tokens they get",
                           m->name);
}

enum status plan_check_layers(const struct arguments *a, const struct model *m,
                              const struct plan_stage *stage, size_t stages)
{
    uint32_t most = 0;
    for (size_t s = 0; s < stages && a->recompute_layers > 0; s++) {
        uint32_t n = plan_stage_layers(&stage[s], m);
        most = n > most ? n : most;
    }
    return a->recompute_layers <= most
               ? STATUS_OK
               : error_set(STATUS_INFEASIBLE, "--recompute-layers %u: no stage has more than %u",
                           a->recompute_layers, most);
}

enum status plan_check_model(const struct arguments *a, const struct model *m)
{
    enum status st;
    struct plan_stage whole = {.ops = m->n};
    TRY(ARRAY_NEW(whole.op, whole.ops));
    for (uint32_t i = 0; i < m->n; i++)
        whole.op[i] = i;
    TRY(check_experts(a->expert_parallel, m));
    TRY(check_imbalance(a->expert_imbalance, m));
    TRY(plan_check_layers(a, m, &whole, 1));
out:
    free(whole.op);
    return st;
}
