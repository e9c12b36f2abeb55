/* Memory of each stage's fullest rank by what fills it, against what its device has. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "plots/kind.h"
#include "plots/stack.h"

enum { WEIGHTS, GRADIENTS, STATE, STASH, SCRATCH, PARTS };
enum { MAX_STAGES = 64 };

static const struct figure_key parts[PARTS] = {
    [WEIGHTS] = {"weights", "#0072B2", 0}, [GRADIENTS] = {"gradients", "#E69F00", 0},
    [STATE] = {"state", "#009E73", 0},     [STASH] = {"stash", "#CCCCCC", 0},
    [SCRATCH] = {"scratch", "#CC79A7", 0},
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

static void fill(const struct measured_rank *r, double scale, double *length)
{
    length[WEIGHTS] = (double)r->weight_bytes * scale;
    length[GRADIENTS] = (double)r->gradient_bytes * scale;
    length[STATE] = (double)r->state_bytes * scale;
    length[STASH] = (double)r->stash_bytes * scale;
    length[SCRATCH] = (double)r->scratch_bytes * scale;
}

static void put_table(const void *context, FILE *to)
{
    const struct fullest *f = context;
    fprintf(to, "# stage\trank\tweight_bytes\tgradient_bytes\tstate_bytes\tstash_bytes\t"
                "scratch_bytes\tpeak_bytes\tmemory_bytes\n");
    for (size_t i = 0; i < f->stages; i++) {
        const struct measured_rank *r = &f->m->rank[f->rank[i]];
        fprintf(to, "%u\t", r->stage);
        figure_put_field(to, r->name);
        fprintf(to, "\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\n", (long long)r->weight_bytes,
                (long long)r->gradient_bytes, (long long)r->state_bytes, (long long)r->stash_bytes,
                (long long)r->scratch_bytes, (long long)r->peak_bytes, (long long)r->memory_bytes);
    }
}

enum status draw_memory(const struct plot_source *s, const char *output,
                        const struct provenance *by)
{
    enum status st;
    struct fullest f;
    struct stack k = {0};
    int64_t most = 1;
    TRY(find_fullest(s->path[0], &s->m[0], &f));
    TRY(stack_init(&k, f.stages, PARTS));
    for (size_t i = 0; i < f.stages; i++) {
        const struct measured_rank *r = &f.m->rank[f.rank[i]];
        most = r->peak_bytes > most ? r->peak_bytes : most;
        most = r->memory_bytes > most ? r->memory_bytes : most;
    }
    bool giga = most >= INT64_C(1) << 30;
    double scale = giga ? 0x1p-30 : 0x1p-20;
    for (size_t i = 0; i < f.stages; i++) {
        const struct measured_rank *r = &f.m->rank[f.rank[i]];
        double *length = &k.length[i * PARTS], sum = 0;
        fill(r, scale, length);
        for (int p = 0; p < PARTS; p++)
            sum += length[p];
        if (!(sum > 0)) { /* a run that knows no more than the peak */
            st = error_set(STATUS_INVALID, "%s: it does not say what fills memory", s->path[0]);
            goto out;
        }
        if (r->memory_bytes > 0)
            k.limit[i] = (double)r->memory_bytes * scale;
        snprintf(k.name[i], STACK_NAME, "stage %u", r->stage);
        snprintf(k.value[i], STACK_VALUE, "%.3g %s", sum, giga ? "GiB" : "MiB");
    }
    k.part = parts;
    k.label = giga ? "memory of the stage's fullest rank (GiB)"
                   : "memory of the stage's fullest rank (MiB)";
    k.limit_name = "capacity";
    TRY(stack_draw(&k, output, by, put_table, &f));
out:
    stack_free(&k);
    return st;
}
