/* Strategies: the conversions that follow from the signatures, and what it all costs. */
#include "papers/hidup/strategy.h"

#include <stdlib.h>

/* The one or two forms of every tensor that is there. */
struct forms {
    uint8_t form[2];
};

/* The form that node `n` reads its k-th tensor in: there already, or to be made. */
static enum status want(const struct spmd_graph *g, struct spmd_stage *stage, uint32_t node,
                        size_t k, uint8_t form, struct forms *held)
{
    const struct spmd_node *n = &g->node[node];
    const struct spmd_tensor *t = &g->tensor[n->read[k]];
    struct form_conversion conversion;
    if (held->form[0] == form || held->form[1] == form)
        return STATUS_OK;
    if (held->form[1] != FORM_NONE)
        return error_set(STATUS_INVALID,
                         "node '%s' needs the output of '%s' in a third layout, but a strategy "
                         "keeps at most two",
                         n->name, g->node[t->node].name);
    if (n->kind == SPMD_ADAPTIVE || t->node >= stage->first ||
        !form_convert(held->form[0], form, &conversion))
        return error_set(STATUS_INVALID,
                         "node '%s' needs '%s' in layout %s, but gets it in layout %s%s", n->name,
                         g->node[t->node].name, form_name(form), form_name(held->form[0]),
                         t->node >= stage->first ? " from the same stage" : "");
    held->form[1] = form;
    stage->move[stage->moves++] = (struct spmd_move){n->read[k], held->form[0], form};
    return STATUS_OK;
}

static enum status complete_node(const struct spmd_graph *g, struct spmd_stage *stage,
                                 uint32_t node, const struct spmd_signature *s, struct forms *held)
{
    const struct spmd_node *n = &g->node[node];
    for (size_t k = 0; k < n->reads; k++)
        PASS(want(g, stage, node, k, s->read[k], &held[n->read[k]]));
    for (size_t k = 0; k < n->makes; k++)
        held[n->made + k] = (struct forms){{s->made[k], FORM_NONE}};
    return STATUS_OK;
}

enum status spmd_complete(const struct spmd_graph *g, struct arena *memory, struct spmd_strategy *s)
{
    enum status st;
    struct forms *held;
    TRY(ARRAY_NEW(held, g->tensors));
    for (size_t i = 0; i < s->stages; i++) {
        struct spmd_stage *stage = &s->stage[i];
        stage->moves = 0;
        TRY(ARENA_NEW(memory, stage->move, (size_t)stage->nodes * SPMD_READS));
        for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++)
            TRY(complete_node(g, stage, n, &s->chosen[n], held));
    }
    st = STATUS_OK;
out:
    free(held);
    return st;
}

double spmd_seconds(const struct spmd_costs *c, const struct spmd_graph *g,
                    const struct spmd_strategy *s)
{
    struct spmd_time time = {0};
    for (size_t i = 0; i < s->stages; i++) {
        const struct spmd_stage *stage = &s->stage[i];
        struct spmd_load load = {0};
        struct form_conversion conversion;
        for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++)
            spmd_add_node(c, g, n, &s->chosen[n], &load);
        for (size_t m = 0; m < stage->moves; m++)
            if (form_convert(stage->move[m].from, stage->move[m].to, &conversion))
                spmd_add_conversion(c, g, stage->move[m].tensor, &conversion, &load);
        time = spmd_after(c, &time, &load);
    }
    return spmd_total(c, &time);
}
