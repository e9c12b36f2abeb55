/* Splits a PipeDream graph.txt into nodes and edges, line by line. */
#include "papers/pipedream/pipedream_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/data/model.h"

/* Largest figures that are believed: a minibatch of 30 000 years, 100 TB per op. */
static const double max_ms = 1e15, max_bytes = 1e14;

enum { NUMBER_LIMIT = 63, QUOTE_LIMIT = 80 };

/* The line being parsed. */
struct text_line {
    const char *path;
    size_t number;
};

enum status pipedream_error(const char *path, size_t line, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return error_set(STATUS_PARSE, "%s:%zu: %s", path, line, what);
}

/* How much of a slice a message quotes. */
static int pipedream_text_quoted(struct text_slice s)
{
    return s.length < QUOTE_LIMIT ? (int)s.length : QUOTE_LIMIT;
}

/* Cut `rest` at the first `mark`: *head before it, *rest after it; false when there is none. */
static bool pipedream_text_cut_line(struct text_slice *rest, const char *mark,
                                    struct text_slice *head)
{
    size_t n = strlen(mark);
    const char *at = rest->text, *end = rest->text + rest->length;
    while ((at = memchr(at, mark[0], (size_t)(end - at)))) {
        if ((size_t)(end - at) < n)
            return false;
        if (memcmp(at, mark, n) == 0) {
            *head = (struct text_slice){rest->text, (size_t)(at - rest->text)};
            *rest = (struct text_slice){at + n, (size_t)(end - at) - n};
            return true;
        }
        at++;
    }
    return false;
}

/* Only what strtod() takes of plain decimal numbers: no "inf", "nan" or hexadecimal. */
static enum status pipedream_text_parse_number(const struct text_line *l, const char *field,
                                               struct text_slice s, double max, double *out)
{
    char digits[NUMBER_LIMIT + 1], *end;
    double value = NAN;
    if (s.length > 0 && s.length <= NUMBER_LIMIT) {
        memcpy(digits, s.text, s.length);
        digits[s.length] = '\0';
        if (strspn(digits, "0123456789.eE+-") == s.length) { /* no "inf", "nan", hexadecimal */
            double read = strtod(digits, &end);
            value = *end ? NAN : read;
        }
    }
    if (!(value >= 0 && value <= max))
        return pipedream_error(l->path, l->number, "%s: '%.*s' is not a number from 0 to %g", field,
                               pipedream_text_quoted(s), s.text, max);
    *out = value;
    return STATUS_OK;
}

/* "12.0" or "[12.0; 3.0]", summed. */
static enum status parse_size(const struct text_line *l, const char *field, struct text_slice s,
                              double *out)
{
    if (s.length == 0 || s.text[0] != '[')
        return pipedream_text_parse_number(l, field, s, max_bytes, out);
    if (s.text[s.length - 1] != ']')
        return pipedream_error(l->path, l->number, "%s: no ']' ends '%.*s'", field,
                               pipedream_text_quoted(s), s.text);
    struct text_slice rest = {s.text + 1, s.length - 2}, item;
    double sum = 0;
    for (bool more = true; more;) {
        double value;
        more = pipedream_text_cut_line(&rest, "; ", &item);
        PASS(pipedream_text_parse_number(l, field, more ? item : rest, max_bytes, &value));
        sum += value;
        if (sum > max_bytes)
            return pipedream_error(l->path, l->number, "%s: more than %g bytes", field, max_bytes);
    }
    *out = sum;
    return STATUS_OK;
}

/* Take "field=VALUE" off the front of `rest`, up to ", " or, for the last field, to its end. */
static enum status take_field(const struct text_line *l, const char *field, bool last,
                              struct text_slice *rest, struct text_slice *value)
{
    struct text_slice item = *rest;
    if (!last && !pipedream_text_cut_line(rest, ", ", &item))
        *rest = (struct text_slice){rest->text + rest->length, 0};
    size_t n = strlen(field);
    if (item.length <= n || memcmp(item.text, field, n) != 0 || item.text[n] != '=')
        return pipedream_error(l->path, l->number, "expected '%s=', found '%.*s'", field,
                               pipedream_text_quoted(item), item.text);
    *value = (struct text_slice){item.text + n + 1, item.length - n - 1};
    return STATUS_OK;
}

/* The four costs of a node, in the order in which the profiler writes them. */
static enum status parse_fields(const struct text_line *l, struct text_slice fields,
                                struct pipedream_node *node)
{
    struct text_slice value;
    PASS(take_field(l, "forward_compute_time", false, &fields, &value));
    PASS(pipedream_text_parse_number(l, "forward_compute_time", value, max_ms, &node->forward_ms));
    PASS(take_field(l, "backward_compute_time", false, &fields, &value));
    PASS(
        pipedream_text_parse_number(l, "backward_compute_time", value, max_ms, &node->backward_ms));
    PASS(take_field(l, "activation_size", false, &fields, &value));
    PASS(parse_size(l, "activation_size", value, &node->activation_bytes));
    PASS(take_field(l, "parameter_size", true, &fields, &value));
    PASS(
        pipedream_text_parse_number(l, "parameter_size", value, max_bytes, &node->parameter_bytes));
    return STATUS_OK;
}

/* Names have no blanks: the grammar separates by them. */
static enum status check_id(const struct text_line *l, struct text_slice id)
{
    if (id.length == 0 || id.length > SLICE_LIMIT || memchr(id.text, ' ', id.length))
        return pipedream_error(l->path, l->number,
                               "'%.*s' is not a node name (1 to %d characters, no blanks)",
                               pipedream_text_quoted(id), id.text, SLICE_LIMIT);
    return STATUS_OK;
}

/* The layer's type: what stands before its arguments, "Conv2d" of "Conv2d(3, 64)". */
static enum status shorten_description(const struct text_line *l, struct text_slice *description)
{
    const char *arguments = memchr(description->text, '(', description->length);
    struct text_slice kind = *description;
    if (arguments)
        kind.length = (size_t)(arguments - kind.text);
    while (kind.length > 0 && kind.text[kind.length - 1] == ' ')
        kind.length--;
    if (kind.length == 0 || kind.length > SLICE_LIMIT)
        return pipedream_error(l->path, l->number,
                               "a description starts with a type of 1 to %d characters, not '%.*s'",
                               SLICE_LIMIT, pipedream_text_quoted(*description), description->text);
    *description = kind;
    return STATUS_OK;
}

/* Name, description, costs and, after partitioning, a stage. */
static enum status parse_node(const struct text_line *l, struct text_slice text,
                              struct pipedream_node *out)
{
    struct pipedream_node node = {.line = l->number, .stage = -1};
    struct text_slice fields, value;
    double stage = -1;

    if (!pipedream_text_cut_line(&text, " -- ", &node.id) ||
        !pipedream_text_cut_line(&text, " -- ", &node.description)) {
        return pipedream_error(l->path, l->number,
                               "expected 'name -- description -- forward_compute_time=...', "
                               "found '%.*s'",
                               pipedream_text_quoted(text), text.text);
    }
    PASS(check_id(l, node.id));
    PASS(shorten_description(l, &node.description));
    if (pipedream_text_cut_line(&text, " -- ", &fields)) {
        PASS(take_field(l, "stage_id", true, &text, &value));
        PASS(pipedream_text_parse_number(l, "stage_id", value, MODEL_MAX_OPS, &stage));
        if (stage != floor(stage))
            return pipedream_error(l->path, l->number, "stage_id: %g is not a whole number", stage);
        node.stage = (int64_t)stage;
    } else {
        fields = text;
    }
    PASS(parse_fields(l, fields, &node));
    *out = node;
    return STATUS_OK;
}

/* Two names; which nodes they are is known when all lines have been read. */
static enum status parse_edge(const struct text_line *l, struct text_slice text,
                              struct pipedream_edge *out)
{
    struct pipedream_edge edge = {.line = l->number};
    if (!pipedream_text_cut_line(&text, " -- ", &edge.from_id)) {
        return pipedream_error(l->path, l->number, "expected an edge 'name -- name', found '%.*s'",
                               pipedream_text_quoted(text), text.text);
    }
    edge.to_id = text;
    PASS(check_id(l, edge.from_id));
    PASS(check_id(l, edge.to_id));
    *out = edge;
    return STATUS_OK;
}

static enum status pipedream_text_add_node(const struct text_line *l, struct text_slice text,
                                           struct pipedream_text *t)
{
    if (t->nodes == MODEL_MAX_OPS)
        return pipedream_error(l->path, l->number, "more than %d nodes", MODEL_MAX_OPS);
    enum status st = ARRAY_ROOM(t->node, t->nodes);
    return st == STATUS_OK ? parse_node(l, text, &t->node[t->nodes++]) : st;
}

static enum status pipedream_text_add_edge(const struct text_line *l, struct text_slice text,
                                           struct pipedream_text *t)
{
    if (t->edges == PIPEDREAM_MAX_EDGES)
        return pipedream_error(l->path, l->number, "more than %d edges", PIPEDREAM_MAX_EDGES);
    enum status st = ARRAY_ROOM(t->edge, t->edges);
    return st == STATUS_OK ? parse_edge(l, text, &t->edge[t->edges++]) : st;
}

/* Other bytes would end up in names and messages. */
static enum status check_characters(const struct text_line *l, struct text_slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if (c < 0x20 || c > 0x7e)
            return pipedream_error(l->path, l->number,
                                   "byte 0x%02x at column %zu is not printable ASCII", c, i + 1);
    }
    return STATUS_OK;
}

/* Line by line: a tab begins an edge, anything else a node. */
enum status pipedream_text_parse(const char *path, const char *text, size_t length,
                                 struct pipedream_text *out)
{
    enum status st = STATUS_OK;
    struct pipedream_text t = {.path = path};
    const char *end = text + length;

    for (struct text_line l = {path, 1}; text < end; l.number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct text_slice s = {text, (size_t)((newline ? newline : end) - text)};
        text += s.length + 1;
        if (s.length > 0 && s.text[s.length - 1] == '\r')
            s.length--;
        if (s.length == 0)
            continue;
        bool is_edge = s.text[0] == '\t';
        s.text += is_edge;
        s.length -= is_edge;
        TRY(check_characters(&l, s));
        TRY(is_edge ? pipedream_text_add_edge(&l, s, &t) : pipedream_text_add_node(&l, s, &t));
    }
    MOVE(out, t);
out:
    pipedream_text_free(&t);
    return st;
}

void pipedream_text_free(struct pipedream_text *t)
{
    free(t->node);
    free(t->edge);
    *t = (struct pipedream_text){0};
}
