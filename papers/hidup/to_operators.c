/* Strategies as operators on shards, which are executed. */
#include "core/base/array.h"
#include "core/base/text.h"
#include "core/data/form.h"
#include "papers/hidup/lowered.h"

static enum status to_operators_add_node(const struct spmd_graph *g, const struct spmd_strategy *s,
                                         uint32_t node, uint32_t step, struct operators *out)
{
    const struct spmd_node *n = &g->node[node];
    const struct spmd_signature *chosen = &s->chosen[node];
    struct operators_node *to = &out->node[out->nodes++];
    *to = (struct operators_node){.step = step,
                                  .reads = n->reads,
                                  .arguments = n->arguments,
                                  .made = n->made,
                                  .makes = n->makes};
    PASS(text_copy(n->name, &to->name));
    PASS(text_copy(n->op, &to->kind));
    for (size_t k = 0; k < n->reads; k++) {
        to->read[k] = n->read[k];
        to->form[k] = chosen->read[k];
    }
    for (size_t k = 0; k < n->arguments; k++)
        to->argument[k] = n->argument[k];
    for (uint32_t k = 0; k < n->makes; k++) {
        struct operators_tensor *t = &out->tensor[n->made + k];
        *t = (struct operators_tensor){
            .rank = g->tensor[n->made + k].rank, .form = chosen->made[k], .to = FORM_NONE};
        for (size_t d = 0; d < t->rank; d++)
            t->size[d] = g->tensor[n->made + k].size[d];
    }
    return STATUS_OK;
}

enum status spmd_to_operators(const struct spmd_graph *part, const struct spmd_strategy *s,
                              struct operators *out)
{
    enum status st;
    struct operators o = {.tensors = part->tensors};
    TRY(ARRAY_NEW(o.node, part->nodes));
    TRY(ARRAY_NEW(o.tensor, part->tensors));
    for (uint32_t i = 0; i < s->stages; i++)
        for (uint32_t n = 0; n < s->stage[i].nodes; n++)
            TRY(to_operators_add_node(part, s, s->stage[i].first + n, i, &o));
    for (uint32_t i = 0; i < s->stages; i++)
        for (size_t m = 0; m < s->stage[i].moves; m++) {
            o.tensor[s->stage[i].move[m].tensor].to = s->stage[i].move[m].to;
            o.tensor[s->stage[i].move[m].tensor].step = i;
        }
    TRY(operators_check(&o));
    MOVE(out, o);
out:
    operators_free(&o);
    return st;
}
