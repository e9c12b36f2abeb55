/* Sums of fp32 and bf16 numbers on the host. */
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
