/* wire.h - reads the wire format of Protocol Buffers out of memory or a file, without knowing what
 * the messages are.
 *
 * A message is a range of bytes; its fields come one after the other, and a field of bytes is a
 * range itself: a message within, a text, packed numbers. Nothing is copied but what is asked for,
 * so that a file of weights costs a window of 64 KiB. Every length is checked against the range
 * that it is in.
 *
 *     for (struct wire_field f;;) {
 *         PASS(wire_next(&w, &f));
 *         if (f.number == WIRE_END)
 *             break;
 *
 * Source: protobuf.dev/programming-guides/encoding. */
#ifndef MODEL_ONNX_WIRE_H
#define MODEL_ONNX_WIRE_H

#include "core/base/array.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WIRE_END = 0,
    WIRE_WINDOW = 1 << 16,
    WIRE_FIELDS = 1 << 23, /* of all messages that are looked into: a bound on time */
    WIRE_TEXTS = 1 << 26   /* bytes of all texts that are kept: a bound on memory */
};

/* Where the bytes are: in memory[length], or in the file `fd`. */
struct wire_source {
    const char *path; /* for messages */
    const char *memory;
    int fd; /* used where memory is NULL */
    uint64_t length;
    unsigned char *window; /* [WIRE_WINDOW] of the file, from byte `from` on, `filled` of them */
    uint64_t from;
    size_t filled;
    uint64_t fields, texts; /* so far */
};

/* The bytes from `at` up to `end`. */
struct wire {
    struct wire_source *source;
    uint64_t at, end;
};

enum wire_kind { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
    uint32_t number; /* WIRE_END: there is no other */
    enum wire_kind kind;
    uint64_t value;   /* unless it is of bytes */
    struct wire body; /* of bytes; else it is empty */
};

struct wire wire_all(struct wire_source *s);
/* Say what is wrong at the next byte: always returns STATUS_PARSE, "path: byte N: what". */
enum status wire_error(const struct wire *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The next field. STATUS_PARSE, STATUS_IO. */
enum status wire_next(struct wire *w, struct wire_field *f) MUST_CHECK;
/* The next varint, or little-endian number of 1, 2, 4 or 8 bytes, of a range of such. */
enum status wire_varint(struct wire *w, uint64_t *out) MUST_CHECK;
enum status wire_fixed(struct wire *w, size_t bytes, uint64_t *out) MUST_CHECK;
/* Numbers of a repeated field, packed or not, as they come: up to `most` are kept in value[], and
 * all are counted. `bytes` is the width of fixed ones, 0: varints. */
enum status wire_numbers(const struct wire_field *f, size_t bytes, size_t most, int64_t *value,
                         uint64_t *n) MUST_CHECK;
/* A text of at most `most` bytes on one line, without control characters. */
enum status wire_text(const struct wire_field *f, size_t most, struct arena *a,
                      const char **out) MUST_CHECK;

#endif
