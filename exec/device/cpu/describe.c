/* What a CPU computes with, and how fast beside what its instructions allow. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/array.h"
#include "exec/device/cpu/gemm.h"
#include "exec/hardware.h"

/* CPU seconds of the calling thread: other work on the machine does not count. */
static double describe_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
#include <immintrin.h>
/* Fused multiply-adds in registers: as many chains as hide their latency of four cycles, two begun
 * in each. Returns FLOP. */
enum { CHAINS = 8, ROUNDS = 30000 };

__attribute__((target("avx512f"))) static double multiply_add_512(float out[16])
{
    __m512 a = _mm512_set1_ps(out[0]), b = _mm512_set1_ps(out[1]);
    __m512 s0 = _mm512_set1_ps(0);
    __m512 s1 = _mm512_set1_ps(1);
    __m512 s2 = _mm512_set1_ps(2);
    __m512 s3 = _mm512_set1_ps(3);
    __m512 s4 = _mm512_set1_ps(4);
    __m512 s5 = _mm512_set1_ps(5);
    __m512 s6 = _mm512_set1_ps(6);
    __m512 s7 = _mm512_set1_ps(7);
    for (int r = 0; r < ROUNDS; r++) {
        s0 = _mm512_fmadd_ps(s0, a, b);
        s1 = _mm512_fmadd_ps(s1, a, b);
        s2 = _mm512_fmadd_ps(s2, a, b);
        s3 = _mm512_fmadd_ps(s3, a, b);
        s4 = _mm512_fmadd_ps(s4, a, b);
        s5 = _mm512_fmadd_ps(s5, a, b);
        s6 = _mm512_fmadd_ps(s6, a, b);
        s7 = _mm512_fmadd_ps(s7, a, b);
    }
    s0 = _mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3));
    s4 = _mm512_add_ps(_mm512_add_ps(s4, s5), _mm512_add_ps(s6, s7));
    _mm512_storeu_ps(out, _mm512_add_ps(s0, s4));
    return 2.0 * 16 * CHAINS * ROUNDS;
}

__attribute__((target("avx2,fma"))) static double multiply_add_256(float out[16])
{
    __m256 a = _mm256_set1_ps(out[0]), b = _mm256_set1_ps(out[1]);
    __m256 s0 = _mm256_set1_ps(0);
    __m256 s1 = _mm256_set1_ps(1);
    __m256 s2 = _mm256_set1_ps(2);
    __m256 s3 = _mm256_set1_ps(3);
    __m256 s4 = _mm256_set1_ps(4);
    __m256 s5 = _mm256_set1_ps(5);
    __m256 s6 = _mm256_set1_ps(6);
    __m256 s7 = _mm256_set1_ps(7);
    for (int r = 0; r < ROUNDS; r++) {
        s0 = _mm256_fmadd_ps(s0, a, b);
        s1 = _mm256_fmadd_ps(s1, a, b);
        s2 = _mm256_fmadd_ps(s2, a, b);
        s3 = _mm256_fmadd_ps(s3, a, b);
        s4 = _mm256_fmadd_ps(s4, a, b);
        s5 = _mm256_fmadd_ps(s5, a, b);
        s6 = _mm256_fmadd_ps(s6, a, b);
        s7 = _mm256_fmadd_ps(s7, a, b);
    }
    s0 = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    s4 = _mm256_add_ps(_mm256_add_ps(s4, s5), _mm256_add_ps(s6, s7));
    _mm256_storeu_ps(out, _mm256_add_ps(s0, s4));
    return 2.0 * 8 * CHAINS * ROUNDS;
}

static double multiply_add(float out[16])
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return multiply_add_512(out);
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? multiply_add_256(out)
                                                                           : 0;
}
#else
static double multiply_add(float out[16])
{
    (void)out;
    return 0; /* not known */
}
#endif

/* Both as often, in turn, so that both see the clock that the core has; the best counts. */
enum status cpu_measure_speed(double *gemm_flops, double *fma_flops)
{
    enum { SIZE = 256, TRIALS = 8 };
    enum status st;
    real *data = NULL;
    double product_s = INFINITY, chains = 0;
    TRY(ARRAY_NEW(data, 3 * SIZE * SIZE));
    struct gemm_operand a = matrix(data, SIZE, SIZE, SIZE);
    struct gemm g = product(1, a, a, data + SIZE * SIZE, SIZE);
    for (int k = 0; k < TRIALS; k++) {
        float numbers[16] = {0.5F, 0.5F};
        double start_s = describe_cpu_s();
        gemm(&g);
        double middle_s = describe_cpu_s(), flop = multiply_add(numbers);
        product_s = fmin(product_s, middle_s - start_s);
        chains = fmax(chains, flop / (describe_cpu_s() - middle_s));
    }
    *gemm_flops = 2.0 * SIZE * SIZE * SIZE / product_s;
    *fma_flops = chains;
out:
    free(data);
    return st;
}

enum status cpu_describe(uint32_t rank, struct hardware *out)
{
    (void)rank;
    PASS(gemm_single_thread());
    gemm_library(out->blas); /* of GEMM_LIBRARY letters, as HARDWARE_BLAS */
    return cpu_measure_speed(&out->gemm_flops, &out->fma_flops);
}
