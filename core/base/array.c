/* Arrays and arenas over the system's allocator. */
#include "core/base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* At least one element, so that success is never NULL. */
void *array_new(size_t n, size_t size)
{
    void *array = calloc(n ? n : 1, size);
    if (!array)
        error_set(STATUS_NOMEM, "out of memory: %zu x %zu bytes", n, size);
    return array;
}

void *array_copy(const void *from, size_t n, size_t size)
{
    void *array = array_new(n, size);
    if (array && n)
        memcpy(array, from, n * size);
    return array;
}

/* The capacity is n, a power of two or 0, and doubles; what is new is zeroed. The pointer is
 * written through memcpy(), since its type is not known here. */
enum status array_grow(void *array, size_t n, size_t size, void *address)
{
    size_t capacity = n ? 2 * n : 1;
    void *larger =
        capacity <= SIZE_MAX / size && capacity > n ? realloc(array, capacity * size) : NULL;
    if (!larger)
        return error_set(STATUS_NOMEM, "out of memory: %zu x %zu bytes", capacity, size);
    memset((char *)larger + n * size, 0, (capacity - n) * size);
    memcpy(address, &larger, sizeof larger); /* whatever type the pointer has */
    return STATUS_OK;
}

/* At least twice the capacity, so that growing by one element costs O(1) on average. */
enum status array_reserve(void *array, size_t n, size_t size, size_t *room, void *address)
{
    size_t capacity = n > 2 * *room ? n : 2 * *room;
    void *larger = capacity <= SIZE_MAX / size ? realloc(array, capacity * size) : NULL;
    if (!larger)
        return error_set(STATUS_NOMEM, "out of memory: %zu x %zu bytes", capacity, size);
    *room = capacity;
    memcpy(address, &larger, sizeof larger);
    return STATUS_OK;
}

enum { ARENA_BLOCK = 4096 };

size_t array_before(const void *key, const void *array, size_t n, size_t size,
                    int (*compare)(const void *element, const void *key))
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare((const char *)array + middle * size, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int array_by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

bool array_same_numbers(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] < b[i] || a[i] > b[i])
            return false;
    return true;
}

/* Blocks are chained from the last to the first; only the last one has room to give. */
struct arena_block {
    struct arena_block *before;
    size_t used, room; /* of what follows the header */
    max_align_t data[];
};

static struct arena_block *block_with_room(struct arena *a, size_t bytes)
{
    if (a->last && a->last->room - a->last->used >= bytes)
        return a->last;
    size_t room = bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK;
    struct arena_block *b = calloc(1, sizeof *b + room);
    if (b) {
        b->room = room;
        b->before = a->last;
        a->last = b;
    }
    return b;
}

/* Sizes are rounded up to what any type can be aligned to. */
void *arena_new(struct arena *a, size_t n, size_t size)
{
    const size_t grain = sizeof(max_align_t);
    struct arena_block *b = NULL;
    size_t bytes = 0;
    if (n <= (SIZE_MAX / 2) / size) {
        bytes = (n * size + grain - 1) / grain * grain;
        b = block_with_room(a, bytes);
    }
    if (!b) {
        error_set(STATUS_NOMEM, "out of memory: %zu x %zu bytes", n, size);
        return NULL;
    }
    void *at = (char *)b->data + b->used;
    b->used += bytes;
    return at;
}

char *arena_text_n(struct arena *a, const char *text, size_t length)
{
    char *copy = arena_new(a, length + 1, 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

char *arena_text(struct arena *a, const char *text)
{
    return arena_text_n(a, text, strlen(text));
}

enum status arena_grow(struct arena *a, const void *array, size_t n, size_t size, void *address)
{
    void *larger = arena_new(a, n ? 2 * n : 1, size);
    if (!larger)
        return STATUS_NOMEM;
    if (n)
        memcpy(larger, array, n * size);
    memcpy(address, &larger, sizeof larger);
    return STATUS_OK;
}

void arena_free(struct arena *a)
{
    for (struct arena_block *b = a->last, *before; b; b = before) {
        before = b->before;
        free(b);
    }
    *a = (struct arena){0};
}
