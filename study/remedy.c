/* What would shorten an iteration, found by trying it. */
#include "study/remedy.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
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

/* What a remedy is tried on: a plan, or a program alone. */
struct remedy_patient {
    const struct plan *plan; /* NULL: the program */
    struct program *program;
    struct evaluation_context context;
};

/* Simulate it with a remedy. */
static enum status try_remedy(struct remedy_patient *x, const struct remedy *r,
                              struct measurement *m)
{
    enum status st;
    struct program *p = x->program;
    struct program_op *before = NULL;
    if (x->plan) {
        x->context.change = remedy_apply;
        x->context.change_how = r;
        return evaluate_plan(x->plan, &x->context, engine_quick(), m, NULL, NULL);
    }
    PASS(ARRAY_COPY(before, p->op, p->ops));
    remedy_apply(r, p);
    st = evaluate_program(p, &x->context, engine_quick(), m, NULL);
    memcpy(p->op, before, p->ops * sizeof *before);
    free(before);
    return st;
}

static enum status try_remedies(struct remedy_patient *x, const struct measurement *m,
                                struct remedy_gain gain[REMEDIES], size_t *n)
{
    size_t stages = x->plan ? x->plan->stages : 1;
    x->context.no_links = true;
    for (int kind = 0; kind < REMEDIES; kind++) {
        const struct remedy r = {(enum remedy_kind)kind, remedy_slowest_stage(x->program)};
        struct measurement better = {0};
        if (!is_waited_for(m, r.kind) || !remedy_applies(x->program, r.kind, stages))
            continue;
        PASS(try_remedy(x, &r, &better));
        gain[(*n)++] = (struct remedy_gain){r, 1 - better.iteration_s / m->iteration_s};
        measurement_free(&better);
    }
    qsort(gain, *n, sizeof *gain, remedy_by_gain);
    return STATUS_OK;
}

const char *remedy_words(const struct remedy *r, char text[REMEDY_WORDS])
{
    snprintf(text, REMEDY_WORDS, "compute of stage %u", r->stage);
    return r->kind == REMEDY_STAGE     ? text
           : r->kind == REMEDY_COMPUTE ? "compute"
                                       : op_purpose_words[r->kind - REMEDY_MESSAGES];
}

static void print_gains(const struct remedy_gain *gain, size_t n, FILE *out)
{
    int used = 0;
    char text[100 + SHOWN * (REMEDY_WORDS + 16)], words[REMEDY_WORDS];
    for (size_t k = 0; k < n && k < SHOWN && gain[k].share >= worth_saying; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %s -%.1f %%",
                         k ? "," : "the iteration with one part twice as fast:",
                         remedy_words(&gain[k].remedy, words), 100 * gain[k].share);
    if (used > 0)
        text_put_answer(out, "remedies", text);
}

enum status remedies_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out)
{
    enum status st;
    struct remedy_gain gain[REMEDIES];
    struct measurement m = {0};
    struct program program = {0};
    struct remedy_patient x = {.plan = p, .program = &program, .context = *context};
    size_t n = 0;
    x.context.only_alike = true;
    TRY(evaluate_plan(p, &x.context, engine_quick(), &m, &program, NULL));
    TRY(try_remedies(&x, &m, gain, &n));
    print_gains(gain, n, out);
out:
    measurement_free(&m);
    program_free(&program);
    /* else such as links that fail, which this engine does not simulate */
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

enum status remedies_print_program(struct program *p, const struct evaluation_context *context,
                                   FILE *out)
{
    enum status st;
    struct remedy_gain gain[REMEDIES];
    struct measurement m = {0};
    struct remedy_patient x = {.program = p, .context = *context};
    size_t n = 0;
    TRY(evaluate_program(p, &x.context, engine_quick(), &m, NULL));
    TRY(try_remedies(&x, &m, gain, &n));
    print_gains(gain, n, out);
out:
    measurement_free(&m);
    return st == STATUS_NOMEM ? st : STATUS_OK;
}
