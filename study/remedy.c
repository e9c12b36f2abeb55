/* What would shorten an iteration, found by trying it. */
#include "study/remedy.h"

#include <stdlib.h>

#include "core/base/text.h"
#include "core/data/breakdown.h"
#include "sim/engines.h"

uint32_t remedy_slowest_stage(const struct program *p)
{
    uint32_t slowest = 0;
    double most = -1;
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_BACKWARD && p->op[i].seconds > most) {
            most = p->op[i].seconds;
            slowest = p->op[i].stage;
        }
    return slowest;
}

static bool is_for(const struct program_op *o, enum remedy_kind kind)
{
    return kind >= REMEDY_MESSAGES && !op_computes(o) && o->kind != OP_UPDATE && o->bytes > 0 &&
           o->purpose == (uint8_t)(kind - REMEDY_MESSAGES);
}

bool remedy_applies(const struct program *p, enum remedy_kind kind, size_t stages)
{
    bool any = kind == REMEDY_COMPUTE || (kind == REMEDY_STAGE && stages > 1);
    for (size_t i = 0; i < p->ops && !any; i++)
        any = is_for(&p->op[i], kind);
    return any;
}

void remedy_apply(const void *how, struct program *p)
{
    const struct remedy *r = how;
    for (size_t i = 0; i < p->ops; i++) {
        struct program_op *o = &p->op[i];
        bool all = r->kind == REMEDY_COMPUTE, one = r->kind == REMEDY_STAGE && o->stage == r->stage;
        if (op_computes(o) && (all || one))
            o->seconds /= 2;
        if (is_for(o, r->kind))
            o->bytes /= 2;
    }
}

/* ---- the best of them */

enum { SHOWN = 3 };
static const double worth_saying = 0.005;

struct remedy_gain {
    struct remedy remedy;
    double share; /* of the iteration */
};

static int remedy_by_gain(const void *a, const void *b)
{
    const struct remedy_gain *x = a, *y = b;
    return x->share != y->share ? (x->share > y->share ? -1 : 1)
                                : (int)x->remedy.kind - (int)y->remedy.kind;
}

/* Does anything wait for it for long enough? */
static bool is_waited_for(const struct measurement *m, enum remedy_kind kind)
{
    const struct breakdown b = breakdown_of(m);
    return kind < REMEDY_MESSAGES ||
           b.exposed_s[kind - REMEDY_MESSAGES] >= worth_saying * breakdown_sum(&b);
}

static enum status try_remedies(const struct plan *p, const struct evaluation_context *context,
                                struct remedy_gain gain[REMEDIES], size_t *n)
{
    enum status st;
    struct measurement m = {0}, better = {0};
    struct program program = {0};
    struct evaluation_context c = *context;
    c.only_alike = true;
    TRY(evaluate_plan(p, &c, engine_quick(), &m, &program, NULL));
    c.no_links = true;
    c.change = remedy_apply;
    for (int kind = 0; kind < REMEDIES; kind++) {
        struct remedy r = {(enum remedy_kind)kind, remedy_slowest_stage(&program)};
        if (!is_waited_for(&m, r.kind) || !remedy_applies(&program, r.kind, p->stages))
            continue;
        c.change_how = &r;
        TRY(evaluate_plan(p, &c, engine_quick(), &better, NULL, NULL));
        gain[(*n)++] = (struct remedy_gain){r, 1 - better.iteration_s / m.iteration_s};
        measurement_free(&better);
    }
    qsort(gain, *n, sizeof *gain, remedy_by_gain);
out:
    measurement_free(&better);
    measurement_free(&m);
    program_free(&program);
    return st;
}

const char *remedy_words(const struct remedy *r, char text[REMEDY_WORDS])
{
    snprintf(text, REMEDY_WORDS, "compute of stage %u", r->stage);
    return r->kind == REMEDY_STAGE     ? text
           : r->kind == REMEDY_COMPUTE ? "compute"
                                       : op_purpose_words[r->kind - REMEDY_MESSAGES];
}

enum status remedies_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out)
{
    struct remedy_gain gain[REMEDIES];
    size_t n = 0;
    int used = 0;
    char text[100 + SHOWN * (REMEDY_WORDS + 16)], words[REMEDY_WORDS];
    enum status st = try_remedies(p, context, gain, &n);
    if (st != STATUS_OK) /* such as links that fail, which this engine does not simulate */
        return st == STATUS_NOMEM ? st : STATUS_OK;
    for (size_t k = 0; k < n && k < SHOWN && gain[k].share >= worth_saying; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %s -%.1f %%",
                         k ? "," : "the iteration with one part twice as fast:",
                         remedy_words(&gain[k].remedy, words), 100 * gain[k].share);
    if (used > 0)
        text_put_answer(out, "remedies", text);
    return STATUS_OK;
}
