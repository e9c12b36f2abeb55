/* Memory of each stage's fullest rank by what fills it, against what its device has. */
#include <stdint.h>

#include "plots/kind.h"
#include "plots/plot.h"
#include "plots/stack.h"

enum { WEIGHTS, GRADIENTS, STATE, STASH, SCRATCH, PARTS };
enum { MAX_STAGES = 64 };

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
            return error_set(STATUS_INVALID, "%s: more than %d stages, a picture has no room", path,
                             MAX_STAGES);
        for (size_t k = f->stages++; k > at; k--)
            f->rank[k] = f->rank[k - 1];
        f->rank[at] = i;
    }
    if (f->stages == 0)
        return error_set(STATUS_INVALID, "%s: it says nothing about ranks", path);
    return STATUS_OK;
}

struct bars {
    const struct plot_memory_bar *bar;
    size_t n;
};

static void fill(const struct plot_memory_bar *b, double scale, double *length)
{
    length[WEIGHTS] = (double)b->weight_bytes * scale;
    length[GRADIENTS] = (double)b->gradient_bytes * scale;
    length[STATE] = (double)b->state_bytes * scale;
    length[STASH] = (double)b->stash_bytes * scale;
    length[SCRATCH] = (double)b->scratch_bytes * scale;
}

static void put_table(const void *context, FILE *to)
{
    const struct bars *bars = context;
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

enum status plot_memory(const struct plot_memory_bar *bar, size_t n, const char *label,
                        const char *output, const struct provenance *by)
{
    enum status st;
    const struct bars bars = {bar, n};
    struct stack k = {0};
    char axis[96];
    int64_t most = 1;
    TRY(stack_init(&k, n, PARTS));
    for (size_t i = 0; i < n; i++) {
        most = bar[i].peak_bytes > most ? bar[i].peak_bytes : most;
        most = bar[i].capacity_bytes > most ? bar[i].capacity_bytes : most;
    }
    bool giga = most >= INT64_C(1) << 30;
    double scale = giga ? 0x1p-30 : 0x1p-20;
    for (size_t i = 0; i < n; i++) {
        double *length = &k.length[i * PARTS], sum = 0;
        fill(&bar[i], scale, length);
        for (int p = 0; p < PARTS; p++)
            sum += length[p];
        if (!(sum > 0)) { /* a run that knows no more than the peak */
            st = error_set(STATUS_INVALID, "%s: it does not say what fills memory", bar[i].name);
            goto out;
        }
        if (bar[i].capacity_bytes > 0)
            k.limit[i] = (double)bar[i].capacity_bytes * scale;
        figure_plan_name(bar[i].name, k.name[i], STACK_NAME);
        snprintf(k.value[i], STACK_VALUE, "%.3g %s", sum, giga ? "GiB" : "MiB");
    }
    snprintf(axis, sizeof axis, "%s (%s)", label, giga ? "GiB" : "MiB");
    k.part = parts;
    k.label = axis;
    k.limit_name = "capacity";
    TRY(stack_draw(&k, output, by, put_table, &bars));
out:
    stack_free(&k);
    return st;
}

static enum status draw_memory(const struct plot_source *s, const char *output,
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
    st = plot_memory(bar, f.stages, "memory of the stage's fullest rank", output, by);
    if (st == STATUS_INVALID)
        error_context(st, "%s", s->path[0]);
out:
    return st;
}

const struct plot_kind plot_memory_kind = {
    .name = "memory",
    .summary = "each stage's fullest rank: weights, gradients, optimizer, activations, scratch, "
               "against the memory of its device",
    .input = PLOT_MEASUREMENT,
    .draw = draw_memory,
};
