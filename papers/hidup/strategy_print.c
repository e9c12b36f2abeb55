/* Strategies for people: a text, stage by stage, and a drawing. */
#include "papers/hidup/strategy.h"

#include <stdio.h>

static void print_tensor(const struct spmd_graph *g, uint32_t tensor, FILE *to)
{
    const struct spmd_node *n = &g->node[g->tensor[tensor].node];
    fputs(n->name, to);
    if (n->makes > 1)
        fprintf(to, "[%u]", tensor - n->made);
}

/* "replicate, then slice". */
static void print_steps(const struct spmd_move *m, FILE *to)
{
    struct form_conversion c;
    if (!form_convert(m->from, m->to, &c))
        return;
    fputs(form_step_names[c.step[0]], to);
    if (c.step[1] != STEP_NONE)
        fprintf(to, ", %s", form_step_names[c.step[1]]);
}

static void strategy_print_one_node(const struct spmd_graph *g, const struct spmd_strategy *s,
                                    uint32_t node, FILE *to)
{
    const struct spmd_node *n = &g->node[node];
    fprintf(to, "  compute      %s = %s(", n->name, n->op);
    for (size_t k = 0; k < n->reads; k++) {
        fputs(k ? ", " : "", to);
        print_tensor(g, n->read[k], to);
        fprintf(to, ": %s", form_name(s->chosen[node].read[k]));
    }
    fputs(")", to);
    for (size_t k = 0; k < n->makes; k++)
        fprintf(to, "%s %s", k ? "," : " ->", form_name(s->chosen[node].made[k]));
    fputc('\n', to);
}

void spmd_print(const struct spmd_graph *g, const struct spmd_strategy *s, FILE *to)
{
    for (size_t i = 0; i < s->stages; i++) {
        const struct spmd_stage *stage = &s->stage[i];
        fprintf(to, "stage %zu\n", i);
        for (size_t m = 0; m < stage->moves; m++) {
            const struct spmd_move *move = &stage->move[m];
            fputs("  communicate  ", to);
            print_tensor(g, move->tensor, to);
            fprintf(to, ": %s -> %s (", form_name(move->from), form_name(move->to));
            print_steps(move, to);
            fputs(")\n", to);
        }
        for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++)
            strategy_print_one_node(g, s, n, to);
    }
}

/* A box per node, a cluster per stage; edges carry forms, red where they are converted. */
void spmd_draw(const struct spmd_graph *g, const struct spmd_strategy *s, FILE *to)
{
    fputs("digraph strategy {\n  node [shape=box];\n", to);
    for (size_t i = 0; i < s->stages; i++) {
        const struct spmd_stage *stage = &s->stage[i];
        fprintf(to, "  subgraph cluster_%zu {\n    label=\"stage %zu\";\n", i, i);
        for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++)
            fprintf(to, "    n%u [label=\"%s\\n%s\"];\n", n, g->node[n].name, g->node[n].op);
        fputs("  }\n", to);
    }
    for (uint32_t i = 0; i < g->nodes; i++)
        for (size_t k = 0; k < g->node[i].reads; k++) {
            const struct spmd_tensor *t = &g->tensor[g->node[i].read[k]];
            uint8_t made = s->chosen[t->node].made[g->node[i].read[k] - g->node[t->node].made];
            uint8_t read = s->chosen[i].read[k];
            if (made == read)
                fprintf(to, "  n%u -> n%u [label=\"%s\"];\n", t->node, i, form_name(read));
            else
                fprintf(to, "  n%u -> n%u [label=\"%s to %s\", color=red];\n", t->node, i,
                        form_name(made), form_name(read));
        }
    fputs("}\n", to);
}
