/* array.h - allocation with its error message in one line, growing lists, and arenas.
 *
 * Arrays are released with free(), arenas as a whole. Sizes that overflow count as memory that is
 * not there: STATUS_NOMEM, with a message that says how much was wanted. */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* array = n zeroed elements; n may be 0, and the array is never NULL on success.
 *
 *     TRY(ARRAY_NEW(s.at, p->ranks + 1));
 */
#define ARRAY_NEW(array, n) (((array) = array_new((n), sizeof *(array))) ? STATUS_OK : STATUS_NOMEM)

/* array = a copy of the n elements at `from`. */
#define ARRAY_COPY(array, from, n)                                                                 \
    (((array) = array_copy((from), (n), sizeof *(array))) ? STATUS_OK : STATUS_NOMEM)

/* Room for element number n, zeroed, in an array of n that has only ever grown by this: capacities
 * are powers of two, so no field for them is needed. The array is untouched on failure.
 *
 *     TRY(ARRAY_ROOM(list->item, list->n));
 *     list->item[list->n++] = item;
 */
#define ARRAY_ROOM(array, n)                                                                       \
    (array_is_full(n) ? array_grow((array), (n), sizeof *(array), (void *)&(array)) : STATUS_OK)

/* Room for n elements in all, in an array that has its capacity beside it in `room`, which doubles
 * at least: for arrays that also shrink, or grow by many at once. What is new is not zeroed,
 * nothing is touched on failure.
 *
 *     PASS(ARRAY_RESERVE(b->data, b->n + more, b->room));
 */
#define ARRAY_RESERVE(array, n, room)                                                              \
    ((n) > (room) ? array_reserve((array), (n), sizeof *(array), &(room), (void *)&(array))        \
                  : STATUS_OK)

/* n zeroed elements of `size` bytes; NULL with the message set. */
void *array_new(size_t n, size_t size);
void *array_copy(const void *from, size_t n, size_t size);

static inline int array_is_full(size_t n)
{
    return (n & (n - 1)) == 0;
}

/* Behind ARRAY_ROOM(): the array moves to twice its capacity; `address` is that of the pointer. */
enum status array_grow(void *array, size_t n, size_t size, void *address) MUST_CHECK;
/* Behind ARRAY_RESERVE(), for n > *room. */
enum status array_reserve(void *array, size_t n, size_t size, size_t *room,
                          void *address) MUST_CHECK;

/* How many of the n elements, which are sorted by `compare`, come before the key: where it stands,
 * or would. O(log n). */
size_t array_before(const void *key, const void *array, size_t n, size_t size,
                    int (*compare)(const void *element, const void *key)) MUST_CHECK;

/* Orders uint32_t, ascending: for qsort(). */
int array_by_number(const void *a, const void *b);

/* Are the n numbers of both arrays equal, one by one? Zeros of both signs are; NaN counts as equal
 * to anything. */
bool array_same_numbers(const double *a, const double *b, size_t n);

/* Many small objects that live and end together, as the texts of one file do. {0} is empty. */
struct arena {
    struct arena_block *last;
};

/* n zeroed elements of `size` bytes, aligned for any type; NULL with the message set. */
void *arena_new(struct arena *a, size_t n, size_t size);
/* array = n zeroed elements out of the arena *a, a status as of ARRAY_NEW(). */
#define ARENA_NEW(a, array, n)                                                                     \
    (((array) = arena_new((a), (n), sizeof *(array))) ? STATUS_OK : STATUS_NOMEM)
/* A copy of a text, or of its first `length` bytes, ended with a NUL; NULL with the message set. */
char *arena_text(struct arena *a, const char *text);
char *arena_text_n(struct arena *a, const char *text, size_t length);
/* ARRAY_ROOM() for an array that lives in an arena; its smaller copies stay there too. */
#define ARENA_ROOM(arena, array, n)                                                                \
    (array_is_full(n) ? arena_grow((arena), (array), (n), sizeof *(array), (void *)&(array))       \
                      : STATUS_OK)
enum status arena_grow(struct arena *a, const void *array, size_t n, size_t size,
                       void *address) MUST_CHECK;
/* Release everything that came from the arena and leave {0}. */
void arena_free(struct arena *a);

#endif
