/* words.h - kernels over the tokens of a sample (kernels_words.cu, kernels_relative.cu); rules as
 * in kernels.h. */
#ifndef EXEC_DEVICE_CUDA_WORDS_H
#define EXEC_DEVICE_CUDA_WORDS_H

#include "exec/device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Convolutions over tokens with kernels of `kernel` numbers, an odd one, and zeros at the ends. */
struct kernel_taps {
    enum kernel_type type;
    size_t samples, tokens, channels, heads, kernel;
};
/* y_{t,c} = sum over k of weight_{c,k} x_{t + k - K/2, c}, weight (channels, kernel):
 * depthwise.c. */
cudaError_t kernel_depthwise(const struct kernel_taps *t, const float *weight, const void *x,
                             void *y);
/* d_weight += ..., work [COLUMN_PARTS channels kernel] */
cudaError_t kernel_depthwise_backward(const struct kernel_taps *t, const float *weight,
                                      const void *x, const void *dy, void *dx, float *d_weight,
                                      float *work, unsigned *ticket);
/* Each token has kernels of its own, one for a head: the softmax p (samples, tokens, heads,
 * kernel), fp32, of x: dynamic.c. g: as p, of the backward. */
cudaError_t kernel_dynamic(const struct kernel_taps *t, const void *x, const void *value, float *p,
                           void *y);
cudaError_t kernel_dynamic_backward(const struct kernel_taps *t, const float *p, float *g,
                                    const void *value, const void *dy, void *dx, void *d_value);

/* One step of an LSTM for all samples: lstm.c. A row of what is saved has `width` numbers: 4 hidden
 * gates, hidden cells, hidden gradients of h_{t-1}, and in 16 bits besides 4 hidden gradients of
 * the gates' sums, which in fp32 take the gates' place. Tokens t, the one whose turn was before
 * (`first`: none) and after it (`last`: none). */
struct kernel_lstm {
    enum kernel_type type;
    size_t samples, tokens, hidden, width, t, before, after;
    int first, last;
    float *saved;
};
cudaError_t kernel_lstm(const struct kernel_lstm *l, const float *bias, void *y);
cudaError_t kernel_lstm_backward(const struct kernel_lstm *l, const void *dy);

/* Attention by contents and distances: relative.c. x (samples, tokens, 3 channels), far (samples, 2
 * tokens, channels); bias: u, then w, [channels] each. p, ds (samples, heads, tokens, tokens), dq
 * (2, samples, tokens, channels): parts of the queries' gradients, whose sums over rows are those
 * of u and w. */
struct kernel_relative {
    enum kernel_type type;
    size_t samples, tokens, heads, depth;
    const void *x, *far;
    const float *bias;
    float *p, *ds, *dq;
};
cudaError_t kernel_relative(const struct kernel_relative *r, void *y);
cudaError_t kernel_relative_backward(const struct kernel_relative *r, const void *dy, void *dx,
                                     void *d_far);

#ifdef __cplusplus
}
#endif

#endif
