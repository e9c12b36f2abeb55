/* Flat lists of keys: reading files into them, finding a key, and what its value means. */
#include "study/frameworks/keys.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { REFERENCES_DEEP = 16, RESULT_MOST = 65536 };

/* ---- the list */

enum status keys_charge(struct keys *k, size_t bytes)
{
    k->bytes += bytes;
    return k->bytes <= KEYS_TEXT_MOST
               ? STATUS_OK
               : error_set(STATUS_PARSE, "%s: values take more than %d bytes", k->path,
                           KEYS_TEXT_MOST);
}

enum status keys_keep(struct keys *k, struct file_text *text, const char **out)
{
    enum status st = file_text_close(text, STATUS_OK);
    *out = st == STATUS_OK ? arena_text(&k->memory, text->text) : "";
    free(text->text);
    return *out ? st : STATUS_NOMEM;
}

/* Names are made alike: options lose their dashes, and parts are joined by "_". */
enum status keys_add(struct keys *k, const char *name, const char *text, size_t line)
{
    if (k->n == KEYS_MOST)
        return error_set(STATUS_PARSE, "%s: more than %d keys", k->path, KEYS_MOST);
    PASS(keys_charge(k, strlen(name) + (text ? strlen(text) : 0)));
    PASS(ARENA_ROOM(&k->memory, k->key, k->n));
    char *plain = arena_text(&k->memory, name), *to = plain;
    char *value = text ? arena_text(&k->memory, text) : NULL;
    if (!plain || (text && !value))
        return STATUS_NOMEM;
    for (const char *from = plain; *from; from++) /* "MODEL_ARGS.--use-bf16": MODEL_ARGS.use_bf16 */
        if (*from != '-')
            *to++ = *from;
        else if (to > plain && to[-1] != '.')
            *to++ = '_';
    *to = '\0';
    k->key[k->n++] = (struct framework_key){.name = plain, .text = value, .line = line};
    return STATUS_OK;
}

/* Of several --set of one name the first counts. */
const char *keys_given(const struct keys *k, const char *name, size_t length)
{
    for (size_t i = 0; i < k->sets; i++)
        if (!strncmp(k->set[i], name, length) && k->set[i][length] == '=') {
            k->asked[i] = true;
            return k->set[i] + length + 1;
        }
    return NULL;
}

/* Their keys are the last ones. */
const char *keys_unused(const struct keys *k, size_t *at)
{
    for (; *at < k->sets; ++*at) {
        const struct framework_key *key = &k->key[k->n - k->sets + *at];
        if (!k->asked[*at] && !key->used) {
            ++*at;
            return key->name;
        }
    }
    return NULL;
}

enum status keys_wrong(const struct keys *k, const struct framework_key *key, enum status st,
                       const char *fmt, ...)
{
    char why[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (key->line == 0)
        return error_set(st, "--set: %s is %s", key->name, why);
    return error_set(st, "%s:%zu: %s is %s", k->path, key->line, key->name, why);
}

/* Does the path end with the name, at the beginning of a part? */
static bool keys_ends_with(const char *path, const char *name)
{
    size_t whole = strlen(path), part = strlen(name);
    return part <= whole && !strcmp(path + whole - part, name) &&
           (part == whole || path[whole - part - 1] == '.');
}

/* How YAML, JSON, Python and people write that there is no value; "auto" is one that somebody else
 * finds. */
static bool is_null(const char *text)
{
    static const char *const nulls[] = {"", "null", "none", "~", "nan", "auto"};
    for (size_t i = 0; text && i < sizeof nulls / sizeof *nulls; i++)
        if (!strcasecmp(text, nulls[i]))
            return true;
    return false;
}

struct framework_key *keys_find(struct keys *k, const char *name)
{
    struct framework_key *found = NULL;
    for (size_t i = 0; i < k->n; i++)
        if (keys_ends_with(k->key[i].name, name)) {
            found = &k->key[i];
            found->used = true;
        }
    return found && is_null(found->text) ? NULL : found;
}

const char *keys_said(struct keys *k, const char *name)
{
    const struct framework_key *key = keys_find(k, name);
    return key && key->text ? key->text : "";
}

bool keys_has(const struct keys *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++)
        if (keys_ends_with(k->key[i].name, name))
            return true;
    return false;
}

/* ---- references between values, as OmegaConf has them */

/* What "NAME" or ".NAME" of a value of `key` stands for: of the same map, the whole path, or the
 * end of one, as files are mounted below other names. */
static struct framework_key *referred(struct keys *k, const struct framework_key *key,
                                      const char *name)
{
    char path[512];
    const char *last = strrchr(key->name, '.');
    if (*name == '.') {
        snprintf(path, sizeof path, "%.*s%s", last ? (int)(last - key->name) : 0, key->name,
                 last ? name : name + 1);
        name = path;
    }
    for (size_t i = 0; i < k->n; i++)
        if (!strcmp(k->key[i].name, name))
            return &k->key[i];
    for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
        for (size_t i = 0; i < k->n; i++)
            if (keys_ends_with(k->key[i].name, at))
                return &k->key[i];
    return NULL;
}

static enum status resolve(struct keys *k, const struct framework_key *key, const char *text,
                           int depth, const char **out);

/* "multiply:4, 128" and "divide_floor:9,2" of whole numbers; false: something else. */
static bool keys_compute(const char *text, char *out, size_t size)
{
    double a, b;
    int end = 0;
    bool times = sscanf(text, "multiply: %lf , %lf %n", &a, &b, &end) == 2 && end > 0;
    bool by = !times && sscanf(text, "divide_floor: %lf , %lf %n", &a, &b, &end) == 2 && end > 0;
    if (!(times || by) || text[end] || (by && b == 0) || !(fabs(a) < 1e15) || !(fabs(b) < 1e15))
        return false;
    snprintf(out, size, "%.17g", times ? a * b : floor(a / b));
    return true;
}

/* What one "${...}", without its braces, becomes. */
static enum status resolve_one(struct keys *k, const struct framework_key *key, const char *inner,
                               int depth, const char **out)
{
    char number[64], gap[256];
    PASS(resolve(k, key, inner, depth + 1, &inner));
    const char *given = keys_given(k, inner, strlen(inner));
    struct framework_key *to = given ? NULL : referred(k, key, inner);
    if (given) {
        *out = given;
        return STATUS_OK;
    }
    if (to && to != key && to->text) {
        to->used = true;
        return resolve(k, to, to->text, depth + 1, out);
    }
    if (!keys_compute(inner, number, sizeof number)) {
        snprintf(gap, sizeof gap, "%c%.200s%c", KEYS_GAP, inner, KEYS_GAP_END);
        *out = arena_text(&k->memory, gap);
    } else {
        *out = arena_text(&k->memory, number);
    }
    return *out ? keys_charge(k, strlen(*out)) : STATUS_NOMEM;
}

/* The brace that closes the one before `text`; NULL: none. */
static const char *closing(const char *text)
{
    int open = 1;
    for (; *text; text++)
        if ((open += (*text == '{') - (*text == '}')) == 0)
            return text;
    return NULL;
}

/* The text with all references replaced, outermost first; what is in one is resolved before it. */
static enum status resolve(struct keys *k, const struct framework_key *key, const char *text,
                           int depth, const char **out)
{
    const char *open = strstr(text, "${"), *close = open ? closing(open + 2) : NULL, *value, *rest;
    if (!close || k->format != KEYS_TREE) {
        *out = text;
        return STATUS_OK;
    }
    if (depth > REFERENCES_DEEP)
        return keys_wrong(k, key, STATUS_PARSE, "a chain of ${...} references that is too deep");
    const char *inner = arena_text_n(&k->memory, open + 2, (size_t)(close - open - 2));
    if (!inner)
        return STATUS_NOMEM;
    PASS(keys_charge(k, strlen(inner)));
    PASS(resolve_one(k, key, inner, depth, &value));
    PASS(resolve(k, key, close + 1, depth + 1, &rest));
    size_t size = (size_t)(open - text) + strlen(value) + strlen(rest) + 1;
    if (size > RESULT_MOST)
        return keys_wrong(k, key, STATUS_PARSE, "a value of more than %d bytes", RESULT_MOST);
    PASS(keys_charge(k, size));
    char *whole = arena_new(&k->memory, size, 1);
    if (!whole)
        return STATUS_NOMEM;
    snprintf(whole, size, "%.*s%s%s", (int)(open - text), text, value, rest);
    *out = whole;
    return STATUS_OK;
}

/* ---- values */

enum status keys_text(struct keys *k, struct framework_key *key, const char **out)
{
    const char *text = key->text ? key->text : "";
    const char *given = keys_given(k, text, strlen(text)); /* a template's placeholder */
    PASS(resolve(k, key, given ? given : text, 0, &text));
    const char *gap = strchr(text, KEYS_GAP), *end = gap ? strchr(gap, KEYS_GAP_END) : NULL;
    if (gap && end && gap[1] == '(')
        return keys_wrong(
            k, key, STATUS_INVALID,
            "the output of a command, which is not executed; give it with --set %s=VALUE",
            key->name);
    if (gap && end)
        return keys_wrong(
            k, key, STATUS_INVALID,
            "in variable '%.*s', which the file does not set; give it with --set %.*s=VALUE",
            (int)(end - gap - 1), gap + 1, (int)(end - gap - 1), gap + 1);
    *out = text;
    return STATUS_OK;
}

/* Letters of a placeholder: CONFIG_BATCH_SIZE. */
static bool is_placeholder(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n > 1 && !text[n] && !isdigit((unsigned char)*text);
}

/* A product of numbers; "_" may stand between digits. NAN: it is none. */
static double keys_product(const char *text)
{
    char digits[64];
    double value = 1;
    for (;;) {
        size_t n = 0;
        char *end;
        text += strspn(text, " \t(");
        for (; *text && strchr("0123456789._eE+-", *text); text++)
            if (*text != '_' && n + 1 < sizeof digits)
                digits[n++] = *text;
        digits[n] = '\0';
        double factor = strtod(digits, &end);
        if (n == 0 || *end)
            return NAN;
        value *= factor;
        text += strspn(text, " \t)");
        if (!*text)
            return value;
        if (*text++ != '*')
            return NAN;
    }
}

/* Whole numbers up to 1e15, which double holds exactly. */
enum status keys_number(struct keys *k, struct framework_key *key, int64_t *out)
{
    const char *text;
    PASS(keys_text(k, key, &text));
    double value = !strcasecmp(text, "true")    ? 1
                   : !strcasecmp(text, "false") ? 0
                                                : keys_product(text);
    if (is_placeholder(text) && isnan(value))
        return keys_wrong(k, key, STATUS_INVALID,
                          "'%.60s', a placeholder; give its value with --set %.60s=N", text, text);
    if (isnan(value) || value != floor(value) || fabs(value) > 1e15)
        return keys_wrong(k, key, STATUS_PARSE, "'%.60s', expected a whole number", text);
    *out = (int64_t)value;
    return STATUS_OK;
}

/* Scripts have flags without values, files have truth values; both come here. */
enum status keys_flag(struct keys *k, struct framework_key *key, bool *out)
{
    static const char *const no[] = {"false", "no", "off", "0", "none", "null"};
    const char *text = key->text;
    *out = true;
    if (!text || (k->format == KEYS_SHELL && strchr(text, KEYS_GAP)))
        return STATUS_OK; /* what follows a flag in a script is not its value */
    PASS(keys_text(k, key, &text));
    if (is_placeholder(text) && strcasecmp(text, "true") != 0)
        return keys_wrong(k, key, STATUS_INVALID,
                          "'%.60s', a placeholder; give its value with --set %.60s=true or false",
                          text, text);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (!strcasecmp(text, no[i]))
            *out = false;
    return STATUS_OK;
}

/* ---- files */

static bool has_ending(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcasecmp(path + n - m, ending);
}

/* By the file's name, else by how lines of it begin. */
static enum keys_format format_of(const char *path, const char *text)
{
    static const struct {
        const char *ending;
        enum keys_format format;
    } all[] = {{".py", KEYS_PYTHON},   {".toml", KEYS_TOML},  {".sh", KEYS_SHELL},
               {".slurm", KEYS_SHELL}, {".bash", KEYS_SHELL}, {".sbatch", KEYS_SHELL},
               {".sub", KEYS_SHELL},   {".yaml", KEYS_TREE},  {".yml", KEYS_TREE},
               {".json", KEYS_TREE}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (has_ending(path, all[i].ending))
            return all[i].format;
    if (!strncmp(text, "#!", 2) || strstr(text, "\n#SBATCH") || !strncmp(text, "--", 2))
        return KEYS_SHELL;
    if (!strncmp(text, "def ", 4) || strstr(text, "\ndef ") || strstr(text, "\nimport "))
        return KEYS_PYTHON;
    const char *line = text + strspn(text, " \t\r\n");
    while (*line == '#' && (line = strchr(line, '\n')))
        line += strspn(line, " \t\r\n");
    if (line && *line == '[' && strstr(line, "]\n") && strchr(line, '='))
        return KEYS_TOML;
    return KEYS_TREE;
}

/* What --set says comes last, because the last key of a name counts. */
enum status keys_parse(const char *path, const char *text, size_t length, struct keys *k)
{
    static enum status (*const reader[])(struct keys *, const char *, size_t) = {
        [KEYS_SHELL] = keys_read_shell,
        [KEYS_TREE] = keys_read_tree,
        [KEYS_TOML] = keys_read_toml,
        [KEYS_PYTHON] = keys_read_python,
    };
    k->path = path;
    PASS(file_check_size(path, length, MOST_ARGUMENTS));
    if (memchr(text, '\0', length) || memchr(text, KEYS_GAP, length) ||
        memchr(text, KEYS_GAP_END, length))
        return error_set(STATUS_PARSE, "%s: contains control characters, expected a text file",
                         path);
    k->format = format_of(path, text);
    PASS(ARENA_NEW(&k->memory, k->asked, k->sets));
    PASS(reader[k->format](k, text, length));
    for (size_t i = 0; i < k->sets; i++) { /* after the file, so that they stand instead of it */
        size_t name = strcspn(k->set[i], "=");
        char *key = arena_text_n(&k->memory, k->set[i], name);
        if (!key)
            return STATUS_NOMEM;
        PASS(keys_add(k, key, k->set[i] + name + 1, 0));
    }
    return STATUS_OK;
}

/* Several scripts are joined, so that a later one has the variables of an earlier one. */
enum status keys_read(const char *const *path, size_t paths, const char *const *set, size_t sets,
                      struct keys *out)
{
    enum status st = STATUS_OK;
    struct file_text all = {0};
    char *text = NULL;
    size_t length;
    out->set = set;
    out->sets = sets;
    for (size_t i = 0; i < sets; i++)
        if (!strchr(set[i], '=') || set[i][0] == '=')
            return error_set(STATUS_USAGE, "--set: got %s, expected NAME=VALUE", set[i]);
    TRY(file_text_open(&all));
    for (size_t i = 0; i < paths && st == STATUS_OK; i++) {
        st = file_read_most(path[i], MOST_ARGUMENTS, &text, &length);
        if (st == STATUS_OK && fwrite(text, 1, length, all.stream) != length)
            st = error_set(STATUS_NOMEM, "out of memory");
        fputc('\n', all.stream);
        free(text);
        text = NULL;
    }
    TRY(file_text_close(&all, st));
    out->path = path[0];
    TRY(keys_parse(path[0], all.text, all.length, out));
out:
    free(all.text);
    return st;
}

void keys_free(struct keys *k)
{
    arena_free(&k->memory);
    *k = (struct keys){0};
}
