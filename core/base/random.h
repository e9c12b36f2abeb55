/* random.h - counter-based random numbers: value i of a stream is a function of (key, i) alone.
 *
 * So a parameter's start value and a sample's text do not depend on which rank draws them, in which
 * order. The generator is SplitMix64 used with random access.
 * Source: Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#ifndef CORE_BASE_RANDOM_H
#define CORE_BASE_RANDOM_H

#include <stdint.h>

#ifdef __CUDACC__ /* kernels draw too */
#define RANDOM_INLINE static inline __host__ __device__
#else
#define RANDOM_INLINE static inline
#endif

/* The finaliser of SplitMix64, a bijection of 64 bits in which every input bit changes each output
 * bit with a probability near 1/2. */
RANDOM_INLINE uint64_t random_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The next number of a stream that is drawn in order; any state begins one. */
RANDOM_INLINE uint64_t random_next(uint64_t *state)
{
    return random_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Value number i of the stream `key`. */
RANDOM_INLINE uint64_t random_at(uint64_t key, uint64_t i)
{
    return random_mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* The same as a number in [0, 1), 53 bits. */
RANDOM_INLINE double random_unit(uint64_t key, uint64_t i)
{
    return (double)(random_at(key, i) >> 11) * 0x1p-53;
}

/* Key of the stream number `i` below `key`: random_key(random_key(seed, step), microbatch). */
RANDOM_INLINE uint64_t random_key(uint64_t key, uint64_t i)
{
    return random_at(key ^ UINT64_C(0x6a09e667f3bcc909), i);
}

#endif
