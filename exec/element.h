/* element.h - the numbers that collectives sum or gather, and how the host adds them. */
#ifndef EXEC_ELEMENT_H
#define EXEC_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

enum element { ELEMENT_FP32, ELEMENT_BF16 };

static inline size_t element_bytes(enum element e)
{
    return e == ELEMENT_BF16 ? 2 : 4;
}

/* Number i of an array. */
static inline void *element_at(enum element e, const void *data, size_t i)
{
    return (void *)((uintptr_t)data + i * element_bytes(e));
}

/* y += x on the host, n numbers; bf16: each sum is that of fp32, rounded to the nearest, ties to
 * even, as a GPU rounds it. */
void element_add(enum element e, void *y, const void *x, size_t n);

#endif
