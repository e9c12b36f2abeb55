/* Sending through stdio, which remembers a failed write until ferror(); receiving from memory. */
#include "sim/bytes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"

enum status bytes_broken(const struct byte_stream *b)
{
    return error_set(STATUS_EXTERNAL, "SimGrid's process returned an invalid %s", b->what);
}

enum status bytes_send(const char *what, enum status (*pass)(struct byte_stream *b, void *object),
                       void *object, int fd)
{
    struct byte_stream b = {.to = fdopen(dup(fd), "wb"), .what = what};
    if (!b.to)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    enum status st = pass(&b, object);
    bool failed = ferror(b.to);
    if (fclose(b.to) != 0 || failed)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    return st;
}

enum status bytes_receive(const char *what,
                          enum status (*pass)(struct byte_stream *b, void *object), void *object,
                          const unsigned char *data, size_t length)
{
    struct byte_stream b = {.next = data, .left = length, .what = what};
    PASS(pass(&b, object));
    return b.left == 0 ? STATUS_OK : bytes_broken(&b);
}

enum status bytes_value(struct byte_stream *b, void *value, size_t size)
{
    if (size == 0)
        return STATUS_OK; /* value may be NULL then */
    if (b->to) {
        fwrite(value, 1, size, b->to);
        return STATUS_OK;
    }
    if (size > b->left)
        return bytes_broken(b);
    memcpy(value, b->next, size);
    b->next += size;
    b->left -= size;
    return STATUS_OK;
}

enum status bytes_above(struct byte_stream *b, double least, double *value)
{
    PASS(BYTES_VALUE(b, *value));
    return *value > least && isfinite(*value) ? STATUS_OK : bytes_broken(b);
}

enum status bytes_count(struct byte_stream *b, size_t size, size_t *n)
{
    size_t count = *n;
    PASS(BYTES_VALUE(b, count));
    if (!b->to && count > b->left / size)
        return bytes_broken(b);
    *n = count;
    return STATUS_OK;
}

/* A byte more than is asked for, which is the NUL of texts. */
enum status bytes_array(struct byte_stream *b, size_t n, size_t size, void *array, void *address)
{
    if (!b->to) {
        if (n > b->left / size)
            return bytes_broken(b);
        if (!(array = array_new(n * size + 1, 1)))
            return STATUS_NOMEM;
        memcpy(address, &array, sizeof array);
    }
    return bytes_value(b, array, n * size);
}

enum status bytes_text(struct byte_stream *b, char **text)
{
    size_t n = b->to ? strlen(*text) : 0;
    PASS(bytes_count(b, 1, &n));
    PASS(BYTES_ARRAY(b, *text, n));
    return n > 0 && strlen(*text) == n ? STATUS_OK : bytes_broken(b);
}
