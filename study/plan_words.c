/* A plan in the words of the trade: degrees, schedule, what it does besides. */
#include "core/base/text.h"
#include "core/data/rules.h"
#include "study/planning.h"

static uint32_t words_tensor(const struct plan_stage *s)
{
    return s->tensor_parallel;
}

/* A comma, but before the first item of a list. */
static void words_next(bool *any, FILE *out)
{
    fputs(*any ? ", " : "", out);
    *any = true;
}

/* "TP 4", "DP 1-3"; nothing where it is 1 in all stages. */
static void words_put_degree(const char *name, const struct plan *p,
                             uint32_t (*of)(const struct plan_stage *s), bool *any, FILE *out)
{
    uint32_t least = of(&p->stage[0]), most = least;
    for (size_t k = 1; k < p->stages; k++) {
        least = of(&p->stage[k]) < least ? of(&p->stage[k]) : least;
        most = of(&p->stage[k]) > most ? of(&p->stage[k]) : most;
    }
    if (most <= 1)
        return;
    words_next(any, out);
    fprintf(out, "%s %u", name, least);
    if (least < most)
        fprintf(out, "-%u", most);
}

static void words_put_shape(const struct plan *p, bool *any, FILE *out)
{
    uint32_t chunks = plan_chunks(p);
    if (p->steps > 0) {
        words_next(any, out);
        fprintf(out, "SPMD over %zu", p->stage[0].devices);
    }
    words_put_degree("TP", p, words_tensor, any, out);
    if (p->stages > chunks) {
        words_next(any, out);
        fprintf(out, "PP %zu", p->stages / chunks);
    }
    if (chunks > 1) {
        words_next(any, out);
        fprintf(out, "VP %u", chunks);
    }
    words_put_degree("DP", p, plan_streams, any, out);
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
