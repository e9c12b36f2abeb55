/* A plan in the words of the trade: degrees, schedule, what it does besides. */
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "core/data/rules.h"
#include "study/planning.h"

/* A plan, and its knobs without those that have no effect. */
struct words_plan {
    const struct plan *p;
    struct strategy shared;
    struct strategy_stage own; /* of the first stage */
};

static struct words_plan words_of(const struct plan *p)
{
    struct words_plan w = {.p = p};
    rules_settle(p, &w.shared, &w.own);
    return w;
}

/* What plans are told by: sizes, those of the shape first, then knobs. */
enum { WORDS_SHAPE = 5, WORDS_SIZES = 7, WORDS_FACTS = WORDS_SIZES + STRATEGY_KNOBS };
static const char *const words_sizes[WORDS_SIZES] = {"SPMD over", "TP",  "PP", "VP",
                                                     "DP",        "MBS", "GBS"};

static double words_value(const struct words_plan *w, int fact, size_t stage)
{
    const struct plan *p = w->p;
    const struct plan_stage *s = &p->stage[stage];
    uint32_t chunks = plan_chunks(p);
    const double size[WORDS_SIZES] = {p->steps > 0 ? (double)s->devices : 1,
                                      s->tensor_parallel,
                                      (double)(p->stages / chunks),
                                      chunks,
                                      plan_streams(s),
                                      p->microbatch_size,
                                      (double)p->microbatches * p->microbatch_size};
    if (fact < WORDS_SIZES)
        return size[fact];
    const struct strategy_knob *k = &strategy_knobs[fact - WORDS_SIZES];
    if (k->scope == STRATEGY_PLAN)
        return strategy_get(k, &w->shared);
    double first = strategy_get(k, &p->stage[0].own), kept = strategy_get(k, &w->own);
    bool idle = first < kept || first > kept;
    return idle ? k->usual : fmax(k->usual, strategy_get(k, &s->own));
}

static const char *words_text(int fact, double value, char text[STRATEGY_TEXT])
{
    if (fact >= WORDS_SIZES)
        return strategy_word(&strategy_knobs[fact - WORDS_SIZES], value, text);
    snprintf(text, STRATEGY_TEXT, "%.0f", value);
    return text;
}

/* "4", or "1-3" where stages differ. Returns the most. */
static double words_range(const struct words_plan *w, int fact, char text[STRATEGY_TEXT])
{
    char other[STRATEGY_TEXT];
    double least = words_value(w, fact, 0), most = least;
    for (size_t k = 1; k < w->p->stages; k++) {
        least = fmin(least, words_value(w, fact, k));
        most = fmax(most, words_value(w, fact, k));
    }
    size_t n = strlen(words_text(fact, least, text));
    if (least < most)
        snprintf(text + n, STRATEGY_TEXT - n, "-%s", words_text(fact, most, other));
    return most;
}

/* A comma, but before the first item of a list. */
static void words_next(bool *any, FILE *out)
{
    fputs(*any ? ", " : "", out);
    *any = true;
}

/* "TP 4, DP 1-3": sizes that are not 1 in all stages. */
static void words_put_shape(const struct words_plan *w, bool *any, FILE *out)
{
    char text[STRATEGY_TEXT];
    for (int fact = 0; fact < WORDS_SHAPE; fact++)
        if (words_range(w, fact, text) > 1) {
            words_next(any, out);
            fprintf(out, "%s %s", words_sizes[fact], text);
        }
}

const char *plan_words(const struct plan *p, char text[PLAN_WORDS])
{
    const struct words_plan w = words_of(p);
    bool any = false;
    char knobs[STRATEGY_WORDS];
    FILE *out = fmemopen(text, PLAN_WORDS - 1, "w");
    text[0] = text[PLAN_WORDS - 1] = '\0';
    if (!out)
        return text;
    words_put_shape(&w, &any, out);
    if (*strategy_print(&w.shared, &w.own, 1, STRATEGY_SHAPE, knobs)) {
        words_next(&any, out);
        fputs(knobs, out);
    }
    fputs(any ? "; " : "one device; ", out);
    if (p->stages > 1)
        fprintf(out, "%s, ", p->schedule);
    fprintf(out, "MBS %u, GBS %.0f", p->microbatch_size,
            (double)p->microbatches * p->microbatch_size);
    if (*strategy_print(&w.shared, &w.own, STRATEGY_SHAPE + 1, STRATEGY_COLUMNS, knobs))
        fprintf(out, "; %s", knobs);
    fclose(out);
    return text;
}

void plan_print_words(const struct plan *p, FILE *out)
{
    char text[PLAN_WORDS];
    text_put_answer(out, "plan", plan_words(p, text));
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

/* Over all stages; where these are as many, else of the first stage that is different. */
static void words_change_fact(const struct words_plan *a, const struct words_plan *b, int fact,
                              struct words_changes *c)
{
    char what[STRATEGY_TEXT], from[STRATEGY_TEXT], to[STRATEGY_TEXT];
    size_t before = c->n;
    if (fact < WORDS_SIZES)
        snprintf(what, sizeof what, "%s", words_sizes[fact]);
    else
        strategy_label(&strategy_knobs[fact - WORDS_SIZES], what);
    words_range(a, fact, from);
    words_range(b, fact, to);
    words_change(c, what, from, to);
    size_t length = strlen(what), stages = a->p->stages == b->p->stages ? a->p->stages : 0;
    for (size_t s = 0; s < stages && c->n == before; s++) {
        snprintf(what + length, sizeof what - length, " of stage %zu", s);
        words_change(c, what, words_text(fact, words_value(a, fact, s), from),
                     words_text(fact, words_value(b, fact, s), to));
    }
}

/* Of plans with as many stages: which ops these have and, of one shape, which devices. */
static void words_change_stages(const struct plan *a, const struct plan *b, bool shape,
                                struct words_changes *c)
{
    bool ops = false, devices = false;
    for (size_t s = 0; s < a->stages; s++) {
        const struct plan_stage *x = &a->stage[s], *y = &b->stage[s];
        ops |= x->ops != y->ops || memcmp(x->op, y->op, x->ops * sizeof *x->op) != 0;
        devices |= x->devices != y->devices ||
                   memcmp(x->device, y->device, x->devices * sizeof *x->device) != 0;
    }
    if (ops && !strcmp(a->model, b->model))
        words_change(c, "ops by stage", "", "");
    if (devices && shape && !strcmp(a->platform, b->platform))
        words_change(c, "placement", "", "");
}

size_t plan_changes(const struct plan *a, const struct plan *b,
                    struct plan_change change[PLAN_CHANGES])
{
    struct words_changes c = {change, 0};
    const struct words_plan x = words_of(a), y = words_of(b);
    size_t shape = 0; /* changes of it */
    for (int fact = 0; fact < WORDS_FACTS; fact++) {
        if (fact == WORDS_SIZES + KNOB_replicas || fact == WORDS_SIZES + KNOB_tensor_parallel)
            continue; /* among sizes */
        words_change_fact(&x, &y, fact, &c);
        shape = fact < WORDS_SHAPE ? c.n : shape;
    }
    words_change(&c, "schedule", a->stages > 1 ? a->schedule : "none",
                 b->stages > 1 ? b->schedule : "none");
    words_change(&c, "optimizer", a->optimizer, b->optimizer);
    if (a->stages == b->stages)
        words_change_stages(a, b, shape == 0, &c);
    return c.n;
}
