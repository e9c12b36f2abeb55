/* Words of shell scripts: where they end, and what they expand to. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/frameworks/shell.h"

/* ---- where things end */

static const char *shell_sum_skip(const char *at, int depth);

/* Behind the character that closes what is open at `at`, quotes inside respected; NULL: nothing. */
static const char *skip_to(const char *at, char close, int depth)
{
    while (at && *at && *at != close)
        at = shell_sum_skip(at, depth + 1);
    return at && *at ? at + 1 : NULL;
}

/* Behind one character, or a whole quotation, ${...}, $(...), `...`; NULL: it is not closed. */
static const char *shell_sum_skip(const char *at, int depth)
{
    if (depth > SHELL_DEEP)
        return NULL;
    if (*at == '\\')
        return at[1] ? at + 2 : at + 1;
    if (*at == '\'') {
        const char *end = strchr(at + 1, '\'');
        return end ? end + 1 : NULL;
    }
    if (*at == '"') {
        for (at++; at && *at && *at != '"';)
            at = *at == '\'' ? at + 1 : shell_sum_skip(at, depth + 1);
        return at && *at ? at + 1 : NULL;
    }
    if (*at == '`') {
        const char *end = strchr(at + 1, '`');
        return end ? end + 1 : NULL;
    }
    if (at[0] == '$' && at[1] == '{')
        return skip_to(at + 2, '}', depth);
    if (at[0] == '$' && at[1] == '(')
        return skip_to(at + 2, ')', depth);
    if (at[0] == '(' && depth > 0) /* inside $(...) */
        return skip_to(at + 1, ')', depth);
    return at + 1;
}

/* Blanks and signs inside quotes and brackets are part of the word. */
enum status shell_word_end(const struct shell *s, const char *text, const char **end)
{
    const char *at = text;
    while (at && *at && !strchr(" \t\r\n;&|()<>", *at))
        at = shell_sum_skip(at, 0);
    if (!at)
        return error_set(STATUS_PARSE, "%s:%zu: quote or brace is not closed", s->keys->path,
                         s->line);
    *end = at;
    return STATUS_OK;
}

/* ---- variables */

struct shell_variable *shell_find(struct shell *s, const char *name, size_t length)
{
    for (size_t i = 0; i < s->variables; i++)
        if (strlen(s->variable[i].name) == length && !memcmp(s->variable[i].name, name, length)) {
            if (s->variable[i].fixed)
                (void)keys_given(s->keys, name, length); /* the script asks for it */
            return &s->variable[i];
        }
    return NULL;
}

/* Every word is charged, so that no script grows without bound. */
enum status shell_append(struct shell *s, struct shell_words *words, const char *text,
                         size_t length)
{
    PASS(keys_charge(s->keys, length + sizeof(char *)));
    PASS(ARENA_ROOM(&s->keys->memory, words->word, words->n));
    char *copy = arena_text_n(&s->keys->memory, text, length);
    if (!copy)
        return STATUS_NOMEM;
    words->word[words->n++] = copy;
    return STATUS_OK;
}

/* Assignments replace the list, whose old items stay in the arena. */
enum status shell_assign(struct shell *s, const char *name, size_t length,
                         const struct shell_words *value, bool array, bool append)
{
    struct shell_variable *v = shell_find(s, name, length);
    if (v && v->fixed)
        return STATUS_OK;
    if (!v) {
        if (s->variables == SHELL_VARIABLES)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d variables", s->keys->path, s->line,
                             SHELL_VARIABLES);
        PASS(ARENA_ROOM(&s->keys->memory, s->variable, s->variables));
        v = &s->variable[s->variables];
        v->name = arena_text_n(&s->keys->memory, name, length);
        if (!v->name)
            return STATUS_NOMEM;
        s->variables++;
    }
    struct shell_words all = {0};
    for (size_t i = 0; append && i < v->value.n; i++)
        PASS(shell_append(s, &all, v->value.word[i], strlen(v->value.word[i])));
    if (append && !array && all.n > 0 && value->n > 0) { /* NAME+=more */
        char *last = all.word[all.n - 1];
        size_t size = strlen(last) + strlen(value->word[0]) + 1;
        PASS(keys_charge(s->keys, size));
        char *joined = arena_new(&s->keys->memory, size, 1);
        if (!joined)
            return STATUS_NOMEM;
        snprintf(joined, size, "%s%s", last, value->word[0]);
        all.word[all.n - 1] = joined;
    } else {
        for (size_t i = 0; i < value->n; i++)
            PASS(shell_append(s, &all, value->word[i], strlen(value->word[i])));
    }
    v->value = all;
    v->line = s->line;
    return STATUS_OK;
}

/* ---- arithmetic, by recursive descent: + and -, then * / and %, then a sign, brackets or a
 * number */

struct shell_sum {
    const char *at;
    bool failed;
    int depth;
};

static double shell_sum_of(struct shell_sum *x);

/* Brackets and signs nest up to SHELL_DEEP; values are whole numbers below 9e15. */
static double shell_sum_factor(struct shell_sum *x)
{
    x->at += strspn(x->at, " \t\n");
    if (++x->depth > SHELL_DEEP) {
        x->failed = true;
        return 0;
    }
    double value = 0;
    char *end;
    if (*x->at == '(') {
        x->at++;
        value = shell_sum_of(x);
        x->at += strspn(x->at, " \t\n");
        x->failed |= *x->at != ')';
        x->at += *x->at == ')';
    } else if (*x->at == '-') {
        x->at++;
        value = -shell_sum_factor(x);
    } else {
        value = (double)strtoll(x->at, &end, 10);
        x->failed |= end == x->at;
        x->at = end;
    }
    x->depth--;
    return value;
}

/* Division cuts towards zero, as the shell's does. */
static double term_of(struct shell_sum *x)
{
    double value = shell_sum_factor(x);
    for (;;) {
        x->at += strspn(x->at, " \t\n");
        char sign = *x->at;
        if (x->failed || !sign || !strchr("*/%", sign))
            return value;
        x->at++;
        double by = shell_sum_factor(x);
        if (sign == '*')
            value *= by;
        else if (by == 0 || !(value > -9e15 && value < 9e15 && by > -9e15 && by < 9e15))
            x->failed = true;
        else
            value =
                (double)(sign == '/' ? (int64_t)value / (int64_t)by : (int64_t)value % (int64_t)by);
    }
}

/* From left to right. */
static double shell_sum_of(struct shell_sum *x)
{
    double value = term_of(x);
    for (;;) {
        x->at += strspn(x->at, " \t\n");
        if (x->failed || (*x->at != '+' && *x->at != '-'))
            return value;
        value += *x->at++ == '+' ? term_of(x) : -term_of(x);
    }
}

/* ---- expansion */

/* A word that grows, and the words before it. */
struct word_builder {
    struct shell *s;
    struct shell_words *out;
    char *text;
    size_t n, room;
    bool began;  /* there is a word, if only "" */
    bool quoted; /* between double quotes */
    bool whole;  /* blanks never divide */
};

/* Room doubles; one byte stays for the end of the word. */
static enum status word_put(struct word_builder *b, const char *text, size_t length)
{
    PASS(keys_charge(b->s->keys, length));
    PASS(ARRAY_RESERVE(b->text, b->n + length + 1, b->room));
    memcpy(b->text + b->n, text, length);
    b->n += length;
    b->began = true;
    return STATUS_OK;
}

/* A word that was begun by quotes alone is an empty word. */
static enum status word_finish(struct word_builder *b)
{
    enum status st = STATUS_OK;
    if (b->began)
        st = shell_append(b->s, b->out, b->n ? b->text : "", b->n);
    b->n = 0;
    b->began = false;
    return st;
}

/* A value that is put in, blanks of which divide words where it is not quoted. */
static enum status word_put_value(struct word_builder *b, const char *text)
{
    if (b->quoted || b->whole)
        return word_put(b, text, strlen(text));
    while (*text) {
        size_t blanks = strspn(text, " \t\r\n"), letters;
        if (blanks > 0)
            PASS(word_finish(b));
        text += blanks;
        letters = strcspn(text, " \t\r\n");
        if (letters > 0)
            PASS(word_put(b, text, letters));
        text += letters;
    }
    return STATUS_OK;
}

/* Gaps have no blanks, so they never divide a word. */
static enum status put_gap(struct word_builder *b, const char *name, size_t length)
{
    const char begin = KEYS_GAP, end = KEYS_GAP_END;
    PASS(word_put(b, &begin, 1));
    PASS(word_put(b, name, length));
    return word_put(b, &end, 1);
}

static enum status expand_into(struct word_builder *b, const char *raw, size_t length);

/* "A * B" between $(( and )): names without a $ are variables too. */
static enum status put_arithmetic(struct word_builder *b, const char *raw, size_t length)
{
    enum status st;
    const char *text;
    char number[64];
    struct word_builder sum = {.s = b->s};
    TRY(shell_join(b->s, raw, length, &text));
    if (strchr(text, KEYS_GAP)) {
        st = word_put_value(b, text);
        goto out;
    }
    for (const char *at = text; *at;) {
        size_t name = isalpha((unsigned char)*at) || *at == '_' ? strcspn(at, " \t\n+-*/%()") : 0;
        struct shell_variable *v = name ? shell_find(b->s, at, name) : NULL;
        if (name && (!v || v->value.n == 0)) {
            st = put_gap(b, at, name);
            goto out;
        }
        TRY(word_put(&sum, name ? v->value.word[0] : at, name ? strlen(v->value.word[0]) : 1));
        at += name ? name : 1;
    }
    TRY(word_put(&sum, "", 1));
    struct shell_sum x = {.at = sum.text};
    double value = shell_sum_of(&x);
    x.at += strspn(x.at, " \t\n");
    if (x.failed || *x.at || !(value > -9e15 && value < 9e15)) {
        st = put_gap(b, "(", 1);
        goto out;
    }
    snprintf(number, sizeof number, "%.0f", value);
    st = word_put(b, number, strlen(number));
out:
    free(sum.text);
    return st;
}

/* All items of an array, words of their own, or joined where it is one word anyway. */
static enum status put_items(struct word_builder *b, const struct shell_words *value, bool each)
{
    for (size_t i = 0; i < value->n; i++) {
        if (i > 0 && each && !b->whole)
            PASS(word_finish(b));
        else if (i > 0)
            PASS(word_put(b, " ", 1));
        PASS(word_put_value(b, value->word[i]));
        b->began |= each && b->quoted;
    }
    return STATUS_OK;
}

/* ${NAME...}, without its braces. */
static enum status put_braces(struct word_builder *b, const char *raw, size_t length)
{
    const char *end = raw + length, *at = raw;
    bool count = length > 1 && *at == '#';
    at += count;
    const char *name = at;
    while (at < end && (isalnum((unsigned char)*at) || *at == '_'))
        at++;
    if (at == name && at < end && strchr("@*", *at))
        at++;
    size_t letters = (size_t)(at - name);
    struct shell_variable *v = shell_find(b->s, name, letters);
    bool all = false;
    size_t index = 0;
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        all = at + 1 < end && (at[1] == '@' || at[1] == '*');
        index = all ? 0 : (size_t)strtoul(at + 1, NULL, 10);
        at = close ? close + 1 : end;
    }
    bool set = v && (all || index < v->value.n);
    if (count) {
        char number[32];
        snprintf(number, sizeof number, "%zu", v ? v->value.n : 0);
        return word_put(b, number, strlen(number));
    }
    bool colon = at < end && *at == ':';
    const char *sign = at + colon;
    bool empty = !set || (colon && (v->value.n == 0 || (!all && !*v->value.word[index])));
    if (sign < end && strchr("-=", *sign) && empty)
        return expand_into(b, sign + 1, (size_t)(end - sign - 1));
    if (sign < end && *sign == '+')
        return empty ? STATUS_OK : expand_into(b, sign + 1, (size_t)(end - sign - 1));
    if (!set && all)
        return STATUS_OK;
    if (!set && letters == 1 && strchr("@*", *name))
        return STATUS_OK; /* arguments of the script, of which there are none */
    if (!set || (at < end && !strchr("-=?", *sign)))
        return put_gap(b, raw, letters + count);
    return all ? put_items(b, &v->value, true) : word_put_value(b, v->value.word[index]);
}

/* What begins with a $ at `at`; *used: its characters. */
static enum status put_dollar(struct word_builder *b, const char *at, const char *end, size_t *used)
{
    const char *stop = shell_sum_skip(at, 0);
    if (!stop || stop > end)
        stop = end;
    *used = (size_t)(stop - at);
    if (at + 1 < end && at[1] == '{')
        return put_braces(b, at + 2, *used > 3 ? *used - 3 : 0);
    if (*used > 5 && !strncmp(at, "$((", 3) && stop[-2] == ')')
        return put_arithmetic(b, at + 3, *used - 5);
    if (at + 1 < end && at[1] == '(')
        return put_gap(b, "(", 1);
    size_t n = 1;
    while (at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '_'))
        n++;
    if (n == 1 && at + 1 < end && strchr("@*#?$!", at[1]))
        n = 2;
    if (n > 1 && isdigit((unsigned char)at[1]))
        n = 2;
    *used = n;
    return n == 1 ? word_put(b, "$", 1) : put_braces(b, at + 1, n - 1);
}

/* Single quotes mean nothing inside double ones. Values are expanded once, except those that stand
 * behind ":-", which are raw text. */
static enum status expand_into(struct word_builder *b, const char *raw, size_t length)
{
    enum status st = STATUS_OK;
    const char *at = raw, *end = raw + length;
    bool quoted = b->quoted;
    if (++b->s->depth > SHELL_DEEP)
        st = error_set(STATUS_PARSE, "%s:%zu: shell variables are nested too deeply",
                       b->s->keys->path, b->s->line);
    while (st == STATUS_OK && at < end) {
        size_t used = 1;
        const char *close = *at == '\'' && !b->quoted ? memchr(at + 1, '\'', (size_t)(end - at - 1))
                            : *at == '`'              ? memchr(at + 1, '`', (size_t)(end - at - 1))
                                                      : NULL;
        if (close) {
            st = *at == '`' ? put_gap(b, "(", 1) : word_put(b, at + 1, (size_t)(close - at - 1));
            used = (size_t)(close - at) + 1;
        } else if (*at == '"') {
            b->quoted = !b->quoted;
            b->began = true;
        } else if (*at == '\\' && at + 1 < end) {
            bool stays = b->quoted && !strchr("$`\"\\\n", at[1]);
            if (at[1] != '\n' || stays)
                st = word_put(b, stays ? at : at + 1, stays ? 2 : 1);
            used = 2;
        } else if (*at == '$') {
            st = put_dollar(b, at, end, &used);
        } else {
            st = word_put(b, at, 1);
        }
        at += used;
    }
    b->quoted = quoted;
    b->s->depth--;
    return st;
}

/* The word that is being built is on the heap, finished ones are in the arena. */
enum status shell_expand(struct shell *s, const char *raw, size_t length, struct shell_words *out)
{
    struct word_builder b = {.s = s, .out = out};
    enum status st = expand_into(&b, raw, length);
    if (st == STATUS_OK)
        st = word_finish(&b);
    free(b.text);
    return st;
}

/* One word even when it is empty, as tests want it. */
enum status shell_join(struct shell *s, const char *raw, size_t length, const char **out)
{
    struct shell_words one = {0};
    struct word_builder b = {.s = s, .out = &one, .whole = true, .began = true};
    enum status st = expand_into(&b, raw, length);
    b.began = true;
    if (st == STATUS_OK)
        st = word_finish(&b);
    free(b.text);
    if (st == STATUS_OK)
        *out = one.word[0];
    return st;
}
