/* Reads the wire format of Protocol Buffers. */
#include "model/onnx/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VARINT_BYTES = 10, FIELD_KIND_BITS = 3, LARGEST_FIELD = (1 << 29) - 1 };

struct wire wire_all(struct wire_source *s)
{
    return (struct wire){s, 0, s->length};
}

enum status wire_error(const struct wire *w, const char *fmt, ...)
{
    char what[256];
    va_list list;
    va_start(list, fmt);
    vsnprintf(what, sizeof what, fmt, list);
    va_end(list);
    return error_set(STATUS_PARSE, "%s: byte %llu: %s", w->source->path, (unsigned long long)w->at,
                     what);
}

/* Fill the window from byte `at` on; a file that became shorter is at fault. */
static enum status wire_fill_buffer(const struct wire *w)
{
    struct wire_source *s = w->source;
    s->from = w->at;
    s->filled = 0;
    while (s->filled < WIRE_WINDOW && s->from + s->filled < s->length) {
        ssize_t got = pread(s->fd, s->window + s->filled, WIRE_WINDOW - s->filled,
                            (off_t)(s->from + s->filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(STATUS_IO, "%s: %s", s->path, strerror(errno));
        if (got == 0)
            return wire_error(w, "file was truncated while it was read");
        s->filled += (size_t)got;
    }
    return STATUS_OK;
}

/* The next n <= WIRE_WINDOW bytes, which are then behind. */
static enum status wire_take_bytes(struct wire *w, size_t n, const unsigned char **out)
{
    struct wire_source *s = w->source;
    if (w->end - w->at < n)
        return wire_error(w, "expected %zu more bytes, but only %llu bytes are left", n,
                          (unsigned long long)(w->end - w->at));
    if (s->memory) {
        *out = (const unsigned char *)s->memory + w->at;
    } else {
        if (w->at < s->from || w->at + n > s->from + s->filled)
            PASS(wire_fill_buffer(w));
        *out = s->window + (w->at - s->from);
    }
    w->at += n;
    return STATUS_OK;
}

enum status wire_varint(struct wire *w, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned k = 0; k < VARINT_BYTES; k++) {
        const unsigned char *byte;
        PASS(wire_take_bytes(w, 1, &byte));
        value |= (uint64_t)(*byte & 127) << (7 * k);
        if (!(*byte & 128)) {
            *out = value;
            return STATUS_OK;
        }
    }
    return wire_error(w, "a varint has more than %d bytes", VARINT_BYTES);
}

enum status wire_fixed(struct wire *w, size_t bytes, uint64_t *out)
{
    const unsigned char *byte;
    uint64_t value = 0;
    PASS(wire_take_bytes(w, bytes, &byte));
    for (size_t k = 0; k < bytes; k++)
        value |= (uint64_t)byte[k] << (8 * k);
    *out = value;
    return STATUS_OK;
}

enum status wire_next(struct wire *w, struct wire_field *f)
{
    uint64_t key, length;
    *f = (struct wire_field){.number = WIRE_END, .body = {w->source, w->at, w->at}};
    if (w->at == w->end)
        return STATUS_OK;
    if (++w->source->fields > WIRE_FIELDS)
        return wire_error(w, "more than %d fields", WIRE_FIELDS);
    PASS(wire_varint(w, &key));
    uint64_t number = key >> FIELD_KIND_BITS;
    if (number == WIRE_END || number > LARGEST_FIELD)
        return wire_error(w, "not a protocol buffer: field number %llu",
                          (unsigned long long)number);
    f->number = (uint32_t)number;
    f->kind = (enum wire_kind)(key & 7);
    switch (f->kind) {
    case WIRE_VARINT:
        return wire_varint(w, &f->value);
    case WIRE_FIXED64:
        return wire_fixed(w, 8, &f->value);
    case WIRE_FIXED32:
        return wire_fixed(w, 4, &f->value);
    case WIRE_BYTES:
        PASS(wire_varint(w, &length));
        if (length > w->end - w->at)
            return wire_error(w, "a field has %llu bytes, but only %llu bytes are left",
                              (unsigned long long)length, (unsigned long long)(w->end - w->at));
        f->body = (struct wire){w->source, w->at, w->at + length};
        w->at += length;
        return STATUS_OK;
    }
    return wire_error(w, "not a protocol buffer: field type %u", (unsigned)f->kind);
}

enum status wire_numbers(const struct wire_field *f, size_t bytes, size_t most, int64_t *value,
                         uint64_t *n)
{
    struct wire body = f->body;
    if (f->kind != WIRE_BYTES) { /* one by one */
        if (*n < most)
            value[*n] = (int64_t)f->value;
        (*n)++;
        return STATUS_OK;
    }
    if (bytes > 0 && (body.end - body.at) / bytes > most) { /* too many to be looked at */
        *n += (body.end - body.at) / bytes;
        return STATUS_OK;
    }
    while (body.at < body.end) {
        uint64_t number;
        PASS(bytes > 0 ? wire_fixed(&body, bytes, &number) : wire_varint(&body, &number));
        if (*n < most)
            value[*n] = (int64_t)number;
        (*n)++;
        if (bytes == 0 && *n > most)
            return STATUS_OK; /* more than is kept: how many more does not matter */
    }
    return STATUS_OK;
}

enum status wire_text(const struct wire_field *f, size_t most, struct arena *a, const char **out)
{
    struct wire body = f->body;
    const unsigned char *bytes;
    size_t n = (size_t)(body.end - body.at);
    if (f->kind != WIRE_BYTES || n > most)
        return wire_error(&body, "expected a string of at most %zu bytes", most);
    if ((body.source->texts += n) > WIRE_TEXTS)
        return wire_error(&body, "the names in the file take more than %d bytes", WIRE_TEXTS);
    PASS(wire_take_bytes(&body, n, &bytes));
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < ' ' || bytes[i] == 127)
            return wire_error(&f->body, "a name contains a control character");
    *out = arena_text_n(a, (const char *)bytes, n);
    return *out ? STATUS_OK : STATUS_NOMEM;
}
