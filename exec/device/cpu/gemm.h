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

/* Wants gemm_single_thread() before it. */
void gemm(const struct gemm *g);

/* An operand as the product sees it, (rows, columns); t: it is stored transposed. */
struct gemm_operand {
    const real *data;
    size_t rows, columns, stride;
    bool t;
};
static inline struct gemm_operand matrix(const real *data, size_t rows, size_t columns,
                                         size_t stride)
{
    return (struct gemm_operand){data, rows, columns, stride, false};
}
/* The same numbers as (columns, rows). */
static inline struct gemm_operand transposed(struct gemm_operand a)
{
    return (struct gemm_operand){a.data, a.columns, a.rows, a.stride, !a.t};
}
/* c (a.rows, b.columns) = alpha a b, for a.columns == b.rows. */
static inline struct gemm product(real alpha, struct gemm_operand a, struct gemm_operand b, real *c,
                                  size_t c_stride)
{
    return (struct gemm){a.rows, b.columns, a.columns, a.data,   b.data, a.stride, b.stride,
                         a.t,    b.t,       c,         c_stride, alpha,  0};
}
/* Likewise c += a b. */
static inline struct gemm product_added(struct gemm_operand a, struct gemm_operand b, real *c,
                                        size_t c_stride)
{
    struct gemm g = product(1, a, b, c, c_stride);
    g.beta = 1;
    return g;
}

/* Rank-sized BLAS: one thread, so that ranks do not fight for cores and results do not depend on
 * how many there are. STATUS_IO when OpenBLAS cannot be loaded (gemm_loaded.c). */
enum status gemm_single_thread(void) MUST_CHECK;
/* What multiplies: "OpenBLAS 0.3.21, SkylakeX kernels"; "" where it is not loaded. Returns
 * `text`. */
enum { GEMM_LIBRARY = 96 };
const char *gemm_library(char text[GEMM_LIBRARY]);

struct hardware;
/* describe() of devices that compute on the CPU (exec/device.h). */
enum status cpu_describe(uint32_t rank, struct hardware *out) MUST_CHECK;

#endif
