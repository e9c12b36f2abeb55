/* bytes.h - data through a pipe between two processes of the same binary: what goes through is
 * described once, for both directions.
 *
 * Numbers go as they lie in memory, counts stand before arrays, lengths before texts. A function
 * that passes an object calls the same functions whether its bytes are being sent or received:
 *
 *     PASS(bytes_count(b, 1, &t->tiers));
 *     PASS(BYTES_ROOM(b, t->tier, t->tiers));
 *     for (size_t i = 0; i < t->tiers; i++)
 *         PASS(bytes_text(b, &t->tier[i].name));
 *
 * The receiver trusts nothing, since the sender may have been damaged by a foreign library: every
 * count is checked against the bytes that are left before memory is taken. What has been received
 * is in the object at every moment, so that its owner can release it after a failure. Checks of
 * values hold in both directions: what is sent was checked before. */
#ifndef SIM_BYTES_H
#define SIM_BYTES_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"

struct byte_stream {
    FILE *to; /* NULL: receiving */
    const unsigned char *next;
    size_t left;      /* from next on, not received yet */
    const char *what; /* is passed, for messages: "topology" */
};

/* Send what `pass` says of the object to a descriptor, which stays open. STATUS_IO,
 * STATUS_NOMEM. */
enum status bytes_send(const char *what, enum status (*pass)(struct byte_stream *b, void *object),
                       void *object, int fd) MUST_CHECK;
/* Receive all of data[length] into the object, which is {0}, and the caller's to release whatever
 * happens. STATUS_EXTERNAL when the bytes are not what `pass` says, STATUS_NOMEM. */
enum status bytes_receive(const char *what,
                          enum status (*pass)(struct byte_stream *b, void *object), void *object,
                          const unsigned char *data, size_t length) MUST_CHECK;

/* Always returns STATUS_EXTERNAL: only a process that died while it wrote leaves such bytes. */
enum status bytes_broken(const struct byte_stream *b);

/* `size` bytes of *value; a variable as a whole. */
enum status bytes_value(struct byte_stream *b, void *value, size_t size) MUST_CHECK;
#define BYTES_VALUE(b, value) bytes_value((b), &(value), sizeof(value))
/* A number above `least` and finite. */
enum status bytes_above(struct byte_stream *b, double least, double *value) MUST_CHECK;
/* A count of things that take at least `size` bytes each. */
enum status bytes_count(struct byte_stream *b, size_t size, size_t *n) MUST_CHECK;
/* A text that is neither empty nor has a NUL inside; received ones are malloc'd. */
enum status bytes_text(struct byte_stream *b, char **text) MUST_CHECK;
/* array[n] as it lies in memory; `address` is that of the pointer. Received ones are malloc'd. */
enum status bytes_array(struct byte_stream *b, size_t n, size_t size, void *array,
                        void *address) MUST_CHECK;
#define BYTES_ARRAY(b, array, n) bytes_array((b), (n), sizeof *(array), (array), (void *)&(array))
/* Nothing goes through: when receiving, array = n zeroed elements, for members to be passed. */
#define BYTES_ROOM(b, array, n) ((b)->to ? STATUS_OK : ARRAY_NEW(array, n))

#endif
