/* What the executor keeps of a step, and which programs it can run. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/plan.h"
#include "core/strategy/optimizer.h"
#include "exec/executor.h"

enum status executor_step_init(struct executor_step *s, const struct program *p, uint32_t rank)
{
    size_t n = p->op_start[rank + 1] - p->op_start[rank];
    struct executor_step step = {.ops = n};
    enum status st;
    TRY(ARRAY_NEW(step.op_start_s, 2 * n));
    TRY(ARRAY_NEW(step.sums_s, 2 * n));
    TRY(ARRAY_NEW(step.state, n));
    step.op_end_s = step.op_start_s + n;
    step.exchanges_s = step.sums_s + n;
    *s = step;
    return STATUS_OK;
out:
    executor_step_free(&step);
    return st;
}

/* What of op o of rank r cannot be run; NULL: nothing. */
static const char *beyond(const struct program *p, uint32_t r, const struct program_op *o)
{
    const struct program_stage *stage = &p->stage[o->stage];
    if (o->purpose == FOR_EXPERTS && op_is_collective(o) && p->asynchronous)
        return "expert parallelism in a schedule without a pipeline flush";
    if (op_is_message(o) && stage->sequence != p->stage[o->peer_stage].sequence)
        return "sequence parallelism in only some of the stages";
    if (op_is_message(o) && stage->sequence &&
        stage->tensor_parallel != p->stage[o->peer_stage].tensor_parallel)
        return "sequence parallelism with different numbers of shards per stage";
    if (o->kind == OP_FORWARD && o->purpose == FOR_TENSOR)
        return "--tensor-overlap";
    if (o->kind == OP_COPY)
        return "--offload";
    if (o->purpose != FOR_TIES)
        return NULL;
    for (const struct program_op *i = &p->op[p->op_start[r]]; i < o; i++)
        if (i->stage == o->stage && i->kind == OP_REDUCESCATTER && i->purpose == FOR_DATA)
            return "weights shared between stages with reduce-scattered gradients";
    return NULL;
}

/* What of a stage cannot be run; NULL: nothing. */
static const char *beyond_stage(const struct program_stage *s)
{
    if (s->inside)
        return "measured times that include tensor-parallel all-reduces";
    const uint32_t within = 1u << MODULE_MOE_ACT, norms = 1u << MODULE_LAYERNORM;
    if (s->recompute_modules & within)
        return "recomputation of module moe_act";
    return (s->recompute_modules & norms) && program_reshards(s)
               ? "recomputation of module layernorm with ZeRO 3"
               : NULL;
}

/* The norm of all gradients is known where one rank has them all, or where the program sums it. */
static const char *beyond_clip(const struct program *p)
{
    struct optimizer o;
    bool sums = false;
    if (!p->optimizer || !optimizer_is_tuned(p->optimizer) ||
        optimizer_of(p->optimizer, &o) != STATUS_OK || o.clip <= 0)
        return NULL;
    for (size_t i = p->op_start[0]; i < p->op_start[1]; i++)
        sums = sums || p->op[i].purpose == FOR_NORM;
    const struct program_stage *s = &p->stage[0];
    if (sums ||
        (p->stages == 1 && s->tensor_parallel == 1 && s->zero == 0 && s->expert_parallel <= 1))
        return NULL;
    return p->asynchronous ? "gradient clipping where stages update at different times"
                           : "gradient clipping where no rank has all gradients";
}

/* Asked before a run begins, for all ranks: so that planners and the launcher can refuse a program
 * whose prediction could never be compared with a measurement. */
enum status executor_supports(const struct program *p)
{
    if (p->optimizer && optimizer_moments(p->optimizer) && optimizer_moment_bytes(p->optimizer) < 4)
        return error_set(
            STATUS_UNSUPPORTED,
            "optimizer %s: foreline run does not support 16-bit moments yet (simulate does)",
            p->optimizer);
    if (beyond_clip(p))
        return error_set(STATUS_UNSUPPORTED,
                         "optimizer %s: foreline run does not support %s yet (simulate does)",
                         p->optimizer, beyond_clip(p));
    for (uint32_t k = 0; k < p->stages; k++)
        if (p->stage[k].stepped && p->operators.nodes == 0)
            return error_set(
                STATUS_UNSUPPORTED,
                "the key \"steps\" of the plan does not list operators, so the plan can be "
                "simulated but not run; make the plan again with foreline plan");
    for (uint32_t k = 0; k < p->stages; k++)
        if (beyond_stage(&p->stage[k]))
            return error_set(STATUS_UNSUPPORTED,
                             "stage %u: foreline run does not support %s yet (simulate does); "
                             "avoid it with plan --executable",
                             k, beyond_stage(&p->stage[k]));
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            char label[OP_LABEL];
            const char *what = beyond(p, r, &p->op[i]);
            if (what)
                return error_set(STATUS_UNSUPPORTED,
                                 "rank %u: %s: foreline run does not support %s yet (simulate "
                                 "does); avoid it with plan --executable",
                                 r, op_label(&p->op[i], label), what);
        }
    return STATUS_OK;
}

void executor_step_free(struct executor_step *s)
{
    free(s->op_start_s);
    free(s->sums_s);
    free(s->state);
    *s = (struct executor_step){0};
}
