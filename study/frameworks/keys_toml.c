/* The part of TOML that configurations use: tables, dotted keys, strings, numbers, truth values,
 * arrays and inline tables. Dates and strings of three quotes are refused or passed over as
 * text. */
#include <stdio.h>
#include <string.h>

#include "study/frameworks/keys.h"

enum { PATH_MOST = 512, VALUE_MOST = 65536 };

struct toml {
    struct keys *keys;
    const char *at;
    size_t line;
    char table[PATH_MOST];
};

/* With the line, as all errors of parsers. */
static enum status toml_error(const struct toml *t, const char *what)
{
    return error_set(STATUS_PARSE, "%s:%zu: not valid TOML: %s", t->keys->path, t->line, what);
}

static enum status toml_too_long(const struct toml *t, const char *what, size_t room)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s has more than %zu characters (the limit)",
                     t->keys->path, t->line, what, room - 1);
}

/* Blanks and comments; ends of lines too with `lines`. */
static void toml_skip(struct toml *t, bool lines)
{
    for (;; t->at++) {
        if (*t->at == '#')
            t->at += strcspn(t->at, "\n");
        if (lines && *t->at == '\n')
            t->line++;
        else if (!*t->at || !strchr(" \t\r", *t->at))
            return;
    }
}

/* A quoted text at t->at, copied without its quotes and with its simple escapes. */
static enum status read_quoted(struct toml *t, char *out, size_t room)
{
    char quote = *t->at++;
    size_t n = 0;
    for (; *t->at && *t->at != quote; t->at++) {
        if (*t->at == '\n')
            return toml_error(t, "string is not closed by its quote");
        if (*t->at == '\\' && quote == '"' && t->at[1] && t->at[1] != '\n')
            t->at++;
        if (n + 1 == room)
            return toml_too_long(t, "string", room);
        out[n++] = *t->at;
    }
    if (!*t->at)
        return toml_error(t, "string is not closed by its quote");
    out[n] = '\0';
    t->at++;
    return STATUS_OK;
}

/* "a.b", quoted parts or not, up to one of the `ends`. */
static enum status read_name(struct toml *t, char *out, size_t room, const char *ends)
{
    size_t n = 0;
    for (;;) {
        char part[PATH_MOST];
        size_t letters;
        toml_skip(t, false);
        if (*t->at == '"' || *t->at == '\'') {
            PASS(read_quoted(t, part, sizeof part));
        } else {
            letters = strcspn(t->at, " \t\r\n.=]#\"'");
            if (letters == 0 || letters >= sizeof part)
                return toml_error(t, "expected a key");
            memcpy(part, t->at, letters);
            part[letters] = '\0';
            t->at += letters;
        }
        int k = snprintf(out + n, room - n, "%s%s", n ? "." : "", part);
        if (k < 0 || n + (size_t)k >= room)
            return toml_too_long(t, "key", room);
        n += (size_t)k;
        toml_skip(t, false);
        if (*t->at && strchr(ends, *t->at))
            return STATUS_OK;
        if (*t->at != '.')
            return toml_error(t, "expected '.' or the end of a key");
        t->at++;
    }
}

/* An array or an inline table as the text that it is, comments and ends of lines apart. */
static enum status read_nested(struct toml *t, char *out, size_t room)
{
    size_t n = 0;
    int open = 0;
    do {
        toml_skip(t, true);
        char c = *t->at, text[1024];
        if (c == '\n') {
            t->at++;
            continue;
        }
        if (!c)
            return toml_error(t, "array is not closed by ']'");
        open += (c == '[' || c == '{') - (c == ']' || c == '}');
        if (c == '"' || c == '\'') {
            PASS(read_quoted(t, text, sizeof text));
        } else {
            text[0] = c;
            text[1] = '\0';
            t->at++;
        }
        bool outer = open == 0 || (open == 1 && (c == '[' || c == '{')); /* the outermost pair */
        int k = outer ? 0 : snprintf(out + n, room - n, "%s", text);
        if (k < 0 || n + (size_t)k >= room)
            return toml_too_long(t, "array", room);
        n += (size_t)k;
    } while (open > 0);
    out[n] = '\0';
    return STATUS_OK;
}

/* Numbers and truth values end at a blank or a comment and stay as they are written. */
static enum status toml_read_value(struct toml *t, char *out, size_t room)
{
    toml_skip(t, false);
    if (!strncmp(t->at, "\"\"\"", 3) || !strncmp(t->at, "'''", 3)) {
        char quotes[4] = {*t->at, *t->at, *t->at, '\0'};
        const char *end = strstr(t->at + 3, quotes);
        if (!end || (size_t)(end - t->at) >= room)
            return end ? toml_too_long(t, "string", room - 3)
                       : toml_error(t, "string of several lines is not closed");
        for (const char *c = t->at; c < end; c++)
            t->line += *c == '\n';
        snprintf(out, room, "%.*s", (int)(end - t->at - 3), t->at + 3);
        t->at = end + 3;
        return STATUS_OK;
    }
    if (*t->at == '"' || *t->at == '\'')
        return read_quoted(t, out, room);
    if (*t->at == '[' || *t->at == '{')
        return read_nested(t, out, room);
    size_t n = strcspn(t->at, " \t\r\n#");
    if (n == 0 || n >= room)
        return toml_error(t, "expected a value");
    memcpy(out, t->at, n);
    out[n] = '\0';
    t->at += n;
    return STATUS_OK;
}

/* [table], [[table]] or key = value. */
static enum status toml_read_line(struct toml *t)
{
    char name[PATH_MOST], path[2 * PATH_MOST + 2], value[VALUE_MOST];
    if (*t->at == '[') {
        bool twice = t->at[1] == '[';
        t->at += 1 + twice;
        PASS(read_name(t, t->table, sizeof t->table, "]"));
        t->at += 1 + (twice && t->at[1] == ']');
    } else {
        size_t line = t->line;
        PASS(read_name(t, name, sizeof name, "="));
        t->at++;
        PASS(toml_read_value(t, value, sizeof value));
        snprintf(path, sizeof path, "%s%s%s", t->table, *t->table ? "." : "", name);
        PASS(keys_add(t->keys, path, value, line));
    }
    toml_skip(t, false);
    return !*t->at || *t->at == '\n' ? STATUS_OK : toml_error(t, "unexpected text after the value");
}

/* A line is a table, a key or empty; values may go over several. */
enum status keys_read_toml(struct keys *k, const char *text, size_t length)
{
    struct toml t = {.keys = k, .at = text, .line = 1};
    (void)length;
    for (;;) {
        toml_skip(&t, true);
        if (!*t.at)
            return STATUS_OK;
        if (*t.at == '\n')
            t.at++;
        else
            PASS(toml_read_line(&t));
    }
}
