/* Comparisons of elements by their first members. */
#include "core/base/order.h"

#include <stdint.h>
#include <string.h>

int order_by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Copied, as the two are members of a struct and not an array. */
int order_by_pair(const void *a, const void *b)
{
    uint32_t x[2], y[2];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    return x[0] != y[0] ? order_by_id(&x[0], &y[0]) : order_by_id(&x[1], &y[1]);
}

int order_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
