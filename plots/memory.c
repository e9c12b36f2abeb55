/* Memory of each stage's fullest rank by what fills it, against what its device has. */
#include <stdint.h>

#include "core/base/units.h"
#include "plots/kind.h"
#include "plots/plot.h"
#include "plots/stack.h"

enum { WEIGHTS, GRADIENTS, STATE, STASH, SCRATCH, PARTS };
enum { MAX_STAGES = 64 };
static const double small = 0.05; /* of the capacity: bars would be slivers beside its mark */

static const struct figure_key parts[PARTS] = {
    [WEIGHTS] = {"weights", "#0072B2", 0, 0}, [GRADIENTS] = {"gradients", "#E69F00", 0, 0},
    [STATE] = {"optimizer", "#009E73", 0, 0}, [STASH] = {"activations", "#CCCCCC", 0, 0},
    [SCRATCH] = {"scratch", "#CC79A7", 0, 0},
};

struct fullest {
    const struct measurement *m;
    size_t stages;
    size_t rank[MAX_STAGES]; /* of each stage, in the order of stages */
};

static enum status find_fullest(const char *path, const struct measurement *m, struct fullest *f)
{
    *f = (struct fullest){.m = m};
    for (size_t i = 0; i < m->ranks; i++) {
        size_t at = 0;
        while (at < f->stages && m->rank[f->rank[at]].stage < m->rank[i].stage)
            at++;
        if (at < f->stages && m->rank[f->rank[at]].stage == m->rank[i].stage) {
            if (m->rank[i].peak_bytes > m->rank[f->rank[at]].peak_bytes)
                f->rank[at] = i;
            continue;
        }
        if (f->stages == MAX_STAGES)
            return error_set(STATUS_INVALID,
                             "%s: got more than %d stages, the most that a figure shows", path,
                             MAX_STAGES);
        for (size_t k = f->stages++; k > at; k--)
            f->rank[k] = f->rank[k - 1];
        f->rank[at] = i;
    }
    if (f->stages == 0)
        return error_set(STATUS_INVALID,
                         "%s: measurement lists no ranks, so there is no memory to draw", path);
    return STATUS_OK;
}

struct memory_bars {
    const struct plot_memory_bar *bar;
    size_t n;
};

static void memory_plot_fill(const struct plot_memory_bar *b, double scale, double *length)
{
    length[WEIGHTS] = (double)b->weight_bytes * scale;
    length[GRADIENTS] = (double)b->gradient_bytes * scale;
    length[STATE] = (double)b->state_bytes * scale;
    length[STASH] = (double)b->stash_bytes * scale;
    length[SCRATCH] = (double)b->scratch_bytes * scale;
}

static void memory_plot_put_table(const void *context, FILE *to)
{
    const struct memory_bars *bars = context;
    fprintf(to, "# bar\trank\tweight_bytes\tgradient_bytes\tstate_bytes\tstash_bytes\t"
                "scratch_bytes\tpeak_bytes\tmemory_bytes\n");
    for (size_t i = 0; i < bars->n; i++) {
        const struct plot_memory_bar *b = &bars->bar[i];
        figure_put_field(to, b->name);
        putc('\t', to);
        figure_put_field(to, b->rank);
        fprintf(to, "\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\n", (long long)b->weight_bytes,
                (long long)b->gradient_bytes, (long long)b->state_bytes, (long long)b->stash_bytes,
                (long long)b->scratch_bytes, (long long)b->peak_bytes,
                (long long)b->capacity_bytes);
    }
}

/* Bytes in the unit that reads well. */
struct byte_unit {
    const char *name;
    double bytes;
};

static struct byte_unit memory_plot_choose_unit(int64_t most)
{
    static const struct byte_unit units[] = {{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && (double)most < units[i].bytes)
        i++;
    return units[i];
}

/* "devices have 11.8 GiB", "devices have 11.8 to 32 GiB" */
static void name_capacity(const struct plot_memory_bar *bar, size_t n, char text[64])
{
    int64_t least = INT64_MAX, most = 0;
    char low[UNITS_TEXT], high[UNITS_TEXT];
    for (size_t i = 0; i < n; i++)
        if (bar[i].capacity_bytes > 0) {
            least = bar[i].capacity_bytes < least ? bar[i].capacity_bytes : least;
            most = bar[i].capacity_bytes > most ? bar[i].capacity_bytes : most;
        }
    units_print(UNIT_BYTES, (double)least, low);
    snprintf(text, 64, "devices have %s%s%s", low, least < most ? " to " : "",
             least < most ? units_print(UNIT_BYTES, (double)most, high) : "");
}

static int64_t memory_plot_sum_of(const struct plot_memory_bar *b)
{
    return b->weight_bytes + b->gradient_bytes + b->state_bytes + b->stash_bytes + b->scratch_bytes;
}

static enum status memory_plot_draw_source(const struct plot_memory_bar *bar, size_t n,
                                           const char *label, const struct plot_style *style,
                                           const char *output, const struct provenance *by)
{
    enum status st;
    const struct memory_bars bars = {bar, n};
    struct stack k = {0};
    char axis[96], note[64];
    int64_t most = 1, capacity = 0;
    TRY(stack_init(&k, n, PARTS));
    for (size_t i = 0; i < n; i++) {
        if (memory_plot_sum_of(&bar[i]) <= 0) /* a run that knows no more than the peak */
            FAIL(STATUS_INVALID, "%s: measurement has no memory by kind; simulate the plan again",
                 bar[i].name);
        most = memory_plot_sum_of(&bar[i]) > most ? memory_plot_sum_of(&bar[i]) : most;
        capacity = bar[i].capacity_bytes > capacity ? bar[i].capacity_bytes : capacity;
    }
    bool marked = (double)most >= small * (double)capacity;
    struct byte_unit unit = memory_plot_choose_unit(marked && capacity > most ? capacity : most);
    for (size_t i = 0; i < n; i++) {
        struct byte_unit own = memory_plot_choose_unit(memory_plot_sum_of(&bar[i]));
        memory_plot_fill(&bar[i], 1 / unit.bytes, &k.length[i * PARTS]);
        if (marked && bar[i].capacity_bytes > 0)
            k.limit[i] = (double)bar[i].capacity_bytes / unit.bytes;
        style_plan_name(style_shown(style, bar[i].name), k.name[i], STACK_NAME);
        snprintf(k.value[i], STACK_VALUE, "%.3g %s",
                 (double)memory_plot_sum_of(&bar[i]) / own.bytes, own.name);
    }
    if (!marked) {
        name_capacity(bar, n, note);
        k.note = note;
    }
    snprintf(axis, sizeof axis, "%s (%s)", label, unit.name);
    k.part = parts;
    k.label = axis;
    k.style = style;
    k.limit_name = "capacity";
    TRY(stack_draw(&k, output, by, memory_plot_put_table, &bars));
out:
    stack_free(&k);
    return st;
}

enum status plot_memory(const struct plot_memory_bar *bar, size_t n, const char *label,
                        const char *output, const struct provenance *by)
{
    return memory_plot_draw_source(bar, n, label, NULL, output, by);
}

static enum status memory_plot_draw(const struct plot_source *s, const char *output,
                                    const struct provenance *by)
{
    enum status st;
    struct fullest f;
    struct plot_memory_bar bar[MAX_STAGES];
    char name[MAX_STAGES][24];
    TRY(find_fullest(s->path[0], &s->m[0], &f));
    for (size_t i = 0; i < f.stages; i++) {
        const struct measured_rank *r = &f.m->rank[f.rank[i]];
        snprintf(name[i], sizeof name[i], "stage %u", r->stage);
        bar[i] = (struct plot_memory_bar){.name = name[i],
                                          .rank = r->name,
                                          .weight_bytes = r->weight_bytes,
                                          .gradient_bytes = r->gradient_bytes,
                                          .state_bytes = r->state_bytes,
                                          .stash_bytes = r->stash_bytes,
                                          .scratch_bytes = r->scratch_bytes,
                                          .peak_bytes = r->peak_bytes,
                                          .capacity_bytes = r->memory_bytes};
    }
    st = memory_plot_draw_source(bar, f.stages, "memory of the stage's fullest rank", &s->style,
                                 output, by);
    if (st == STATUS_INVALID)
        error_context(st, "%s", s->path[0]);
out:
    return st;
}

const struct plot_kind plot_memory_kind = {
    .name = "memory",
    .summary = "peak memory of each stage by what fills it, against its device's",
    .input = PLOT_MEASUREMENT,
    .styles = STYLE_XLABEL | STYLE_SIZE | STYLE_LEGEND,
    .draw = memory_plot_draw,
};
