/* strategies.h - kernels of strategies by operator (exec/device/sharded/arithmetic.h has what they
 * do), all in fp32; rules as in kernels.h. */
#ifndef EXEC_DEVICE_CUDA_STRATEGIES_H
#define EXEC_DEVICE_CUDA_STRATEGIES_H

#include "exec/device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNEL_RANK = 6 };
struct kernel_strides {
    unsigned rank;
    size_t total; /* numbers */
    size_t n[KERNEL_RANK], from[KERNEL_RANK], to[KERNEL_RANK];
    float factor;
    int adds;
};
cudaError_t kernel_strides(const struct kernel_strides *s, const float *from, float *to);

/* work [SUMS_WORK] */
enum { SUMS_WORK = 1 << 18 };
struct kernel_row_sums {
    size_t rows, row, columns, column;
    float factor;
};
cudaError_t kernel_row_sums(const struct kernel_row_sums *s, const float *x, float *out,
                            float *work, unsigned *ticket);
/* y [1]; part [CLIP_PARTS] */
cudaError_t kernel_total(float *y, const float *x, size_t n, double *part, unsigned *ticket);

/* y = 1 / (1 + exp(-x)) or, relu, the larger of x and 0; dx += dy times the slope at y. */
cudaError_t kernel_bend(int relu, float *y, const float *x, size_t n);
cudaError_t kernel_bend_backward(int relu, float *dx, const float *y, const float *dy, size_t n);
cudaError_t kernel_multiplied(float *y, const float *a, const float *b, size_t n); /* y += a b */

struct kernel_drop {
    uint64_t key;
    double chance;
    unsigned rank;
    size_t n, size[KERNEL_RANK], first[KERNEL_RANK], whole[KERNEL_RANK];
};
cudaError_t kernel_drop(const struct kernel_drop *d, const float *x, float *saved, float *y);

/* In place; mask (period, n), NULL: none. */
cudaError_t kernel_softmax(float *x, const float *mask, size_t rows, size_t n, size_t period);
cudaError_t kernel_softmax_backward(float *dp, const float *p, size_t rows, size_t n);
cudaError_t kernel_log_softmax(float *y, const float *x, size_t rows, size_t n);
cudaError_t kernel_log_softmax_backward(float *dx, const float *y, const float *dy, size_t rows,
                                        size_t n);

struct kernel_slots {
    size_t samples, tokens, experts, slots, top;
    const float *chance;
    float *chosen, *picked, *taken; /* chosen and taken are zeros */
    float *dispatch, *combine;
};
cudaError_t kernel_slots(const struct kernel_slots *r);
cudaError_t kernel_slots_backward(const struct kernel_slots *r, const float *d_combine, float *d);

struct kernel_lookups {
    size_t n, rows, channels;
    const float *x;
};
cudaError_t kernel_look_up(const struct kernel_lookups *l, const float *table, float *y);
cudaError_t kernel_look_up_backward(const struct kernel_lookups *l, const float *dy,
                                    float *d_table);

struct kernel_picks {
    size_t samples, classes, places;
    const float *y;
    float share;
};
/* loss [1]; part [CLIP_PARTS] */
cudaError_t kernel_pick(const struct kernel_picks *p, const float *x, float *loss, double *part,
                        unsigned *ticket);
cudaError_t kernel_pick_backward(const struct kernel_picks *p, const float *d_loss, float *dx);
/* *loss += value [1] / samples; gradient [1] = 1 / samples */
cudaError_t kernel_end(const float *value, double samples, float *gradient, double *loss);

#ifdef __cplusplus
}
#endif

#endif
