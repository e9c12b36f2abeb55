/* The rows of strategy.def, and what follows from them for all structs that have knobs. */
#include "core/strategy/strategy.h"

#include <string.h>

#include "core/base/units.h"

const char *const plan_recompute_names[RECOMPUTE_KINDS] = {
    [RECOMPUTE_NONE] = "none",
    [RECOMPUTE_SELECTIVE] = "selective",
    [RECOMPUTE_FULL] = "full",
};
const char *const plan_exchange_names[EXCHANGE_KINDS] = {
    [EXCHANGE_RING] = "ring",
    [EXCHANGE_ALLGATHER] = "allgather",
    [EXCHANGE_ALLTOALL] = "alltoall",
};
const char *const plan_offload_names[OFFLOAD_KINDS] = {
    [OFFLOAD_NONE] = "none",
    [OFFLOAD_OPTIMIZER] = "optimizer",
    [OFFLOAD_ACTIVATIONS] = "activations",
    [OFFLOAD_BOTH] = "both",
};

#define OPTION_ROW(of, scope_, name_, option_, type, also, unit, least_, most_, help, ...)         \
    [KNOB_##name_] = {.name = #name_,                                                              \
                      .option = (option_),                                                         \
                      .scope = (scope_),                                                           \
                      .kind = STRATEGY_MEMBER(of, name_),                                          \
                      .offset = offsetof(of, name_),                                               \
                      .least = (least_),                                                           \
                      .most = (double)(most_),                                                     \
                      __VA_ARGS__},
#define NO_OPTION_ROW(of, scope_, name_, least_, most_, ...)                                       \
    OPTION_ROW(of, scope_, name_, NULL, , , , least_, most_, , __VA_ARGS__)
#define PLAN_KNOB(type, name, has, ...) has##_ROW(struct strategy, STRATEGY_PLAN, name, __VA_ARGS__)
#define STAGE_KNOB(type, name, has, ...)                                                           \
    has##_ROW(struct strategy_stage, STRATEGY_STAGE, name, __VA_ARGS__)
const struct strategy_knob strategy_knobs[STRATEGY_KNOBS] = {
#include "core/strategy/strategy.def"
};

double member_get(enum field_kind kind, const void *member)
{
    return kind == FIELD_BOOL     ? (double)*(const bool *)member
           : kind == FIELD_UINT32 ? (double)*(const uint32_t *)member
           : kind == FIELD_INT64  ? (double)*(const int64_t *)member
                                  : *(const double *)member;
}

void member_put(enum field_kind kind, double value, void *member)
{
    if (kind == FIELD_BOOL)
        *(bool *)member = value != 0;
    else if (kind == FIELD_UINT32)
        *(uint32_t *)member = (uint32_t)value;
    else if (kind == FIELD_INT64)
        *(int64_t *)member = (int64_t)value;
    else
        *(double *)member = value;
}

double strategy_get(const struct strategy_knob *k, const void *from)
{
    return member_get(k->kind, (const char *)from + k->offset);
}

void strategy_put(const struct strategy_knob *k, double value, void *into)
{
    member_put(k->kind, value, (char *)into + k->offset);
}

double strategy_value(const struct strategy_knob *k, const struct strategy *shared,
                      const struct strategy_stage *own)
{
    return strategy_get(k, k->scope == STRATEGY_PLAN ? (const void *)shared : own);
}

uint64_t strategy_unusual(const struct strategy *shared, const struct strategy_stage *own)
{
    uint64_t set = 0;
    for (int i = 0; i < STRATEGY_KNOBS; i++)
        if (strategy_value(&strategy_knobs[i], shared, own) > strategy_knobs[i].usual)
            set |= UINT64_C(1) << i;
    return set;
}

const struct strategy_knob *strategy_beyond(const struct strategy *shared,
                                            const struct strategy_stage *own)
{
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++) {
        double value = strategy_value(k, shared, own);
        bool needed = k->degree && k->scope == STRATEGY_STAGE;
        if (needed || value != 0)
            if (!(value >= k->least) || (k->most > 0 && value > k->most))
                return k;
    }
    return NULL;
}

bool strategy_groups_replicas(const struct strategy *shared, const struct strategy_stage *own)
{
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++)
        if (k->groups && strategy_value(k, shared, own) > k->usual)
            return true;
    return false;
}

uint64_t strategy_divisions(void)
{
    uint64_t set = 0;
    for (int i = 0; i < STRATEGY_KNOBS; i++)
        if (strategy_knobs[i].degree && strategy_knobs[i].scope == STRATEGY_STAGE)
            set |= UINT64_C(1) << i;
    return set & ~KNOB_BIT(replicas);
}

struct strategy_stage strategy_at_least_usual(const struct strategy_stage *s)
{
    struct strategy_stage out = *s;
    for (int i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        if (k->scope == STRATEGY_STAGE && strategy_get(k, s) < k->usual)
            strategy_put(k, k->usual, &out);
    }
    return out;
}

void strategy_settle(struct strategy *shared, struct strategy_stage *own)
{
    if (shared->zero != 1 && shared->zero != 3)
        shared->zero_keep = false;
    if (shared->zero == 0)
        shared->zero_group = 0;
    if (!(shared->expert_imbalance > 1))
        shared->expert_imbalance = 0;
    if (own->tensor_parallel == 1)
        shared->sequence_parallel = shared->p2p_scatter = false;
    if (!shared->sequence_parallel)
        shared->tensor_overlap = false;
    if (own->context_parallel == 1)
        shared->context_exchange = EXCHANGE_RING;
    if (own->recompute != RECOMPUTE_SELECTIVE)
        own->recompute_modules = 0;
    if (own->recompute != RECOMPUTE_FULL) {
        own->recompute_layers = 0;
        own->recompute_unit = own->recompute_unit > 0; /* usual, if decided */
    }
}

const struct strategy_knob *strategy_differs(enum strategy_scope scope, uint64_t set, const void *a,
                                             const void *b)
{
    for (int i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        double x = k->scope == scope ? strategy_get(k, a) : 0,
               y = k->scope == scope ? strategy_get(k, b) : 0;
        if ((set >> i & 1) && (x < y || x > y))
            return k;
    }
    return NULL;
}

/* Is it one of the blank-separated words? */
static bool strategy_is_among(const char *word, const char *words)
{
    for (size_t n; words && *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (strlen(word) == n && !strncmp(word, words, n))
            return true;
    }
    return false;
}

const struct strategy_knob *strategy_find(const char *option)
{
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++)
        if (k->option && (!strcmp(k->option, option) || strategy_is_among(option, k->alias)))
            return k;
    return NULL;
}

/* ---- files */

/* false, true (full) or a name. */
static enum status strategy_read_recompute(const struct json_at *stage, void *into)
{
    struct strategy_stage *s = into;
    struct json_at at;
    bool full = false;
    size_t kind = RECOMPUTE_NONE;
    PASS(json_optional(stage, "recompute", &at));
    if (json_kind(&at) == JSON_IS_TEXT) {
        PASS(json_may_choice(stage, "recompute", plan_recompute_names, RECOMPUTE_KINDS, &kind));
    } else if (at.value) {
        PASS(json_get_bool(&at, &full));
        kind = full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    s->recompute = (enum plan_recompute)kind;
    return STATUS_OK;
}

/* Selective by its name; the other two as a truth value, as files had it before there were
 * three. */
static void write_recompute(struct json_writer *w, const void *from)
{
    const struct strategy_stage *s = from;
    if (s->recompute == RECOMPUTE_SELECTIVE)
        json_put_string(w, "recompute", plan_recompute_names[s->recompute]);
    else
        json_put_bool(w, "recompute", s->recompute == RECOMPUTE_FULL);
}

void strategy_rows(enum strategy_scope scope, struct json_row rows[STRATEGY_KNOBS + 1])
{
    static const struct {
        enum status (*read)(const struct json_at *object, void *into);
        void (*write)(struct json_writer *w, const void *from);
    } special[] = {[STRATEGY_RECOMPUTE] = {strategy_read_recompute, write_recompute},
                   [STRATEGY_MODULES] = {strategy_read_modules, strategy_write_modules}};
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++) {
        if (k->scope != scope)
            continue;
        *rows = (struct json_row){.key = k->name,
                                  .kind = k->word ? FIELD_CHOICE : k->kind,
                                  .offset = k->offset,
                                  .presence = k->always ? FIELD_MAY : FIELD_SPARE,
                                  .min = k->least,
                                  .max = k->most,
                                  .usual = k->usual,
                                  .name = k->word,
                                  .names = k->words};
        if (k->special)
            *rows = (struct json_row){.key = k->name,
                                      .kind = FIELD_SPECIAL,
                                      .read = special[k->special].read,
                                      .write = special[k->special].write};
        rows++;
    }
    *rows = (struct json_row){0};
}

/* ---- texts */

/* What the value is called: "selective", "layernorm,mlp", "1.5". */
static const char *strategy_text(const struct strategy_knob *k, double value,
                                 char text[PLAN_MODULES_TEXT])
{
    if (k->word)
        return k->word[(size_t)value];
    if (k->special == STRATEGY_MODULES)
        return plan_print_modules((uint32_t)value, text);
    snprintf(text, PLAN_MODULES_TEXT, "%.12g", value);
    return text;
}

/* Its notation, with the value or what that is called. */
static void print_knob(const struct strategy_knob *k, double value, FILE *out)
{
    char modules[PLAN_MODULES_TEXT];
    const char *text = k->notation + (*k->notation == '+'), *with = strchr(text, '%');
    if (*text == '|') {
        for (int skip = (int)value; skip > 0; skip--)
            text = strchr(text, '|') + 1;
        fprintf(out, "%.*s", (int)strcspn(text, "|"), text);
    } else if (!with) {
        fputs(text, out);
    } else {
        fprintf(out, "%.*s", (int)(with - text), text);
        if (with[1] == 'g')
            fprintf(out, "%g", value);
        else if (k->kind == FIELD_INT64)
            fputs(units_of(UNIT_BYTES, value).text, out);
        else
            fputs(strategy_text(k, value, modules), out);
        fputs(with + 2, out);
    }
}

const char *strategy_say(const struct strategy_knob *k, const struct strategy *shared,
                         const struct strategy_stage *own, char text[STRATEGY_TEXT])
{
    char value[PLAN_MODULES_TEXT];
    const char *of = strategy_text(k, strategy_value(k, shared, own), value);
    bool flag = k->kind == FIELD_BOOL;
    snprintf(text, STRATEGY_TEXT, "--%s%s%s", k->option ? k->option : k->name, flag ? "" : " ",
             flag ? "" : of);
    return text;
}

/* Of a notation what stands before its value, or its first word; "+ ...": the option. */
const char *strategy_label(const struct strategy_knob *k, char text[STRATEGY_TEXT])
{
    const char *from = k->notation && *k->notation != '+' ? k->notation
                       : k->option                        ? k->option
                                                          : k->name;
    bool choice = *from == '|';
    size_t n = strcspn(from += choice, choice ? " " : "%");
    while (n > 0 && from[n] && strchr(" -", from[n - 1]))
        n--;
    snprintf(text, STRATEGY_TEXT, "%.*s", (int)n, from);
    return text;
}

const char *strategy_word(const struct strategy_knob *k, double value, char text[STRATEGY_TEXT])
{
    char name[PLAN_MODULES_TEXT];
    const char *word = value < k->least && !(value > 0) ? "" : strategy_text(k, value, name);
    if (k->kind == FIELD_BOOL)
        word = value > 0 ? "on" : "off";
    if (k->kind == FIELD_INT64)
        return units_print(UNIT_BYTES, value, text);
    snprintf(text, STRATEGY_TEXT, "%s", *word ? word : "default");
    return text;
}

const char *strategy_print(const struct strategy *shared, const struct strategy_stage *own,
                           int first, int last, char text[STRATEGY_WORDS])
{
    FILE *out = fmemopen(text, STRATEGY_WORDS - 1, "w");
    bool any = false;
    text[0] = text[STRATEGY_WORDS - 1] = '\0';
    for (int column = first; out && column <= last; column++)
        for (int i = 0; i < STRATEGY_KNOBS; i++) {
            const struct strategy_knob *k = &strategy_knobs[i];
            double value = strategy_value(k, shared, own);
            if (!k->notation || k->column != column || !(value > k->usual))
                continue;
            if (any && *k->notation != '+')
                fputs(", ", out);
            print_knob(k, value, out);
            any = true;
        }
    if (out)
        fclose(out);
    return text;
}

void strategy_report(const struct strategy *shared, const struct strategy_stage *own,
                     struct json_writer *w)
{
    for (int i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        double value = strategy_value(k, shared, own);
        if (k->always || !(k->reported || value > k->usual))
            continue;
        if (k->special == STRATEGY_MODULES)
            strategy_write_modules(w, own);
        else if (k->word)
            json_put_string(w, k->name, k->word[(size_t)value]);
        else if (k->kind == FIELD_BOOL)
            json_put_bool(w, k->name, value > 0);
        else if (k->kind == FIELD_DOUBLE)
            json_put_real(w, k->name, value);
        else
            json_put_integer(w, k->name, (int64_t)value);
    }
}
