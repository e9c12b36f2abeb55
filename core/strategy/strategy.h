/* strategy.h - what is decided about a training step besides where the model is cut: one row of
 * strategy.def per knob. Members, options, keys, help, comparison and files follow from the
 * rows. What a knob does is not here: it stands where the program is made (core/lower/), where the
 * search tries values (partition/auto_*.c), and where frameworks have a name for it
 * (study/frameworks/); CONTRIBUTING.md lists the places. What it may not stand beside is in
 * core/data/rules.def.
 *
 * A struct has the knobs that all stages share by including strategy_plan.def (as a whole:
 * `shared`), and those of a stage by strategy_stage.def (`own`). A request for a plan has both, one
 * value for all stages, and beside them `uint64_t chosen`: bit 1 << enum strategy_knob_id is set
 * when the user gave that knob. */
#ifndef CORE_STRATEGY_STRATEGY_H
#define CORE_STRATEGY_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/base/json.h"

/* What a stage keeps from forward to backward. */
enum plan_recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* only outputs: what an op remembers besides is made again (attention's
                          * probabilities), or the modules that the stage names. Korthikanti et al.,
                          * MLSys 2023 */
    RECOMPUTE_FULL,      /* only inputs of layers: a unit of them at a time is made again. Chen et
                          * al., 2016 */
    RECOMPUTE_KINDS
};
extern const char *const plan_recompute_names[RECOMPUTE_KINDS];

/* Modules of layers (plan_modules.c). What is read of norms, activations of experts and
 * projections out of latents is made again as well; of the others what they were given and what
 * they give stays. */
enum plan_module {
    MODULE_CORE_ATTN,   /* scores, softmax, weighted values */
    MODULE_LAYERNORM,   /* norms of the stream */
    MODULE_MLA_UP_PROJ, /* queries, keys and values out of latents */
    MODULE_MLP,         /* both products and the activation of a dense layer */
    MODULE_MOE,         /* router, experts and shared experts */
    MODULE_MOE_ACT,     /* the activation inside of experts */
    MODULE_SHARED_EXPERTS,
    PLAN_MODULES
};

/* How the replicas that share a sequence bring keys and values to the tokens that look at them. */
enum plan_exchange {
    EXCHANGE_RING,      /* from neighbour to neighbour, while attention computes with what is there
                         * already. Liu et al., Ring Attention, 2023 */
    EXCHANGE_ALLGATHER, /* all of them before attention. Dubey et al., Llama 3, 2024, section 3.3 */
    EXCHANGE_ALLTOALL, /* all tokens of a part of the heads instead. Jacobs et al., Ulysses, 2023 */
    EXCHANGE_KINDS
};
extern const char *const plan_exchange_names[EXCHANGE_KINDS];

/* What is in the host's memory while devices do not work at it; bits. */
enum plan_offload {
    OFFLOAD_NONE,
    OFFLOAD_OPTIMIZER = 1, /* the optimizer's state, which the host updates: gradients go there, and
                              * parameters come back. Ren et al., ZeRO-Offload, USENIX ATC 2021 */
    OFFLOAD_ACTIVATIONS = 2, /* what a microbatch keeps from forward to backward */
    OFFLOAD_BOTH = 3,
    OFFLOAD_KINDS
};
extern const char *const plan_offload_names[OFFLOAD_KINDS];

/* Of all stages, or of one. */
enum strategy_scope { STRATEGY_PLAN, STRATEGY_STAGE };
enum { STRATEGY_MOST = 1000000 }; /* of any degree, number of layers, ... */
#define STRATEGY_MOST_BYTES (INT64_MAX / 65536)

struct strategy {
#define PLAN_KNOB(type, name, ...) type name;
#define STAGE_KNOB(...)
#include "core/strategy/strategy.def"
};
struct strategy_stage {
#define PLAN_KNOB(...)
#define STAGE_KNOB(type, name, ...) type name;
#include "core/strategy/strategy.def"
};
enum strategy_knob_id {
#define PLAN_KNOB(type, name, ...)  KNOB_##name,
#define STAGE_KNOB(type, name, ...) KNOB_##name,
#include "core/strategy/strategy.def"
    STRATEGY_KNOBS
};
_Static_assert(STRATEGY_KNOBS <= 64, "strategy.def: a set of knobs has a bit for each");
#define KNOB_BIT(name) (UINT64_C(1) << KNOB_##name)

struct strategy_knob {
    const char *name;   /* key in files */
    const char *option; /* without dashes; NULL: only files say it */
    const char *alias;  /* what users of frameworks type instead, blank-separated; NULL: nothing */
    const char *what;   /* of stages: in messages about those that differ */
    enum strategy_scope scope;
    enum field_kind kind; /* of the member */
    size_t offset;        /* in struct strategy or struct strategy_stage */
    double least, most;
    uint32_t usual;          /* unless it is said */
    bool always;             /* files say it even so */
    bool degree;             /* devices are divided by it */
    bool groups;             /* so many replicas share what others do not */
    bool undecided;          /* unless it is given, until `auto` has chosen */
    bool memory;             /* help lists it among what saves memory, not with parallelism */
    const char *const *word; /* [words] that its values are called; NULL: numbers */
    size_t words;
    /* How files say what is neither a number nor a word. */
    enum strategy_special { STRATEGY_PLAIN, STRATEGY_RECOMPUTE, STRATEGY_MODULES } special;
    /* In the text of a plan: printed with its value (%g) or word (%s), or the k-th of "|a|b"; "+":
     * without a comma before it; NULL: nothing. In the order of columns, those of its shape (up to
     * STRATEGY_SHAPE) before the others. */
    const char *notation;
    int column;
    bool reported; /* JSON of rankings says it even where it is usual */
    /* One of these: which values `auto` tries, or why none but the one that is given. */
    const char *searched, *fixed;
};
extern const struct strategy_knob strategy_knobs[STRATEGY_KNOBS];

/* The kind of a struct's member by its type; texts are none of these. */
#define STRATEGY_MEMBER(of, name)                                                                  \
    _Generic(((of *)0)->name, bool                                                                 \
             : FIELD_BOOL, uint32_t                                                                \
             : FIELD_UINT32, int64_t                                                               \
             : FIELD_INT64, double                                                                 \
             : FIELD_DOUBLE, default                                                               \
             : FIELD_TEXT)
/* A member of a kind as a number; and back. */
double member_get(enum field_kind kind, const void *member);
void member_put(enum field_kind kind, double value, void *member);
/* The knob of `from`, a struct strategy or strategy_stage as its scope says, as a number; and
 * back. */
double strategy_get(const struct strategy_knob *k, const void *from);
void strategy_put(const struct strategy_knob *k, double value, void *into);
/* Of either. */
double strategy_value(const struct strategy_knob *k, const struct strategy *shared,
                      const struct strategy_stage *own);
/* The same stage with what is usual where a knob is 0 that begins with 1; of {0} what every knob
 * of a stage is unless it is said. Those of plans are 0 then. */
struct strategy_stage strategy_at_least_usual(const struct strategy_stage *s);
/* What says nothing beside the others is as if it had not been said: parameters that are kept or
 * groups without ZeRO, an imbalance of 1, sequence parallelism and parts where there is one shard,
 * an exchange of undivided sequences, modules unless recomputation is selective, layers and
 * units unless it is full. Degrees of 0 are
 * not decided yet. */
void strategy_settle(struct strategy *shared, struct strategy_stage *own);
/* Replicas that have microbatches of their own: all but those that share a sequence. */
static inline uint32_t strategy_streams(const struct strategy_stage *own)
{
    return own->context_parallel > 1 ? own->replicas / own->context_parallel : own->replicas;
}
/* Are whole units of ops made again, of layers or of what the stage's modules leave? */
static inline bool strategy_repeats_units(const struct strategy_stage *own)
{
    return own->recompute == RECOMPUTE_FULL || own->recompute_modules > 0;
}
/* Do some of the replicas share what others do not: experts, sequences, ZeRO by groups? */
bool strategy_groups_replicas(const struct strategy *shared, const struct strategy_stage *own);
/* Knobs of a stage that divide its ops in the same way on all replicas: bits. */
uint64_t strategy_divisions(void);
/* The first knob of `scope` that is not the same in both, and one of the set; NULL: none. */
const struct strategy_knob *strategy_differs(enum strategy_scope scope, uint64_t set, const void *a,
                                             const void *b);
/* Knobs that are not usual: bits. */
uint64_t strategy_unusual(const struct strategy *shared, const struct strategy_stage *own);
/* The first knob that is said and less or more than it may be, or a degree of 0; NULL: none. */
const struct strategy_knob *strategy_beyond(const struct strategy *shared,
                                            const struct strategy_stage *own);
/* "--expert-imbalance 1.5", "--zero-keep". Returns `text`. */
enum { STRATEGY_TEXT = 160 };
const char *strategy_say(const struct strategy_knob *k, const struct strategy *shared,
                         const struct strategy_stage *own, char text[STRATEGY_TEXT]);
/* What a knob is called in a list of changes, and its value: "CP" and "2", "recompute" and "full",
 * "SP" and "on"; "default" where it is not said. Both return `text`. */
const char *strategy_label(const struct strategy_knob *k, char text[STRATEGY_TEXT]);
const char *strategy_word(const struct strategy_knob *k, double value, char text[STRATEGY_TEXT]);
/* The knob that an option or alias stands for, without dashes; NULL: none. */
const struct strategy_knob *strategy_find(const char *option);

/* "recompute full 6 layers, ZeRO-1 keep": the knobs that are not usual, of the columns from `first`
 * to `last`; may be empty. Returns `text`. */
enum { STRATEGY_SHAPE = 3, STRATEGY_COLUMNS = 8, STRATEGY_WORDS = 256 };
const char *strategy_print(const struct strategy *shared, const struct strategy_stage *own,
                           int first, int last, char text[STRATEGY_WORDS]);
/* Fields of the object that is open: the knobs that are not usual, and those of any ranking,
 * but for the sizes of the plan's shape. */
void strategy_report(const struct strategy *shared, const struct strategy_stage *own,
                     struct json_writer *w);

/* Rows of a JSON object for all knobs of the scope, {0} behind the last one. */
void strategy_rows(enum strategy_scope scope, struct json_row rows[STRATEGY_KNOBS + 1]);

/* ---- modules (modules.c) */

/* "core_attn,mlp", or the same with blanks. STATUS_INVALID with the names. */
enum status plan_read_modules(const char *text, uint32_t *modules) MUST_CHECK;
enum { PLAN_MODULES_TEXT = 96 };
const char *plan_print_modules(uint32_t modules, char text[PLAN_MODULES_TEXT]);
/* The field "recompute_modules" of an object, a list of names; absent: none. `own` is a struct
 * strategy_stage, or begins with one. */
enum status strategy_read_modules(const struct json_at *stage, void *own) MUST_CHECK;
void strategy_write_modules(struct json_writer *w, const void *own);

#endif
