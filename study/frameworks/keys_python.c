/* Keyword arguments in Python: registries of configurations, such as torchtitan's.
 *
 *     def llama3_8b() -> Trainer.Config:
 *         spec = model_registry("8B")
 *         return Trainer.Config(model_spec=spec, training=TrainingConfig(steps=1000))
 * becomes "model_spec" = "8B", "training.steps" = "1000". A function may begin with what another
 * one of the file returns and assign to parts of it. Everything else is passed over; nothing is
 * run. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "study/frameworks/keys.h"

/* SEARCHED: bytes that are looked through for functions. */
enum { PATH_MOST = 256, DEEP = 16, LOCALS = 64, STATEMENTS = 4096, SEARCHED = 1 << 28 };

struct python_span {
    const char *text;
    size_t length;
};

struct python_variable {
    struct python_span name, value;
};

struct python {
    struct keys *keys;
    const char *text;
    size_t length, lines, searched;
    uint32_t *line; /* [lines] where each ends */
    size_t locals;
    struct python_variable local[LOCALS];
    size_t statements; /* so far, of all functions */
};

static enum status find_lines(struct python *p)
{
    for (size_t i = 0; i < p->length; i++)
        p->lines += p->text[i] == '\n';
    PASS(ARENA_NEW(&p->keys->memory, p->line, p->lines));
    for (size_t i = 0, n = 0; i < p->length; i++)
        if (p->text[i] == '\n')
            p->line[n++] = (uint32_t)i;
    return STATUS_OK;
}

static int python_ends_before(const void *line, const void *at)
{
    return *(const uint32_t *)line < *(const uint32_t *)at ? -1 : 1;
}

static size_t line_of(const struct python *p, const char *at)
{
    const uint32_t place = (uint32_t)(at - p->text);
    return 1 + array_before(&place, p->line, p->lines, sizeof place, python_ends_before);
}

/* ---- where things end: brackets, quotes and comments respected */

/* Behind one character, a text, a comment or what is in brackets; NULL: it is not closed. */
static const char *python_skip(const char *at, const char *end, int depth)
{
    char c = *at;
    if (depth > DEEP)
        return NULL;
    if (c == '#') {
        while (at < end && *at != '\n')
            at++;
        return at;
    }
    if (c == '"' || c == '\'') {
        bool thrice = end - at > 2 && at[1] == c && at[2] == c;
        for (at += thrice ? 3 : 1; at < end; at++) {
            if (*at == '\\')
                at++;
            else if (*at == c && (!thrice || (end - at > 2 && at[1] == c && at[2] == c)))
                return at + (thrice ? 3 : 1);
        }
        return NULL;
    }
    if (c == '(' || c == '[' || c == '{') {
        char close = c == '(' ? ')' : c == '[' ? ']' : '}';
        for (at++; at && at < end && *at != close;)
            at = python_skip(at, end, depth + 1);
        return at && at < end ? at + 1 : NULL;
    }
    return at + 1;
}

/* Up to an unbracketed `stop`, or the end. */
static const char *python_find(const char *at, const char *end, char stop)
{
    while (at && at < end && *at != stop)
        at = python_skip(at, end, 0);
    return at && at < end ? at : end;
}

/* Without blanks and comments around, and without the comma that ends a last argument. */
static struct python_span python_trim(const char *begin, const char *end)
{
    while (begin < end && (isspace((unsigned char)*begin) || *begin == '#')) {
        if (*begin == '#')
            while (begin < end && *begin != '\n')
                begin++;
        else
            begin++;
    }
    while (end > begin && (isspace((unsigned char)end[-1]) || end[-1] == ','))
        end--;
    return (struct python_span){begin, (size_t)(end - begin)};
}

/* Letters of a name with dots, such as Trainer.Config, that the span begins with. */
static size_t name_letters(struct python_span s)
{
    size_t n = 0;
    while (n < s.length && (isalnum((unsigned char)s.text[n]) || strchr("_.", s.text[n])))
        n++;
    return n;
}

/* ---- values */

static enum status python_emit(struct python *p, struct python_span value, const char *path,
                               int depth);

/* Quotes are taken off, wherever they stand: values are numbers, names or lists of names. */
static enum status python_add_key(struct python *p, const char *path, struct python_span value)
{
    char *text = arena_text_n(&p->keys->memory, value.text, value.length);
    if (!text)
        return STATUS_NOMEM;
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '"' || *c == '\'')
            *c = ' ';
    PASS(keys_charge(p->keys, value.length));
    struct python_span inner = python_trim(text, text + strlen(text));
    text = arena_text_n(&p->keys->memory, inner.text, inner.length);
    return text ? keys_add(p->keys, path, text, line_of(p, value.text)) : STATUS_NOMEM;
}

/* What was said below a path before is no more. */
static void python_forget(struct python *p, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; n > 0 && i < p->keys->n; i++)
        if (!strncmp(p->keys->key[i].name, path, n) && p->keys->key[i].name[n] == '.') {
            p->keys->key[i].text = "none";
            p->keys->key[i].used = true;
        }
}

/* Arguments between the brackets of a call: keywords below the path, the first other one is the
 * path's own value, which else is the name of what is called. */
static enum status emit_call(struct python *p, struct python_span callee, const char *at,
                             const char *end, const char *path, int depth)
{
    char below[PATH_MOST];
    struct python_span own = callee;
    python_forget(p, path);
    for (bool first = true; at < end; first = false) {
        const char *stop = python_find(at, end, ',');
        struct python_span argument = python_trim(at, stop);
        size_t n = name_letters(argument);
        const char *sign = argument.text + n;
        bool keyword = n > 0 && n < argument.length && *sign == '=' && sign[1] != '=';
        if (keyword) {
            snprintf(below, sizeof below, "%s%s%.*s", path, *path ? "." : "",
                     n < 100 ? (int)n : 100, argument.text);
            PASS(python_emit(p, python_trim(sign + 1, argument.text + argument.length), below,
                             depth + 1));
        } else if (first && argument.length > 0) {
            own = argument;
        }
        at = stop < end ? stop + 1 : end;
    }
    if (!*path)
        return STATUS_OK;
    PASS(python_add_key(p, path, own));
    p->keys->key[p->keys->n - 1].used = true; /* its arguments are what counts */
    return STATUS_OK;
}

/* The last assignment to a name counts. */
static const struct python_variable *find_local(const struct python *p, struct python_span name)
{
    for (size_t i = p->locals; i-- > 0;)
        if (p->local[i].name.length == name.length &&
            !memcmp(p->local[i].name.text, name.text, name.length))
            return &p->local[i];
    return NULL;
}

/* A name that was assigned stands for its value, a call for its arguments, all else for itself. */
static enum status python_emit(struct python *p, struct python_span value, const char *path,
                               int depth)
{
    if (depth > DEEP || ++p->statements > STATEMENTS)
        return error_set(STATUS_PARSE, "%s:%zu: values are nested too deeply", p->keys->path,
                         line_of(p, value.text));
    size_t n = name_letters(value);
    const char *end = value.text + value.length;
    const struct python_variable *l = n == value.length ? find_local(p, value) : NULL;
    if (l)
        return python_emit(p, l->value, path, depth + 1);
    bool call = n > 0 && n < value.length && value.text[n] == '(' && end[-1] == ')' &&
                python_skip(value.text + n, end, 0) == end;
    if (call)
        return emit_call(p, (struct python_span){value.text, n}, value.text + n + 1, end - 1, path,
                         depth);
    return *path ? python_add_key(p, path, value) : STATUS_OK;
}

/* ---- functions */

/* The next "def NAME" at the beginning of a line from `at` on; *body: behind its colon. What is in
 * front of the colon ends where another one begins. */
static const char *next_function(const char *at, const char *all, struct python_span *name,
                                 struct python_span *body)
{
    for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, "def ", 4) != 0)
            continue;
        const char *end = all, *next = strstr(at, "\ndef ");
        *name = (struct python_span){at + 4, 0};
        name->length = name_letters((struct python_span){at + 4, (size_t)(all - at) - 4});
        const char *begin = python_find(at + 4, next ? next : end, ':');
        const char *line = strchr(begin, '\n');
        while (line && (isspace((unsigned char)line[1]) || line[1] == '#'))
            line = strchr(line + 1, '\n');
        if (line)
            end = line;
        *body = (struct python_span){begin < end ? begin + 1 : end, 0};
        body->length = (size_t)(end - body->text);
        return at;
    }
    return NULL;
}

/* O(length of the text), once for each call, SEARCHED in all: behind that there are none. */
static bool find_function(struct python *p, struct python_span name, struct python_span *body)
{
    struct python_span found;
    const char *at = p->searched < SEARCHED ? p->text : NULL;
    p->searched += p->length;
    for (; at && (at = next_function(at, p->text + p->length, &found, body)); at += 4)
        if (found.length == name.length && !memcmp(found.text, name.text, name.length))
            return true;
    return false;
}

static enum status run_function(struct python *p, struct python_span body, int depth);

/* "config = llama3_8b()": what that one says. "config.a.b = value". "name = value". */
static enum status python_assign(struct python *p, struct python_span target,
                                 struct python_span value, int depth)
{
    char path[PATH_MOST];
    struct python_span body;
    const char *dot = memchr(target.text, '.', target.length);
    size_t n = name_letters(value);
    bool call = n > 0 && n + 1 < value.length && value.text[n] == '(';
    if (dot) {
        snprintf(path, sizeof path, "%.*s", (int)(target.text + target.length - dot - 1), dot + 1);
        return python_emit(p, value, path, 0);
    }
    if (call && find_function(p, (struct python_span){value.text, n}, &body))
        return run_function(p, body, depth + 1);
    if (p->locals < LOCALS)
        p->local[p->locals++] = (struct python_variable){target, value};
    return STATUS_OK;
}

/* Logical lines of a body; those inside brackets belong together. */
static enum status run_function(struct python *p, struct python_span body, int depth)
{
    const char *at = body.text, *end = body.text + body.length;
    if (depth > DEEP)
        return error_set(STATUS_PARSE, "%s:%zu: function calls are nested too deeply",
                         p->keys->path, line_of(p, at));
    while (at < end) {
        const char *stop = python_find(at, end, '\n');
        struct python_span line = python_trim(at, stop);
        size_t n = name_letters(line);
        const char *sign = line.text + n;
        while (sign < line.text + line.length && *sign == ' ')
            sign++;
        bool assigned =
            n > 0 && sign + 1 < line.text + line.length && *sign == '=' && sign[1] != '=';
        if (++p->statements > STATEMENTS)
            return error_set(STATUS_PARSE, "%s: more than %d statements", p->keys->path,
                             STATEMENTS);
        if (n == 6 && !memcmp(line.text, "return", 6))
            PASS(python_emit(p, python_trim(line.text + 6, line.text + line.length), "", 0));
        else if (assigned)
            PASS(python_assign(p, (struct python_span){line.text, n},
                               python_trim(sign + 1, line.text + line.length), depth));
        at = stop < end ? stop + 1 : end;
    }
    return STATUS_OK;
}

/* The configuration that --set config=NAME asks for, or the only one. */
enum status keys_read_python(struct keys *k, const char *text, size_t length)
{
    struct python p = {.keys = k, .text = text, .length = length};
    struct python_span name, body, only = {NULL, 0};
    char known[512] = "";
    size_t n = 0, used = 0;
    const char *wanted = keys_given(k, "config", 6);
    PASS(find_lines(&p));
    for (const char *at = text; (at = next_function(at, text + length, &name, &body)); at += 4) {
        if (wanted && strlen(wanted) == name.length && !memcmp(wanted, name.text, name.length)) {
            PASS(keys_add(k, "config", wanted, line_of(&p, at)));
            return run_function(&p, body, 0);
        }
        if (*name.text == '_' || body.length == 0 || name.length > 80)
            continue;
        int c = snprintf(known + used, sizeof known - used, "%s%.*s", used ? ", " : "",
                         (int)name.length, name.text);
        used += c > 0 && used + (size_t)c < sizeof known ? (size_t)c : 0;
        known[used] = '\0';
        only = body;
        n++;
    }
    if (wanted || n > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "%s: %s; choose one of its functions with --set config=NAME: %s", k->path,
                         wanted ? "no such configuration" : "several configurations", known);
    return run_function(&p, n == 1 ? only : (struct python_span){text, length}, 0);
}
