/* A plan in the words of the trade: degrees, schedule, what it does besides. */
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "core/data/rules.h"
#include "study/planning.h"

/* ---- sizes */

static double words_shards(const struct plan *p, size_t stage)
{
    return p->steps > 0 ? (double)p->stage[stage].devices : 1;
}

static double words_tensor(const struct plan *p, size_t stage)
{
    return p->stage[stage].tensor_parallel;
}

static double words_teams(const struct plan *p, size_t stage)
{
    (void)stage;
    return (double)(p->stages / plan_chunks(p));
}

static double words_chunks(const struct plan *p, size_t stage)
{
    (void)stage;
    return plan_chunks(p);
}

static double words_streams(const struct plan *p, size_t stage)
{
    return plan_streams(&p->stage[stage]);
}

static double words_microbatch(const struct plan *p, size_t stage)
{
    (void)stage;
    return p->microbatch_size;
}

static double words_batch(const struct plan *p, size_t stage)
{
    (void)stage;
    return (double)p->microbatches * p->microbatch_size;
}

/* The shape's first. */
static const struct words_size {
    const char *name;
    double (*of)(const struct plan *p, size_t stage);
} words_sizes[] = {
    {"SPMD over", words_shards}, {"TP", words_tensor},  {"PP", words_teams},
    {"VP", words_chunks},        {"DP", words_streams}, {"MBS", words_microbatch},
    {"GBS", words_batch},
};
enum { WORDS_SHAPE = 5, WORDS_SIZES = sizeof words_sizes / sizeof *words_sizes };

/* "4", or "1-3" where stages differ. Returns the most. */
static double words_print_size(const struct words_size *w, const struct plan *p,
                               char text[STRATEGY_TEXT])
{
    double least = w->of(p, 0), most = least;
    for (size_t k = 1; k < p->stages; k++) {
        least = fmin(least, w->of(p, k));
        most = fmax(most, w->of(p, k));
    }
    int n = snprintf(text, STRATEGY_TEXT, "%.0f", least);
    if (least < most)
        snprintf(text + n, STRATEGY_TEXT - (size_t)n, "-%.0f", most);
    return most;
}

/* A comma, but before the first item of a list. */
static void words_next(bool *any, FILE *out)
{
    fputs(*any ? ", " : "", out);
    *any = true;
}

/* "TP 4, DP 1-3": sizes that are not 1 in all stages. */
static void words_put_shape(const struct plan *p, bool *any, FILE *out)
{
    char text[STRATEGY_TEXT];
    for (const struct words_size *w = words_sizes; w < words_sizes + WORDS_SHAPE; w++)
        if (words_print_size(w, p, text) > 1) {
            words_next(any, out);
            fprintf(out, "%s %s", w->name, text);
        }
}

const char *plan_words(const struct plan *p, char text[PLAN_WORDS])
{
    struct strategy shared;
    struct strategy_stage own;
    bool any = false;
    char knobs[STRATEGY_WORDS];
    FILE *out = fmemopen(text, PLAN_WORDS - 1, "w");
    text[0] = text[PLAN_WORDS - 1] = '\0';
    if (!out)
        return text;
    rules_settle(p, &shared, &own);
    words_put_shape(p, &any, out);
    if (*strategy_print(&shared, &own, 1, STRATEGY_SHAPE, knobs)) {
        words_next(&any, out);
        fputs(knobs, out);
    }
    fputs(any ? "; " : "one device; ", out);
    if (p->stages > 1)
        fprintf(out, "%s, ", p->schedule);
    fprintf(out, "MBS %u, GBS %.0f", p->microbatch_size,
            (double)p->microbatches * p->microbatch_size);
    if (*strategy_print(&shared, &own, STRATEGY_SHAPE + 1, STRATEGY_COLUMNS, knobs))
        fprintf(out, "; %s", knobs);
    fclose(out);
    return text;
}

void plan_print_words(const struct plan *p, FILE *out)
{
    enum { INDENT = 12, LINE = 100 };
    char text[PLAN_WORDS];
    fprintf(out, "%-*s", INDENT, "plan");
    text_put_wrapped(out, plan_words(p, text), INDENT, LINE);
}

/* ---- changes */

struct words_changes {
    struct plan_change *change;
    size_t n;
};

/* Unless it is none, but for what has no words. */
static void words_change(struct words_changes *c, const char *what, const char *from,
                         const char *to)
{
    struct plan_change *out = &c->change[c->n];
    if (*from && !strcmp(from, to))
        return;
    snprintf(out->what, sizeof out->what, "%s", what);
    snprintf(out->from, sizeof out->from, "%s", from);
    snprintf(out->to, sizeof out->to, "%s", to);
    c->n++;
}

/* A plan and its knobs without those that have no effect. */
struct words_plan {
    const struct plan *p;
    struct strategy shared;
    struct strategy_stage own; /* of the first stage */
};

static double words_knob(const struct words_plan *w, const struct strategy_knob *k, size_t stage)
{
    if (k->scope == STRATEGY_PLAN)
        return strategy_get(k, &w->shared);
    double first = strategy_get(k, &w->p->stage[0].own), kept = strategy_get(k, &w->own);
    bool idle = first < kept || first > kept;
    return idle ? k->usual : fmax(k->usual, strategy_get(k, &w->p->stage[stage].own));
}

/* Like words_print_size(). */
static void words_print_knob(const struct words_plan *w, const struct strategy_knob *k,
                             char text[STRATEGY_TEXT])
{
    char other[STRATEGY_TEXT];
    double least = words_knob(w, k, 0), most = least;
    for (size_t s = 1; s < w->p->stages; s++) {
        least = fmin(least, words_knob(w, k, s));
        most = fmax(most, words_knob(w, k, s));
    }
    size_t n = strlen(strategy_word(k, least, text));
    if (least < most)
        snprintf(text + n, STRATEGY_TEXT - n, "-%s", strategy_word(k, most, other));
}

/* Over all stages; where these are as many, else of the first stage that is different. */
static void words_change_knob(const struct words_plan *a, const struct words_plan *b,
                              const struct strategy_knob *k, struct words_changes *c)
{
    char what[STRATEGY_TEXT], from[STRATEGY_TEXT], to[STRATEGY_TEXT];
    size_t before = c->n, length = strlen(strategy_label(k, what));
    words_print_knob(a, k, from);
    words_print_knob(b, k, to);
    words_change(c, what, from, to);
    for (size_t s = 0; s < a->p->stages && a->p->stages == b->p->stages && c->n == before; s++) {
        snprintf(what + length, sizeof what - length, " of stage %zu", s);
        words_change(c, what, strategy_word(k, words_knob(a, k, s), from),
                     strategy_word(k, words_knob(b, k, s), to));
    }
}

/* "23+27": how many ops the stages have. */
static void words_print_cuts(const struct plan *p, char text[STRATEGY_TEXT])
{
    size_t n = 0;
    for (size_t s = 0; s < p->stages && n < STRATEGY_TEXT; s++)
        n += (size_t)snprintf(text + n, STRATEGY_TEXT - n, "%s%zu", s ? "+" : "", p->stage[s].ops);
}

/* Of plans with as many stages: which ops these have and, of one shape, which devices. */
static void words_change_stages(const struct plan *a, const struct plan *b, bool shape,
                                struct words_changes *c)
{
    char from[STRATEGY_TEXT], to[STRATEGY_TEXT];
    bool cuts = false, devices = false;
    for (size_t s = 0; s < a->stages; s++) {
        const struct plan_stage *x = &a->stage[s], *y = &b->stage[s];
        cuts |= x->ops != y->ops || memcmp(x->op, y->op, x->ops * sizeof *x->op) != 0;
        devices |= x->devices != y->devices ||
                   memcmp(x->device, y->device, x->devices * sizeof *x->device) != 0;
    }
    words_print_cuts(a, from);
    words_print_cuts(b, to);
    bool alike = !strcmp(from, to);
    if (cuts && !strcmp(a->model, b->model))
        words_change(c, "ops by stage", alike ? "" : from, alike ? "" : to);
    if (devices && shape && !strcmp(a->platform, b->platform))
        words_change(c, "placement", "", "");
}

size_t plan_changes(const struct plan *a, const struct plan *b,
                    struct plan_change change[PLAN_CHANGES])
{
    struct words_changes c = {change, 0};
    struct words_plan x = {.p = a}, y = {.p = b};
    char from[STRATEGY_TEXT], to[STRATEGY_TEXT];
    rules_settle(a, &x.shared, &x.own);
    rules_settle(b, &y.shared, &y.own);
    size_t shape = 0; /* changes of it */
    for (int i = 0; i < WORDS_SIZES; i++) {
        words_print_size(&words_sizes[i], a, from);
        words_print_size(&words_sizes[i], b, to);
        words_change(&c, words_sizes[i].name, from, to);
        shape = i < WORDS_SHAPE ? c.n : shape;
    }
    if (a->stages > 1 || b->stages > 1)
        words_change(&c, "schedule", a->stages > 1 ? a->schedule : "none",
                     b->stages > 1 ? b->schedule : "none");
    for (int i = 0; i < STRATEGY_KNOBS; i++) /* sizes have been said */
        if (i != KNOB_replicas && i != KNOB_tensor_parallel)
            words_change_knob(&x, &y, &strategy_knobs[i], &c);
    words_change(&c, "optimizer", a->optimizer, b->optimizer);
    if (a->stages == b->stages)
        words_change_stages(a, b, shape == 0, &c);
    return c.n;
}
