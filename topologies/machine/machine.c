/* The graph of a machine: parts, links, notes and names, and the table of formats. */
#include "topologies/machine/machine.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "topologies/machine/program.h"

enum { NOTE = 400, MESSAGE = 1024, HOSTLIST_DIGITS = 9 };

const struct machine_format *const machine_formats[] = {
#define MEASURED(name)
#define MACHINE(name) &machine_##name,
#include "topologies/importers.def"
#undef MACHINE
#undef MEASURED
};
const size_t machine_formats_n = sizeof machine_formats / sizeof *machine_formats;

void machine_free(struct machine *m)
{
    if (m->inside)
        machine_free(m->inside);
    free(m->inside);
    arena_free(&m->arena);
    for (size_t k = 0; k < NAMES; k++) {
        interner_free(&m->name[k]);
        free(m->named[k]);
    }
    free(m->part);
    free(m->link);
    *m = (struct machine){0};
}

/* Texts of files may have line breaks, and messages do not. */
static void blank_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

/* The fault that was found, in one line that begins with the file. */
static enum status one_line(const char *path)
{
    char text[MESSAGE];
    bool named = !strncmp(error_message(), path, strlen(path));
    snprintf(text, sizeof text, "%s%s%s", named ? "" : path, named ? "" : ": ", error_message());
    blank_controls(text);
    return error_set(STATUS_PARSE, "%s", text);
}

const struct machine_format *machine_recognise(const struct machine_source *s)
{
    for (size_t k = 0; k < machine_formats_n; k++)
        if (machine_formats[k]->recognises(s))
            return machine_formats[k];
    return NULL;
}

enum status machine_parse(const char *path, const char *text, size_t length, struct machine *out)
{
    enum status st = STATUS_OK;
    struct machine m = {0};
    struct machine_source s = {path, text, length};
    const struct machine_format *f = machine_recognise(&s);
    char list[TEXT_LIST];
    if (!f)
        FAIL(STATUS_PARSE,
             "%s: unknown machine format (tables of collectives need --platform P); known: %s",
             path, text_list(machine_formats, machine_formats_n, list));
    m.format = f->name;
    if (!(m.path = arena_text(&m.arena, path)))
        FAIL(STATUS_NOMEM, "out of memory");
    st = f->program ? machine_program_read(f, &s, &m) : f->parse(&s, &m);
    TRY(st == STATUS_PARSE ? one_line(path) : st);
    MOVE(out, m);
out:
    machine_free(&m);
    return st;
}

enum status machine_read(const char *path, struct machine *out)
{
    enum status st;
    char *text = NULL;
    size_t length = 0;
    TRY(file_read_most(path, MOST_MACHINE, &text, &length));
    if (strlen(text) != length)
        FAIL(STATUS_PARSE, "%s: contains a NUL byte, expected a text file", path);
    TRY(machine_parse(path, text, length, out));
out:
    free(text);
    return st;
}

enum status machine_add_part(struct machine *m, enum machine_kind kind, uint32_t node, uint32_t up,
                             const char *name, uint32_t *index)
{
    if (m->parts == MACHINE_PARTS)
        return error_set(STATUS_PARSE,
                         "%s: more than %d nodes, GPUs, CPUs, ports and switches in total", m->path,
                         MACHINE_PARTS);
    PASS(ARRAY_ROOM(m->part, m->parts));
    struct machine_part p = {.kind = kind, .node = node, .up = up};
    if (!(p.name = arena_text(&m->arena, name)))
        return STATUS_NOMEM;
    if (index)
        *index = (uint32_t)m->parts;
    m->part[m->parts++] = p;
    return STATUS_OK;
}

enum status machine_join(struct machine *m, const struct machine_link *link)
{
    if (m->links == MACHINE_LINKS)
        return error_set(STATUS_PARSE, "%s: more than %d links", m->path, MACHINE_LINKS);
    PASS(ARRAY_ROOM(m->link, m->links));
    m->link[m->links++] = *link;
    return STATUS_OK;
}

static const char more_notes[] = "and more of the kind";

static enum status machine_note_text(struct machine *m, struct machine_notes *to,
                                     const char *format, va_list v)
{
    char text[NOTE];
    if (to->n >= MACHINE_NOTES && to->text[MACHINE_NOTES - 1] == more_notes)
        return STATUS_OK; /* a million of them must cost nothing */
    vsnprintf(text, sizeof text, format, v);
    blank_controls(text);
    for (size_t i = 0; i < to->n; i++)
        if (!strcmp(to->text[i], text))
            return STATUS_OK;
    if (to->n >= MACHINE_NOTES) {
        to->text[MACHINE_NOTES - 1] = more_notes;
        return STATUS_OK;
    }
    PASS(ARENA_ROOM(&m->arena, to->text, to->n));
    to->text[to->n] = arena_text(&m->arena, text);
    return to->text[to->n++] ? STATUS_OK : STATUS_NOMEM;
}

enum status machine_assume(struct machine *m, const char *format, ...)
{
    va_list v;
    va_start(v, format);
    enum status st = machine_note_text(m, &m->assumed, format, v);
    va_end(v);
    return st;
}

enum status machine_warn(struct machine *m, const char *format, ...)
{
    va_list v;
    va_start(v, format);
    enum status st = machine_note_text(m, &m->warnings, format, v);
    va_end(v);
    return st;
}

/* ---- texts */

enum status machine_line(struct machine *m, const char **text, size_t *line, char **out)
{
    size_t n = strcspn(*text, "\n"), end = n;
    const char *at = *text;
    while (end > 0 && (at[end - 1] == '\r' || at[end - 1] == ' '))
        end--;
    *text += n + (at[n] == '\n');
    (*line)++;
    *out = arena_text_n(&m->arena, at, end);
    return *out ? STATUS_OK
                : error_set(STATUS_NOMEM, "out of memory for a line of the machine description");
}

enum status machine_set_numa(struct machine *m, uint32_t part, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n == 0 || n > 32 || !isdigit((unsigned char)*text) || strspn(text, "0123456789,-") != n)
        return STATUS_OK;
    m->part[part].numa = arena_text(&m->arena, text);
    return m->part[part].numa ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

const char *machine_at(const struct machine *m, size_t line, char out[MACHINE_AT])
{
    size_t n = (size_t)snprintf(out, MACHINE_AT - 24, "%s", m->path);
    n = n < MACHINE_AT - 25 ? n : MACHINE_AT - 25;
    if (line > 0)
        snprintf(out + n, MACHINE_AT - n, ":%zu", line);
    return out;
}

bool machine_begins(const struct machine_source *s, const char *word, size_t lines)
{
    const char *at = s->text;
    for (; *at && lines > 0; lines--) {
        at += strspn(at, " \t\r\n");
        if (!strncmp(at, word, strlen(word)))
            return true;
        at += strcspn(at, "\n");
    }
    return false;
}

/* ---- names */

uint32_t machine_name_find(const struct machine *m, enum machine_names in, const char *name)
{
    uint32_t k;
    return interned(&m->name[in], name, strlen(name), &k) ? m->named[in][k] : MACHINE_NONE;
}

enum status machine_name_put(struct machine *m, enum machine_names in, const char *name,
                             uint32_t value)
{
    uint32_t k;
    bool fresh;
    PASS(intern(&m->name[in], name, strlen(name), &k, &fresh));
    if (fresh)
        PASS(ARRAY_ROOM(m->named[in], k));
    m->named[in][k] = value;
    return k < MACHINE_NAMES
               ? STATUS_OK
               : error_set(STATUS_PARSE, "the file names more than %d devices, NICs and switches",
                           MACHINE_NAMES);
}

/* ---- lists of hosts */

struct hostlist {
    enum status (*each)(void *to, const char *name);
    void *to;
    size_t names;
};

static enum status machine_expand_range(struct hostlist *h, const char *prefix, size_t n,
                                        const char *rest);

/* One "01-04" of the brackets, which end at `end`. */
static enum status expand_range(struct hostlist *h, const char *prefix, size_t n, const char *range,
                                const char *end)
{
    unsigned long long low, high;
    char name[256];
    size_t digits = strspn(range, "0123456789"), part = strcspn(range, ",]");
    const char *second = range[digits] == '-' ? range + digits + 1 : range;
    size_t digits2 = strspn(second, "0123456789");
    if (digits == 0 || digits > HOSTLIST_DIGITS || digits2 == 0 || digits2 > HOSTLIST_DIGITS ||
        second + digits2 != range + part)
        return error_set(STATUS_PARSE, "got '%.40s', expected a range such as 01-04", range);
    low = strtoull(range, NULL, 10);
    high = strtoull(second, NULL, 10);
    if (high < low || high - low >= MACHINE_NAMES)
        return error_set(STATUS_PARSE,
                         "'%.*s': expected a range of up to %d names, from low to high", (int)part,
                         range, MACHINE_NAMES);
    for (unsigned long long k = low; k <= high; k++) {
        int at = snprintf(name, sizeof name, "%.*s%0*llu", (int)n, prefix, (int)digits, k);
        if (at < 0 || (size_t)at >= sizeof name)
            return error_set(STATUS_PARSE, "name longer than %zu characters", sizeof name - 1);
        PASS(machine_expand_range(h, name, (size_t)at, end + 1));
    }
    return STATUS_OK;
}

/* Prefix of n characters, then the rest of one item, "x[1-2]y[3,4]z". */
static enum status machine_expand_range(struct hostlist *h, const char *prefix, size_t n,
                                        const char *rest)
{
    char name[256];
    size_t plain = strcspn(rest, "[,");
    if (n + plain >= sizeof name)
        return error_set(STATUS_PARSE, "name longer than %zu characters", sizeof name - 1);
    memcpy(name, prefix, n);
    memcpy(name + n, rest, plain);
    name[n + plain] = '\0';
    if (rest[plain] != '[') {
        if (++h->names > MACHINE_NAMES)
            return error_set(STATUS_PARSE, "the list has more than %d names", MACHINE_NAMES);
        return h->each(h->to, name);
    }
    const char *range = rest + plain + 1, *end = strchr(range, ']');
    if (!end || end == range) /* without a range there would be no name to count */
        return error_set(STATUS_PARSE, "'%.40s': missing %s", rest, end ? "range in '[]'" : "']'");
    for (; range < end; range += strcspn(range, ",]") + 1)
        PASS(expand_range(h, name, n + plain, range, end));
    return STATUS_OK;
}

enum status machine_hostlist(const char *text, enum status (*each)(void *to, const char *name),
                             void *to)
{
    struct hostlist h = {each, to, 0};
    while (*text) {
        size_t n = 0;
        int depth = 0;
        for (; text[n] && (text[n] != ',' || depth > 0); n++)
            depth += text[n] == '[' ? 1 : text[n] == ']' ? -1 : 0;
        if (n > 0)
            PASS(machine_expand_range(&h, "", 0, text));
        text += n + (text[n] == ',');
    }
    return STATUS_OK;
}
