/* gemm.h - matrix product by oneDNN or OpenBLAS, one thread per rank. */
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

/* Load the library, once for the process. One thread, so that ranks do not fight for cores and
 * results do not depend on how many there are. STATUS_IO when there is none. */
enum status gemm_single_thread(void) MUST_CHECK;
/* What multiplies: "oneDNN 2.6.3, AVX-512 kernels"; "" where it is not loaded. Returns
 * `text`. */
enum { GEMM_LIBRARY = 96 };
const char *gemm_library(char text[GEMM_LIBRARY]);

/* FLOP/s of the calling thread: of a product of 256 x 256 x 256, and of multiply-adds in registers
 * by the widest instructions that processor and system have (0: not known, below AVX2 and FMA). By
 * CPU time, the best of several; some milliseconds. Wants gemm_single_thread() before it. */
enum status cpu_measure_speed(double *gemm_flops, double *fma_flops) MUST_CHECK;

struct hardware;
/* describe() of devices that compute on the CPU (exec/device.h). */
enum status cpu_describe(uint32_t rank, struct hardware *out) MUST_CHECK;

#endif
