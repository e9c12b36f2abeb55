/* Sums of fp32 and bf16 numbers on the host. bf16 is the upper half of an fp32. */
#include "exec/element.h"

#include <math.h>
#include <string.h>

static float widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* What is lost is more than half, or half and the rest is odd: round up. The carry may make it
 * infinite, as it should. */
static uint16_t narrow(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, even if all that is kept of it were zero */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

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
            to[i] = narrow(widen(to[i]) + widen(more[i]));
    }
}
