/* Is what was asked for possible with this model: experts, and layers that are made again? */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/cost/cost.h"
#include "core/data/rules.h"
#include "study/planning.h"

/* Is there an op whose experts get as many tokens as routers send them? Others have a capacity. */
static enum status check_imbalance(double imbalance, const struct model *m)
{
    const struct cost_split split = {
        .shards = 1, .sequence = 1, .experts = 2, .context = 1, .imbalance = 2};
    bool any = imbalance == 0;
    for (size_t i = 0; i < m->n && !any; i++)
        any = cost_part(&m->op[i], &split).load > 1;
    return any ? STATUS_OK
               : error_set(STATUS_INFEASIBLE,
                           "--expert-imbalance needs experts without a capacity limit, which model "
                           "%s does not have",
                           m->name);
}

/* The rules that read the model, about what was given for all stages; `layers` as of the
 * largest. */
static enum status plan_file_check_rules(const struct arguments *a, const struct model *m,
                                         uint32_t layers)
{
    static const uint64_t model_and_layers = KNOB_BIT(model) | KNOB_BIT(layers);
    const struct rule_model model = rule_model_of(m);
    const struct strategy_stage own = strategy_at_least_usual(&a->own);
    const struct rule_view v = {
        .open = ~(KNOB_BIT(expert_parallel) | KNOB_BIT(recompute_layers) | model_and_layers),
        .shared = &a->shared,
        .n = 1,
        .own = (const char *)&own,
        .facts = {.said = a->chosen, .layers = layers, .model = &model}};
    char text[RULE_TEXT];
    const struct rule *broken = rules_broken(&v, RULES_OF_OPTIONS, NULL);
    return broken ? error_set(STATUS_INFEASIBLE, "%s", rule_print(broken, &v, true, text))
                  : STATUS_OK;
}

enum status plan_check_layers(const struct arguments *a, const struct model *m,
                              const struct plan_stage *stage, size_t stages)
{
    uint32_t most = 0;
    for (size_t s = 0; s < stages && a->recompute_layers > 0; s++) {
        uint32_t n = plan_stage_layers(&stage[s], m);
        most = n > most ? n : most;
    }
    return plan_file_check_rules(a, m, most);
}

enum status plan_check_model(const struct arguments *a, const struct model *m)
{
    enum status st;
    struct plan_stage whole = {.ops = m->n};
    TRY(ARRAY_NEW(whole.op, whole.ops));
    for (uint32_t i = 0; i < m->n; i++)
        whole.op[i] = i;
    TRY(check_imbalance(a->expert_imbalance, m));
    TRY(plan_check_layers(a, m, &whole, 1));
out:
    free(whole.op);
    return st;
}
