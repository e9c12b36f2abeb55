/* A pull parser of JSON: one token a call. */
#include "measured/tokens.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/limit.h"

enum { NONE = -1 };

enum status tokens_error(const struct tokens *s, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return error_set(STATUS_PARSE, "%s:%zu: %s", s->bytes->path, s->bytes->line, what);
}

/* The next byte stays where it is; NONE at the end. */
static inline enum status peek(struct bytes *b, int *out)
{
    if (b->at == b->end) {
        PASS(bytes_more(b));
        if (b->end == 0) {
            *out = NONE;
            return STATUS_OK;
        }
    }
    *out = b->piece[b->at];
    return STATUS_OK;
}

static enum status pass_all_blanks(struct bytes *b, int *next)
{
    do {
        const unsigned char *at = b->piece + b->at, *end = b->piece + b->end;
        size_t lines = 0;
        for (; at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'); at++)
            lines += *at == '\n';
        b->line += lines;
        b->at = (size_t)(at - b->piece);
        if (at < end) {
            *next = *at;
            return STATUS_OK;
        }
        PASS(peek(b, next));
    } while (*next != NONE);
    return STATUS_OK;
}

static inline enum status pass_blanks(struct bytes *b, int *next)
{
    if (b->at == b->end || b->piece[b->at] <= ' ')
        return pass_all_blanks(b, next);
    *next = b->piece[b->at];
    return STATUS_OK;
}

static void tokens_keep_letter(struct tokens *s, int letter)
{
    if (s->length + 1 < sizeof s->text)
        s->text[s->length++] = (char)letter;
}

/* What is there of a text up to a quote, an escape or a control character. */
static void keep_plain(struct tokens *s)
{
    struct bytes *b = s->bytes;
    const unsigned char *from = b->piece + b->at, *to = from, *end = b->piece + b->end;
    while (to < end && *to != '"' && *to != '\\' && *to >= 0x20)
        to++;
    size_t n = (size_t)(to - from), room = sizeof s->text - 1 - s->length;
    memcpy(s->text + s->length, from, n < room ? n : room);
    s->length += n < room ? n : room;
    b->at += n;
}

/* Behind the opening quote. */
static enum status tokens_take_text(struct tokens *s)
{
    struct bytes *b = s->bytes;
    int c;
    s->length = 0;
    for (;;) {
        keep_plain(s);
        PASS(peek(b, &c));
        if (c == NONE)
            return tokens_error(s, "file is truncated within a string");
        if (c < 0x20)
            return tokens_error(s, "control character in a string");
        b->at++;
        if (c == '"')
            break;
        if (c == '\\') {
            PASS(peek(b, &c));
            if (c == NONE || !strchr("\"\\/bfnrtu", c))
                return tokens_error(s, "unknown escape in a string");
            b->at++;
            if (!strchr("\"\\/", c))
                tokens_keep_letter(s, '\\');
        }
        tokens_keep_letter(s, c);
    }
    s->text[s->length] = '\0';
    return STATUS_OK;
}

static inline bool in_word(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

/* Numbers and words, up to what cannot be in one. */
static enum status take_word(struct tokens *s, enum token *out)
{
    /* The second row is no JSON, but what old profilers write. */
    static const char *const word[] = {"true", "false", "null",     "NaN",  "nan",
                                       "-nan", "inf",   "Infinity", "-inf", "-Infinity"};
    struct bytes *b = s->bytes;
    int c;
    size_t n;
    s->length = 0;
    do {
        PASS(peek(b, &c));
        for (n = 0; b->at + n < b->end && in_word(b->piece[b->at + n]); n++) {
        }
        if (n >= sizeof s->text - s->length)
            return tokens_error(s, "number of more than %zu characters", sizeof s->text - 1);
        memcpy(s->text + s->length, b->piece + b->at, n);
        s->length += n;
        b->at += n;
    } while (n > 0 && b->at == b->end);
    s->text[s->length] = '\0';
    const char *digit = s->text + (*s->text == '-');
    *out = TOKEN_NUMBER;
    if (*digit >= '0' && *digit <= '9')
        return STATUS_OK;
    *out = TOKEN_WORD;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strcmp(s->text, word[i]) == 0)
            return STATUS_OK;
    return s->length > 0 ? tokens_error(s, "got '%.20s', expected a value", s->text)
           : c == NONE   ? tokens_error(s, "file is truncated")
                         : tokens_error(s, "got byte 0x%02x, expected a value", c);
}

static enum status open_level(struct tokens *s, bool array)
{
    if (s->depth == TOKEN_DEPTH)
        return tokens_error(s, "nested more than %d deep", TOKEN_DEPTH);
    s->array[s->depth++] = array;
    s->valued = s->keyed = false;
    return STATUS_OK;
}

static void close_level(struct tokens *s)
{
    s->depth--;
    s->valued = s->depth > 0;
    s->ended = s->depth == 0;
    s->keyed = false;
}

static enum status tokens_take_value(struct tokens *s, int c, enum token *out)
{
    struct bytes *b = s->bytes;
    if (c == '{' || c == '[') {
        b->at++;
        *out = c == '[' ? TOKEN_ARRAY : TOKEN_OBJECT;
        return open_level(s, c == '[');
    }
    if (c == '"') {
        b->at++;
        *out = TOKEN_TEXT;
        PASS(tokens_take_text(s));
    } else {
        PASS(take_word(s, out));
    }
    s->valued = s->depth > 0;
    s->ended = s->depth == 0;
    s->keyed = false;
    return STATUS_OK;
}

static enum status take_key(struct tokens *s, int c, enum token *out)
{
    if (c != '"')
        return c == NONE ? tokens_error(s, "file is truncated")
                         : tokens_error(s, "got byte 0x%02x, expected a key", c);
    s->bytes->at++;
    PASS(tokens_take_text(s));
    PASS(pass_blanks(s->bytes, &c));
    if (c != ':')
        return tokens_error(s, "expected ':' after key '%.40s'", s->text);
    s->bytes->at++;
    s->valued = false;
    s->keyed = true;
    *out = TOKEN_KEY;
    return STATUS_OK;
}

/* The limit is asked for at the first token. */
static enum status allow_more(struct tokens *s)
{
    char more[LIMIT_MORE];
    size_t most = (size_t)limit_size(MOST_EVENTS) * TOKEN_OF_EVENT;
    if (s->most < most) {
        s->most = most;
        return STATUS_OK;
    }
    return tokens_error(s, "more than %zu values%s", most, limit_more(LIMIT_size, more));
}

enum status tokens_next(struct tokens *s, enum token *out)
{
    struct bytes *b = s->bytes;
    int c;
    if (s->tokens++ == TOKEN_MOST)
        return tokens_error(s, "more than %d values in one array or object", TOKEN_MOST);
    if (s->all++ == s->most)
        PASS(allow_more(s));
    PASS(pass_blanks(b, &c));
    if (s->ended) {
        *out = TOKEN_END;
        return c == NONE ? STATUS_OK : tokens_error(s, "text after the end of the JSON value");
    }
    bool array = s->depth > 0 && s->array[s->depth - 1];
    if (s->depth > 0 && !s->keyed && c == (array ? ']' : '}')) {
        b->at++;
        close_level(s);
        *out = array ? TOKEN_ARRAY_END : TOKEN_OBJECT_END;
        return STATUS_OK;
    }
    if (s->valued) {
        if (c != ',')
            return c == NONE
                       ? tokens_error(s, "file is truncated")
                       : tokens_error(s, "got byte 0x%02x, expected ',' or a closing bracket", c);
        b->at++;
        PASS(pass_blanks(b, &c));
        s->valued = false;
    }
    if (s->depth > 0 && !array && !s->keyed)
        return take_key(s, c, out);
    return tokens_take_value(s, c, out);
}

enum status tokens_skip(struct tokens *s, enum token first)
{
    int outside = s->depth - 1;
    enum token t;
    if (first == TOKEN_KEY)
        PASS(tokens_next(s, &first));
    if (first != TOKEN_OBJECT && first != TOKEN_ARRAY)
        return STATUS_OK;
    outside = s->depth - 1;
    while (s->depth > outside)
        PASS(tokens_next(s, &t));
    return STATUS_OK;
}
