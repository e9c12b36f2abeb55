/* Where an iteration goes: a bar per measurement. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "plots/kind.h"
#include "plots/plot.h"
#include "plots/stack.h"

enum { COMPUTE, OPTIMIZER, EXPOSED, BUBBLE = EXPOSED + OP_PURPOSES, PARTS };

static const struct figure_key parts[PARTS] = {
    [COMPUTE] = {"compute", "#0072B2", 0, 0},
    [OPTIMIZER] = {"optimizer", "#000000", 0, 0},
    [EXPOSED + FOR_PIPELINE] = {"wait: pipeline", "#E69F00", 0, 0},
    [EXPOSED + FOR_DATA] = {"wait: data", "#009E73", 0, 0},
    [EXPOSED + FOR_TIES] = {"wait: ties", "#F0E442", 0, 0},
    [EXPOSED + FOR_SHARDS] = {"wait: shards", "#D55E00", 0, 0},
    [EXPOSED + FOR_TENSOR] = {"wait: tensor", "#CC79A7", 0, 0},
    [EXPOSED + FOR_EXPERTS] = {"wait: experts", "#56B4E9", 0, 0},
    [EXPOSED + FOR_CONTEXT] = {"wait: context", "#999933", 0, 0},
    [EXPOSED + FOR_HOST] = {"wait: host", "#882255", 0, 0},
    [EXPOSED + FOR_NORM] = {"wait: norm", "#44AA99", 0, 0},
    [BUBBLE] = {"bubble", "#D9D9D9", 0, 0},
};

static void breakdown_fill(const struct breakdown *b, double per_s, double *length)
{
    length[COMPUTE] = b->compute_s * per_s;
    length[OPTIMIZER] = b->optimizer_s * per_s;
    for (int k = 0; k < OP_PURPOSES; k++)
        length[EXPOSED + k] = b->exposed_s[k] * per_s;
    length[BUBBLE] = fmax(b->bubble_s, 0) * per_s;
}

/* What is drawn: one bar each. */
struct breakdown_bars {
    const struct breakdown *b;
    const char *const *name;
    const struct measurement *m;
    size_t n;
};

static void breakdown_put_table(const void *context, FILE *to)
{
    const struct breakdown_bars *s = context;
    fprintf(to, "# file\tengine\tcompute_s\toptimizer_s");
    for (int k = 0; k < OP_PURPOSES; k++)
        fprintf(to, "\texposed_%s_s", op_purpose_names[k]);
    fprintf(to, "\tbubble_s\n");
    for (size_t i = 0; i < s->n; i++) {
        double length[PARTS];
        breakdown_fill(&s->b[i], 1, length);
        figure_put_field(to, s->name[i]);
        putc('\t', to);
        figure_put_field(to, s->m && s->m[i].engine ? s->m[i].engine : "-");
        for (int k = 0; k < PARTS; k++)
            fprintf(to, "\t%.9g", length[k]);
        putc('\n', to);
    }
}

static enum status breakdown_draw_source(const struct breakdown_bars *bars,
                                         const struct plot_style *style, const char *output,
                                         const struct provenance *by)
{
    enum status st;
    struct stack k = {0};
    const struct breakdown *b = bars->b;
    const char *const *name = bars->name;
    const struct measurement *m = bars->m;
    size_t n = bars->n;
    char label[48], shared[STYLE_NAME];
    double longest_s = 0;
    TRY(stack_init(&k, n, PARTS));
    for (size_t i = 0; i < n; i++) {
        if (!(breakdown_sum(&b[i]) > 0))
            FAIL(STATUS_INVALID,
                 "%s: measurement lists no ranks, so there is no time to break down", name[i]);
        longest_s = fmax(longest_s, breakdown_sum(&b[i]));
    }
    struct figure_unit unit = figure_time_unit(longest_s);
    TRY(style_names(style, n, name, k.name, shared));
    for (size_t i = 0; i < n; i++) {
        breakdown_fill(&b[i], unit.per_s, &k.length[i * PARTS]);
        size_t step = m ? plot_step(&m[i]) : 0;
        int value = snprintf(k.value[i], STACK_VALUE, "%.4g %s", breakdown_sum(&b[i]) * unit.per_s,
                             unit.name);
        if (step > 0) {
            snprintf(k.value[i] + value, STACK_VALUE - (size_t)value, " (%zu of %zu)", step,
                     m[i].iterations);
            k.note = "(3 of 4): a run’s third step, the middle one or the faster of two";
        }
    }
    snprintf(label, sizeof label, "iteration, mean over ranks (%s)", unit.name);
    k.part = parts;
    k.label = label;
    k.style = style;
    k.shares = true;
    TRY(stack_draw(&k, output, by, breakdown_put_table, bars));
out:
    stack_free(&k);
    return st;
}

enum status plot_breakdown(const struct breakdown *b, const char *const *name,
                           const struct measurement *m, size_t n, const char *output,
                           const struct provenance *by)
{
    return breakdown_draw_source(&(const struct breakdown_bars){b, name, m, n}, NULL, output, by);
}

static enum status draw_breakdown(const struct plot_source *s, const char *output,
                                  const struct provenance *by)
{
    enum status st;
    struct breakdown *b = NULL;
    TRY(ARRAY_NEW(b, s->n));
    for (size_t i = 0; i < s->n; i++)
        b[i] = breakdown_of(&s->m[i]);
    TRY(breakdown_draw_source(&(const struct breakdown_bars){b, s->path, s->m, s->n}, &s->style,
                              output, by));
out:
    free(b);
    return st;
}

const struct plot_kind plot_breakdown_kind = {
    .name = "breakdown",
    .summary = "where an iteration goes, by what it waits for",
    .input = PLOT_MEASUREMENTS,
    .styles = STYLE_XLABEL | STYLE_SIZE | STYLE_LEGEND | STYLE_ORDER,
    .draw = draw_breakdown,
};
