/* Reductions of fp32 and bf16 numbers on the host. */
#include "exec/element.h"

void element_add(enum element e, void *y, const void *x, size_t n)
{
    if (e == ELEMENT_FP32) {
        float *to = y;
        const float *more = x;
        for (size_t i = 0; i < n; i++)
            to[i] += more[i];
    } else {
        uint16_t *to = y;
        const uint16_t *more = x;
        for (size_t i = 0; i < n; i++)
            to[i] = element_narrow(element_widen(to[i]) + element_widen(more[i]));
    }
}

static float get(enum element e, const void *data, size_t i)
{
    return e == ELEMENT_FP32 ? ((const float *)data)[i]
                             : element_widen(((const uint16_t *)data)[i]);
}

static void put(enum element e, void *data, size_t i, float x)
{
    if (e == ELEMENT_FP32)
        ((float *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = element_narrow(x);
}

void element_reduce(enum element e, enum op_reduction how, void *y, const void *x, size_t n)
{
    if (how == REDUCTION_SUM || how == REDUCTION_AVERAGE) {
        element_add(e, y, x, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float a = get(e, y, i), b = get(e, x, i);
        bool other = isnan(b) || (how == REDUCTION_MIN ? b < a : b > a);
        put(e, y, i, other && !isnan(a) ? b : a);
    }
}

void element_end(enum element e, enum op_reduction how, void *y, size_t n, size_t members)
{
    for (size_t i = 0; how == REDUCTION_AVERAGE && i < n; i++)
        put(e, y, i, get(e, y, i) / (float)members);
}
