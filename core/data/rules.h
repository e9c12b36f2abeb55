/* rules.h - what may go together in a plan: one row of rules.def per rule, and one way of
 * asking for options, plan files, the search, lowering and runs alike. */
#ifndef CORE_DATA_RULES_H
#define CORE_DATA_RULES_H

#include "core/strategy/strategy.h"

struct model;
struct plan;
struct schedule;

/* What rules read besides knobs; KNOB_BIT(schedule), as of knobs. */
enum rule_fact {
    KNOB_schedule = STRATEGY_KNOBS,
    KNOB_stages,
    KNOB_chunks, /* stages on each set of devices */
    KNOB_layers, /* of the stage that has most */
    KNOB_model,
    RULE_FACTS
};
_Static_assert((int)RULE_FACTS <= 64, "a set of knobs and facts has a bit for each");

enum rule_kind {
    RULE_IMPOSSIBLE = 1,   /* there is no such plan */
    RULE_NO_EFFECT = 2,    /* the first knob of the message changes nothing */
    RULE_NOT_RUN = 4,      /* it can be simulated, and foreline run refuses it, */
    RULE_NOT_COMPUTED = 8, /* with real compute at least */
    RULE_CLAMPED = 16      /* it means less than it says */
};

struct rule {
    const char *name;
    enum rule_kind kind;
    uint64_t reads; /* KNOB_BIT() of knobs and facts */
    const char *message;
};
enum rule_id {
#define RULE(name, ...) RULE_##name,
#include "core/data/rules.def"
    RULES
};
extern const struct rule rule_table[RULES];

/* What options refuse, and files that say no more than this are warned about. */
enum { RULES_OF_OPTIONS = RULE_IMPOSSIBLE | RULE_NO_EFFECT | RULE_CLAMPED };

/* Of a model. O(ops). */
struct rule_model {
    const char *name;
    bool ties;       /* ops share weights */
    bool drops;      /* experts have room for some of their tokens only */
    bool exchanges;  /* tokens go to experts */
    int64_t experts; /* the greatest divisor of all numbers of experts; 0: none is said */
};
struct rule_model rule_model_of(const struct model *m);

/* What is asked about. Bits of `open`: not decided yet; rules that read one of them say nothing. */
struct rule_view {
    uint64_t open;
    const struct strategy *shared;
    size_t n;        /* stages that are known apart, */
    const char *own; /* of which the k-th struct strategy_stage is at own + k * stride */
    size_t stride;
    struct rule_facts {
        uint64_t said; /* knobs that were chosen, or are in the file */
        const struct schedule *schedule;
        size_t stages, chunks;
        uint32_t layers;
        const struct rule_model *model;
    } facts;
};

/* The first rule of these kinds (RULE_IMPOSSIBLE | ...) that is broken, or NULL. A rule of
 * RULE_NO_EFFECT is broken when all stages break it, any other when one does: *stage is that one
 * (stage may be NULL). O(rules * stages). */
const struct rule *rules_broken(const struct rule_view *v, unsigned kinds, size_t *stage);
/* Is this one? */
bool rule_is_broken(const struct rule_view *v, enum rule_id rule);
/* The knobs of the plan and of its first stage, for printing: those without effect are reset to
 * what they are unless said. */
void rules_settle(const struct plan *p, struct strategy *shared, struct strategy_stage *own);

/* The message, with knobs as options ("--zero-keep") or as keys of files ("zero_keep"). */
enum { RULE_TEXT = 256 };
const char *rule_print(const struct rule *r, const struct rule_view *v, bool options,
                       char text[RULE_TEXT]);
/* The knob that the rule is about: the first in its message; NULL: a fact. */
const struct strategy_knob *rule_subject(const struct rule *r);
/* What a view of a plan is; the rules' own stages and model are borrowed. */
struct rule_view rule_view_of_plan(const struct plan *p, const struct rule_model *m);

#endif
