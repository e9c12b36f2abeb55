/* Rows of names: reading setups from keys, writing them, and notes about what was made of a
 * file. */
#include "study/frameworks/setup.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"

/* Larger numbers than any degree, batch or size that a plan can have. */
static const int64_t most = UINT32_MAX;

#define DIALECT(name) &dialect_##name,
const struct dialect *const dialects[] = {
#include "study/frameworks/frameworks.def"
};
#undef DIALECT
const size_t dialects_n = sizeof dialects / sizeof *dialects;

enum status dialect_recognise(const struct keys *k, const struct dialect **out)
{
    char known[TEXT_LIST];
    for (size_t i = 0; i < dialects_n; i++)
        if ((*out = dialects[i])->recognises(k))
            return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED, "%s: no arguments of a known framework found; known: %s",
                     k->path, text_list(dialects, dialects_n, known));
}

/* Frameworks that are only imported are left out. */
const char *dialect_name(size_t i)
{
    for (size_t k = 0; k < dialects_n; k++)
        if ((dialects[k]->write || dialects[k]->of_plan) && i-- == 0)
            return dialects[k]->name;
    return NULL;
}

/* ---- rows */

/* A negative number says "not said" there, which members without a sign have as 0. */
static void setup_put_number(struct setup *s, const struct setup_row *r, int64_t value)
{
    if (r->member == FIELD_UINT32 && value < 0)
        value = 0;
    member_put(r->member, (double)value, (char *)s + r->offset);
}

/* A word that is not known may change everything: refused, with those that are. */
static enum status unknown_word(struct setup *s, const struct framework_key *key, const char *text,
                                const struct setup_row *r)
{
    char list[TEXT_LIST] = "";
    for (const char *const *w = r->word; *w; w++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", *w);
    return keys_wrong(s->keys, key, STATUS_UNSUPPORTED, "'%.60s'; known here: %s", text, list);
}

static enum status read_real(struct setup *s, const struct setup_row *r, struct framework_key *key)
{
    const char *text;
    double value;
    PASS(keys_text(s->keys, key, &text));
    if (!text_real(text, &value) || value < 0)
        return keys_wrong(s->keys, key, STATUS_PARSE, "got '%.60s', expected a number from 0 on",
                          text);
    member_put(r->member, value, (char *)s + r->offset);
    return STATUS_OK;
}

/* One key into one member, by the kind of the row. */
static enum status setup_read_row(struct setup *s, const struct setup_row *r,
                                  struct framework_key *key)
{
    const char *text;
    bool on;
    int64_t value;
    switch (r->kind) {
    case SETUP_NUMBER:
        if (r->member == FIELD_DOUBLE)
            return read_real(s, r, key);
        PASS(keys_number(s->keys, key, &value));
        if (value < -1 || value > most)
            return keys_wrong(s->keys, key, STATUS_PARSE, "%" PRId64, value);
        setup_put_number(s, r, value);
        return STATUS_OK;
    case SETUP_FLAG:
    case SETUP_NOT:
        PASS(keys_flag(s->keys, key, &on));
        setup_put_number(s, r, on == (r->kind == SETUP_FLAG));
        return STATUS_OK;
    case SETUP_WORD:
        PASS(keys_text(s->keys, key, &text));
        for (value = 0; r->word[value]; value++)
            if (!strcasecmp(r->word[value], text)) {
                setup_put_number(s, r, value);
                return STATUS_OK;
            }
        return unknown_word(s, key, text, r);
    case SETUP_TEXT:
        PASS(keys_text(s->keys, key, &text));
        memcpy((char *)s + r->offset, &text, sizeof text);
        return STATUS_OK;
    case SETUP_LOST:
        PASS(keys_flag(s->keys, key, &on));
        return on ? setup_add_note(s, NOTE_LOST, "%s: %s", key->name, r->lost) : STATUS_OK;
    }
    return STATUS_OK;
}

/* The key of a row, in its section if that is a map of the file. Names of one word alone could be
 * anything elsewhere. */
static struct framework_key *find_key(struct setup *s, const struct setup_row *r)
{
    char path[128];
    struct framework_key *key = NULL;
    bool map = r->section && islower((unsigned char)*r->section);
    if (map) {
        snprintf(path, sizeof path, "%s.%s", r->section, r->key);
        key = keys_find(s->keys, path);
    }
    return key || (map && !strchr(r->key, '_')) ? key : keys_find(s->keys, r->key);
}

/* Aliases come first, so that the names of today win where a file has both. */
enum status setup_read(struct setup *s, const struct setup_row *rows, size_t n)
{
    s->own = strategy_at_least_usual(&s->own);
    for (size_t i = 0; i < n; i++)
        if (rows[i].kind != SETUP_TEXT && rows[i].kind != SETUP_LOST && !rows[i].alias)
            setup_put_number(s, &rows[i], rows[i].usual);
    for (int aliases = 1; aliases >= 0; aliases--)
        for (size_t i = 0; i < n; i++) {
            struct framework_key *key = rows[i].alias == aliases ? find_key(s, &rows[i]) : NULL;
            if (key)
                PASS(setup_read_row(s, &rows[i], key));
        }
    return STATUS_OK;
}

/* Aliases and what is lost have no place in a file that is written; `all`: values that are usual
 * have, unless they are 0, which says nothing. */
static void write_rows(const struct setup *s, const struct setup_row *rows, size_t n, bool all,
                       setup_put *put, void *to)
{
    for (const struct setup_row *r = rows; r < rows + n; r++) {
        char number[32];
        const char *text = NULL;
        double value = 0;
        if (r->alias || r->kind == SETUP_LOST)
            continue;
        if (r->kind == SETUP_TEXT)
            memcpy(&text, (const char *)s + r->offset, sizeof text);
        else
            value = member_get(r->member, (const char *)s + r->offset);
        bool silent = !all || (r->kind == SETUP_NUMBER && !(value > 0));
        bool usual = silent && !(fabs(value - (double)r->usual) > 0);
        if (r->kind == SETUP_TEXT ? !text || !*text : usual)
            continue;
        if (r->kind == SETUP_NUMBER) {
            snprintf(number, sizeof number, "%.15g", value);
            put(to, r, number, false);
        } else if (r->kind == SETUP_WORD || r->kind == SETUP_TEXT) {
            put(to, r, r->kind == SETUP_TEXT ? text : r->word[(size_t)value], true);
        } else {
            bool on = (value != 0) == (r->kind == SETUP_FLAG);
            put(to, r, on ? NULL : "false", false);
        }
    }
}

void setup_write(const struct setup *s, const struct setup_row *rows, size_t n, setup_put *put,
                 void *to)
{
    write_rows(s, rows, n, false, put, to);
}

void setup_write_all(const struct setup *s, const struct setup_row *rows, size_t n, setup_put *put,
                     void *to)
{
    write_rows(s, rows, n, true, put, to);
}

/* ---- knobs */

/* Knobs that the framework has a word for; replicas are what is left of the devices. */
static uint64_t said_by(const struct dialect *to)
{
    uint64_t says = to->says | KNOB_BIT(replicas) | KNOB_BIT(depth);
    for (int i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        size_t from = k->scope == STRATEGY_PLAN ? offsetof(struct setup, shared)
                                                : offsetof(struct setup, own);
        for (const struct setup_row *r = to->row; r < to->row + to->rows; r++)
            if (!r->alias && r->kind != SETUP_LOST && r->offset == from + k->offset)
                says |= UINT64_C(1) << i;
    }
    return says;
}

/* What the plan has and the framework has no word for. */
static enum status check_words(struct setup *s, const struct dialect *to)
{
    char text[STRATEGY_TEXT];
    uint64_t unsaid = s->chosen & ~said_by(to);
    for (int i = 0; i < STRATEGY_KNOBS; i++)
        if (unsaid >> i & 1) {
            strategy_say(&strategy_knobs[i], &s->shared, &s->own, text);
            if (to->refuses >> i & 1)
                return error_set(STATUS_UNSUPPORTED, "%s", text);
            if (s->effective >> i & 1)
                PASS(setup_add_note(s, NOTE_LOST, "%s, for which %s has no argument", text,
                                    to->title));
        }
    return STATUS_OK;
}

enum status setup_express(struct setup *s, const struct dialect *to)
{
    if (to->before) /* some are only read */
        PASS(to->before(s));
    return check_words(s, to);
}

/* ---- notes */

enum status setup_add_note(struct setup *s, enum setup_note_kind kind, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    PASS(ARENA_ROOM(&s->keys->memory, s->note, s->notes));
    const char *copy = arena_text(&s->keys->memory, text);
    if (!copy)
        return STATUS_NOMEM;
    s->note[s->notes++] = (struct setup_note){kind, copy};
    return STATUS_OK;
}

/* What keys are about whose use nobody has here, by parts of their names; the first that fits. */
static const struct {
    const char *group, *part[24];
} groups[] = {
    {"learning rate and regularisation",
     {"lr", "warmup", "decay", "adam_", "betas", "eps", "clip_grad", "gradient_clip", "dropout",
      "momentum", "sched", "optim", "init_method", "_std", "seed", "max_norm", "hysteresis", "fp16",
      "loss"}},
    {"data and tokenizer",
     {"data", "token", "vocab", "merge", "split", "loader", "mmap", "num_workers", "train_samples",
      "train_iters", "shuffle", "eod", "reset_"}},
    {"checkpoints, evaluation and logs",
     {"save",  "load",        "ckpt",       "checkpoint", "log",         "eval",
      "wandb", "tensorboard", "profil",     "metrics",    "exp_manager", "monitor",
      "print", "val_",        "validation", "timer",      "callback",    "exit",
      "nsys",  "report",      "test",       "interval",   "memory",      "steps"}},
    {"launcher and processes",
     {"master",    "rdzv", "node_rank", "sbatch",       "container", "launcher",
      "hostfile",  "nccl", "tee",       "max_restarts", "env_vars",  "account",
      "partition", "job",  "mpi",       "comment",      "dist",      "backend",
      "timeout",   "wait", "kill",      "run",          "hydra"}},
    {"kernels and fusions",
     {"fusion", "fused", "transformer_engine", "transformer_impl", "te_", "gemm", "flash",
      "compile", "kernel", "cuda", "gc", "mcore", "async", "buffer"}},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Parts of fewer than four letters must begin a word: "lr" is no part of "allreduce". */
static bool is_about(const char *key, size_t group)
{
    for (size_t k = 0; k < 24 && groups[group].part[k]; k++) {
        const char *at = strstr(key, groups[group].part[k]);
        if (at && (strlen(groups[group].part[k]) >= 4 || at == key || strchr("_.", at[-1])))
            return true;
    }
    return false;
}

/* GROUPS: none of them. */
static size_t group_of(const char *key)
{
    for (size_t g = 0; g < GROUPS; g++)
        if (is_about(key, g))
            return g;
    return GROUPS;
}

/* Has a key before this one the same name? */
static bool is_repeated(const struct keys *k, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (!strcmp(k->key[j].name, k->key[i].name))
            return true;
    return false;
}

/* Names of a group in one line, of which the first few are said. */
static void print_group(const struct keys *k, size_t group, FILE *out)
{
    enum { SHOWN = 8 };
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) {
        if (k->key[i].used || k->key[i].line == 0 || group_of(k->key[i].name) != group ||
            is_repeated(k, i))
            continue;
        if (n == 0)
            fprintf(out, "ignored, %s:", group < GROUPS ? groups[group].group : "others");
        if (n < SHOWN || group == GROUPS)
            fprintf(out, "%s %s", n ? "," : "", k->key[i].name);
        n++;
    }
    if (n > SHOWN && group < GROUPS)
        fprintf(out, " and %zu more", n - SHOWN);
    if (n > 0)
        fputc('\n', out);
}

/* What changes numbers comes before what is ignored. */
void setup_print_notes(const struct setup *s, FILE *out)
{
    size_t set = 0;
    static const char *const titles[] = {[NOTE_ASSUMED] = "assumed", [NOTE_LOST] = "not expressed"};
    for (enum setup_note_kind kind = 0; kind <= NOTE_LOST; kind++)
        for (size_t i = 0; i < s->notes; i++)
            if (s->note[i].kind == kind)
                fprintf(out, "%s: %s\n", titles[kind], s->note[i].text);
    for (size_t g = 0; g <= GROUPS; g++)
        print_group(s->keys, g, out);
    for (const char *name; (name = keys_unused(s->keys, &set));)
        fprintf(out, "ignored: --set %s: the file does not use it\n", name);
}
