/* Context parallelism: which models, and which degrees of it. */
#include "core/data/model.h"
#include "core/data/plan.h"

/* Tokens meet in attention only, which has to say how much goes from one rank to another; causal
 * work is balanced over c ranks when rank i has chunks i and 2c - 1 - i of 2c. */
static enum status context_check_model(const struct model *m, uint32_t degree)
{
    bool any = false;
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *o = &m->op[i];
        any = any || o->context_bytes > 0;
        if (o->context_bytes == 0 && model_op_is(o, OPERATOR_ATTENTION))
            return error_set(STATUS_UNSUPPORTED,
                             "op '%.100s' has no context_bytes (bytes that context-parallel ranks "
                             "exchange), so sequences cannot be divided over %u replicas",
                             o->name, degree);
    }
    if (!any)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%.100s': the model has no attention over tokens, so context "
                         "parallelism over %u replicas is unsupported",
                         m->op[0].name, degree);
    if ((int64_t)m->tokens_per_sample % (2 * (int64_t)degree) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "sequences of %.0f tokens cannot be split into two equal chunks for each "
                         "of %u replicas; change --tokens or --context-parallel",
                         m->tokens_per_sample, degree);
    return STATUS_OK;
}

/* All-to-all: every rank has whole heads. */
static enum status check_heads(const struct model *m, const struct plan_stage *s)
{
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &m->op[s->op[k]];
        int64_t parts = (int64_t)s->context_parallel * s->tensor_parallel,
                heads = model_attribute(o, "heads", 0);
        if (o->context_bytes > 0 && (heads < parts || heads % parts != 0))
            return error_set(STATUS_UNSUPPORTED,
                             "op '%.100s': %lld heads cannot be divided over %u replicas x %u "
                             "shards, which --context-exchange alltoall needs",
                             o->name, (long long)heads, s->context_parallel, s->tensor_parallel);
    }
    return STATUS_OK;
}

enum status plan_check_context(const struct plan *p, const struct model *m)
{
    for (uint32_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        if (stage->context_parallel != p->stage[0].context_parallel)
            return error_set(STATUS_UNSUPPORTED,
                             "stages 0 and %u have different context parallelism (%u and %u), "
                             "expected the same in all stages",
                             s, p->stage[0].context_parallel, stage->context_parallel);
        if (stage->context_parallel > 1 && p->context_exchange == EXCHANGE_ALLTOALL)
            PASS(check_heads(m, stage));
    }
    uint32_t degree = p->stage[0].context_parallel;
    return degree > 1 ? context_check_model(m, degree) : STATUS_OK;
}
