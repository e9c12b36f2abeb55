/* The rules of rules.def: which are broken, and what they say. */
#include "core/data/rules.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/divisor.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/schedule/schedule.h"

#define READS1(a)          KNOB_BIT(a)
#define READS2(a, b)       (READS1(a) | READS1(b))
#define READS3(a, b, c)    (READS2(a, b) | READS1(c))
#define READS4(a, b, c, d) (READS3(a, b, c) | READS1(d))

#define READS_OF(a, b, c, d, with, ...) with
/* Of one to four names. */
#define READS(...) READS_OF(__VA_ARGS__, READS4, READS3, READS2, READS1, )(__VA_ARGS__)

const struct rule rule_table[RULES] = {
#define RULE(id, sort, bits, broken, text)                                                         \
    [RULE_##id] = {.name = #id, .kind = RULE_##sort, .reads = (bits), .message = (text)},
#include "core/data/rules.def"
};

struct rule_model rule_model_of(const struct model *m)
{
    struct rule_model out = {.name = m->name};
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *o = &m->op[i];
        int64_t slots = model_attribute(o, "slots", 0),
                experts = o->exchange_bytes > 0 ? model_attribute(o, "experts", 0) : 0;
        out.ties = out.ties || o->shares != MODEL_NO_OP;
        out.exchanges = out.exchanges || o->exchange_bytes > 0;
        out.drops = out.drops || (slots > 0 && slots != model_attribute(o, "tokens", 0) *
                                                            model_attribute(o, "top_k", 0));
        if (experts > 0)
            out.experts = (int64_t)common_divisor((uint64_t)experts, (uint64_t)out.experts);
    }
    return out;
}

static bool holds(enum rule_id rule, const struct strategy *s, const struct strategy_stage *g,
                  const struct rule_facts *f)
{
    switch (rule) {
#define RULE(id, sort, bits, broken, text)                                                         \
    case RULE_##id:                                                                                \
        return (broken);
#include "core/data/rules.def"
    case RULES:
        break;
    }
    return false;
}

/* Of no effect is what no stage makes use of. */
static bool is_broken(const struct rule_view *v, enum rule_id rule, size_t *stage)
{
    bool all = rule_table[rule].kind & (RULE_NO_EFFECT | RULE_CLAMPED), broken = all;
    if (rule_table[rule].reads & v->open)
        return false;
    for (size_t k = 0; k < v->n && broken == all; k++) {
        struct strategy_stage own;
        memcpy(&own, v->own + k * v->stride, sizeof own);
        broken = holds(rule, v->shared, &own, &v->facts);
        *stage = k;
    }
    return broken;
}

bool rule_is_broken(const struct rule_view *v, enum rule_id rule)
{
    size_t stage;
    return is_broken(v, rule, &stage);
}

const struct rule *rules_broken(const struct rule_view *v, unsigned kinds, size_t *stage)
{
    size_t any;
    for (int i = 0; i < RULES; i++)
        if ((rule_table[i].kind & kinds) && is_broken(v, (enum rule_id)i, stage ? stage : &any))
            return &rule_table[i];
    return NULL;
}

/* Knobs that a plan says: those that are not usual in some stage. */
static uint64_t said_of(const struct plan *p)
{
    uint64_t said = 0;
    for (size_t s = 0; s < p->stages; s++)
        said |= strategy_unusual(&p->shared, &p->stage[s].own);
    return said;
}

struct rule_view rule_view_of_plan(const struct plan *p, const struct rule_model *m)
{
    struct rule_view v = {.open = KNOB_BIT(chunks) | KNOB_BIT(layers),
                          .shared = &p->shared,
                          .n = p->stages,
                          .own = (const char *)&p->stage[0].own,
                          .stride = sizeof *p->stage,
                          .facts = {.said = said_of(p), .stages = p->stages, .model = m}};
    if (schedule_find(p->schedule, &v.facts.schedule) != STATUS_OK)
        v.open |= KNOB_BIT(schedule);
    if (!m)
        v.open |= KNOB_BIT(model);
    for (size_t s = 0; s < p->stages; s++)
        if (strategy_beyond(&p->shared, &p->stage[s].own))
            v.n = 0; /* plan_check() says so */
    return v;
}

/* ---- messages */

static const char *const facts[RULE_FACTS - STRATEGY_KNOBS] = {"schedule", "stages", "chunks"};

/* The knob or fact of a name, RULE_FACTS: it is none. */
static size_t rules_find(const char *name)
{
    size_t i = 0;
    while (i < RULE_FACTS &&
           (i < STRATEGY_KNOBS
                ? strcmp(strategy_knobs[i].name, name) != 0
                : !facts[i - STRATEGY_KNOBS] || strcmp(facts[i - STRATEGY_KNOBS], name) != 0))
        i++;
    return i;
}

/* What stands for "{name}" or "{name=}", which has the value besides. */
static void print_name(const char *name, const struct rule_view *v, bool options, FILE *out)
{
    char plain[32];
    struct strategy_stage own;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "="), name);
    size_t i = rules_find(plain);
    const struct strategy_knob *k = i < STRATEGY_KNOBS ? &strategy_knobs[i] : NULL;
    if (!strcmp(plain, "model"))
        fputs(v->facts.model->name, out);
    else if (!strcmp(plain, "experts"))
        fprintf(out, "%lld", (long long)v->facts.model->experts);
    else if (!strcmp(plain, "layers"))
        fprintf(out, "%u", v->facts.layers);
    else
        fprintf(out, "%s%s", options ? "--" : "", options && k && k->option ? k->option : plain);
    if (!k || !strchr(name, '='))
        return;
    memcpy(&own, v->own, sizeof own);
    fprintf(out, " %g", strategy_value(k, v->shared, &own));
}

const char *rule_print(const struct rule *r, const struct rule_view *v, bool options,
                       char text[RULE_TEXT])
{
    FILE *out = fmemopen(text, RULE_TEXT - 1, "w");
    char name[32];
    text[0] = text[RULE_TEXT - 1] = '\0';
    for (const char *at = r->message; out && *at;) {
        size_t n = strcspn(at, "{");
        fprintf(out, "%.*s", (int)n, at);
        at += n;
        if (*at != '{')
            break;
        n = strcspn(at, "}");
        snprintf(name, sizeof name, "%.*s", (int)(n - 1), at + 1);
        print_name(name, v, options, out);
        at += n + 1;
    }
    if (out)
        fclose(out);
    return text;
}

const struct strategy_knob *rule_subject(const struct rule *r)
{
    char name[32];
    const char *at = strchr(r->message, '{');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "=}"), at + 1);
    size_t i = rules_find(name);
    return i < STRATEGY_KNOBS ? &strategy_knobs[i] : NULL;
}

void rules_settle(const struct plan *p, struct strategy *shared, struct strategy_stage *own)
{
    const struct rule_view v = rule_view_of_plan(p, NULL);
    *shared = p->shared;
    *own = p->stage[0].own;
    for (int i = 0; i < RULES; i++) {
        const struct strategy_knob *k = rule_subject(&rule_table[i]);
        if (k && rule_table[i].kind == RULE_NO_EFFECT && rule_is_broken(&v, (enum rule_id)i))
            strategy_put(k, k->usual, k->scope == STRATEGY_PLAN ? (void *)shared : own);
    }
}
