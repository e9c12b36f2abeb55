/* Writes JSON as a stream of events. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/provenance.h"

#ifdef FORELINE_VERSION_H /* made in every build, core/revision.cmake */
#include FORELINE_VERSION_H
#else
#define FORELINE_VERSION "unknown"
#endif

const char foreline_version[] = "foreline " FORELINE_VERSION;

/* A string in double quotes; bytes above 0x7f are UTF-8 and stay. */
static void json_put_escaped(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\u%04x", *p);
        else
            fputc(*p, f);
    fputc('"', f);
}

/* Comma, line break, indentation and key of the next value. */
static void json_begin_value(struct json_writer *w, const char *key)
{
    if (w->depth > 0) {
        if (w->filled[w->depth])
            fputc(',', w->stream);
        if (w->flat == 0)
            fprintf(w->stream, "\n%*s", 2 * w->depth, "");
        else if (w->filled[w->depth])
            fputc(' ', w->stream);
        w->filled[w->depth] = true;
    }
    if (key) {
        json_put_escaped(w->stream, key);
        fputs(": ", w->stream);
    }
}

/* One-line mode begins with the first flat object or array, and ends where that is closed. */
static void open_with(struct json_writer *w, const char *key, bool flat, char opening, char closing)
{
    json_begin_value(w, key);
    fputc(opening, w->stream);
    w->depth++;
    assert(w->depth < JSON_DEPTH);
    w->filled[w->depth] = false;
    w->closing[w->depth] = closing;
    if (flat && w->flat == 0)
        w->flat = w->depth;
}

void json_open_object(struct json_writer *w, const char *key, bool flat)
{
    open_with(w, key, flat, '{', '}');
}

void json_open_array(struct json_writer *w, const char *key, bool flat)
{
    open_with(w, key, flat, '[', ']');
}

/* The bracket that fits what was opened last, on its own line unless one-line mode is on. */
void json_close(struct json_writer *w)
{
    assert(w->depth > 0);
    char closing = w->closing[w->depth];
    bool filled = w->filled[w->depth], flat = w->flat != 0;
    if (w->flat == w->depth)
        w->flat = 0;
    w->depth--;
    if (filled && !flat)
        fprintf(w->stream, "\n%*s", 2 * w->depth, "");
    fputc(closing, w->stream);
    if (w->depth == 0)
        fputc('\n', w->stream);
}

void json_put_string(struct json_writer *w, const char *key, const char *value)
{
    json_begin_value(w, key);
    if (value)
        json_put_escaped(w->stream, value);
    else
        fputs("null", w->stream);
}

/* As many digits as it takes to read the same number again, 15 to 17. */
void json_put_real(struct json_writer *w, const char *key, double value)
{
    char text[40];
    json_begin_value(w, key);
    if (!isfinite(value)) {
        fputs("null", w->stream);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (digits == 17 || strtod(text, NULL) == value) /* 17 always do */
            break;
    }
    fputs(text, w->stream);
}

void json_put_integer(struct json_writer *w, const char *key, int64_t value)
{
    json_begin_value(w, key);
    fprintf(w->stream, "%lld", (long long)value);
}

void json_put_bool(struct json_writer *w, const char *key, bool value)
{
    json_begin_value(w, key);
    fputs(value ? "true" : "false", w->stream);
}

void json_put_reals(struct json_writer *w, const char *key, const double *value, size_t n)
{
    json_open_array(w, key, true);
    for (size_t i = 0; i < n; i++)
        json_put_real(w, NULL, value[i]);
    json_close(w);
}

void json_put_header(struct json_writer *w, const char *format, int version,
                     const struct provenance *p)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "format", format);
    json_put_integer(w, "version", version);
    json_open_object(w, "provenance", true);
    json_put_string(w, "version", p->version);
    json_put_string(w, "command", p->command);
    if (p->host)
        json_put_string(w, "host", p->host);
    json_put_integer(w, "seed", (int64_t)p->seed);
    json_close(w);
}
