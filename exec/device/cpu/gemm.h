/* gemm.h - matrix product by OpenBLAS, one thread per rank. */
#ifndef EXEC_DEVICE_CPU_GEMM_H
#define EXEC_DEVICE_CPU_GEMM_H

#include <stdbool.h>

#include "exec/device/layer.h"

/* c (m, n) = alpha op(a) op(b) + beta c with op(a) (m, k) and op(b) (k, n); a_t: a is stored
 * transposed, (k, m). Row-major; *_stride is the distance between stored rows. Sizes <= INT_MAX. */
struct gemm {
    size_t m, n, k;
    const real *a, *b;
    size_t a_stride, b_stride;
    bool a_t, b_t;
    real *c;
    size_t c_stride;
    real alpha, beta;
};

void gemm(const struct gemm *g);

/* Rank-sized BLAS: one thread, so that ranks do not fight for cores and results do not depend on
 * how many there are. */
void gemm_single_thread(void);

#endif
