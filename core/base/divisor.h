/* divisor.h - greatest common divisors. */
#ifndef CORE_BASE_DIVISOR_H
#define CORE_BASE_DIVISOR_H

#include <stdint.h>

/* Euclid's algorithm; 0 divides nothing, so that of 0 and b it is b. */
static inline uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
