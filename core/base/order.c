/* Comparisons of elements by their first members. */
#include "core/base/order.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

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

int order_by_value(const void *a, const void *b)
{
    struct placed {
        double value;
        size_t place;
    } x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x.value < y.value || x.value > y.value)
        return x.value < y.value ? -1 : 1;
    return (x.place > y.place) - (x.place < y.place);
}

/* Number `which` of the element. */
static uint32_t number_of(const char *element, int which)
{
    uint32_t number[2];
    memcpy(number, element, sizeof number);
    return number[which];
}

/* By one of the numbers, from one place to another; before[most + 1] is room. */
static void distribute(const char *from, char *to, size_t n, size_t size, int which, size_t *before,
                       uint32_t most)
{
    memset(before, 0, (most + (size_t)1) * sizeof *before);
    for (size_t i = 0; i < n; i++)
        before[number_of(from + i * size, which) + 1]++;
    for (size_t k = 0; k < most; k++)
        before[k + 1] += before[k];
    for (size_t i = 0; i < n; i++)
        memcpy(to + before[number_of(from + i * size, which)]++ * size, from + i * size, size);
}

enum status order_pairs(void *array, size_t n, size_t size, uint32_t most)
{
    enum status st;
    size_t *before = NULL;
    char *other = NULL;
    TRY(ARRAY_NEW(before, most + (size_t)1));
    TRY((other = array_new(n, size)) ? STATUS_OK : STATUS_NOMEM);
    distribute(array, other, n, size, 1, before, most);
    distribute(other, array, n, size, 0, before, most);
out:
    free(before);
    free(other);
    return st;
}

int order_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
