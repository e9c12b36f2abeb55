/* Where an iteration goes: a bar per measurement. */
#include <math.h>
#include <string.h>

#include "core/breakdown.h"
#include "plots/kind.h"
#include "plots/stack.h"

enum { COMPUTE, OPTIMIZER, EXPOSED, BUBBLE = EXPOSED + OP_PURPOSES, PARTS };

static const struct figure_key parts[PARTS] = {
    [COMPUTE] = {"compute", "#0072B2", 0},
    [OPTIMIZER] = {"optimizer", "#000000", 0},
    [EXPOSED + FOR_PIPELINE] = {"wait: pipeline", "#E69F00", 0},
    [EXPOSED + FOR_DATA] = {"wait: data", "#009E73", 0},
    [EXPOSED + FOR_TIES] = {"wait: ties", "#F0E442", 0},
    [EXPOSED + FOR_SHARDS] = {"wait: shards", "#D55E00", 0},
    [EXPOSED + FOR_TENSOR] = {"wait: tensor", "#CC79A7", 0},
    [EXPOSED + FOR_EXPERTS] = {"wait: experts", "#56B4E9", 0},
    [BUBBLE] = {"bubble", "#D9D9D9", 0},
};

static void fill(const struct breakdown *b, double per_s, double *length)
{
    length[COMPUTE] = b->compute_s * per_s;
    length[OPTIMIZER] = b->optimizer_s * per_s;
    for (int k = 0; k < OP_PURPOSES; k++)
        length[EXPOSED + k] = b->exposed_s[k] * per_s;
    length[BUBBLE] = fmax(b->bubble_s, 0) * per_s;
}

static void put_table(const void *context, FILE *to)
{
    const struct plot_source *s = context;
    fprintf(to, "# file\tengine\tcompute_s\toptimizer_s");
    for (int k = 0; k < OP_PURPOSES; k++)
        fprintf(to, "\texposed_%s_s", op_purpose_names[k]);
    fprintf(to, "\tbubble_s\n");
    for (size_t i = 0; i < s->n; i++) {
        double length[PARTS];
        struct breakdown b = breakdown_of(&s->m[i]);
        fill(&b, 1, length);
        figure_put_field(to, s->path[i]);
        putc('\t', to);
        figure_put_field(to, s->m[i].engine ? s->m[i].engine : "-");
        for (int k = 0; k < PARTS; k++)
            fprintf(to, "\t%.9g", length[k]);
        putc('\n', to);
    }
}

enum status draw_breakdown(const struct plot_source *s, const char *output,
                           const struct provenance *by)
{
    enum status st;
    struct stack k = {0};
    char label[48];
    double longest_s = 0;
    TRY(stack_init(&k, s->n, PARTS));
    for (size_t i = 0; i < s->n; i++) {
        struct breakdown b = breakdown_of(&s->m[i]);
        if (!(breakdown_sum(&b) > 0)) {
            st = error_set(STATUS_INVALID, "%s: no ranks, nothing to break down", s->path[i]);
            goto out;
        }
        longest_s = fmax(longest_s, breakdown_sum(&b));
    }
    struct figure_unit unit = figure_time_unit(longest_s);
    for (size_t i = 0; i < s->n; i++) {
        struct breakdown b = breakdown_of(&s->m[i]);
        fill(&b, unit.per_s, &k.length[i * PARTS]);
        figure_plan_name(s->path[i], k.name[i], STACK_NAME);
        snprintf(k.value[i], STACK_VALUE, "%.4g %s", breakdown_sum(&b) * unit.per_s, unit.name);
    }
    snprintf(label, sizeof label, "iteration, mean over ranks (%s)", unit.name);
    k.part = parts;
    k.label = label;
    k.shares = true;
    TRY(stack_draw(&k, output, by, put_table, s));
out:
    stack_free(&k);
    return st;
}
