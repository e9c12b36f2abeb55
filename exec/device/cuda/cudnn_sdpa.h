/* cudnn_sdpa.h - attention as cuDNN knows it: two graphs of products, pointwise operations and
 * sums, which it recognizes as one kernel forward and a few backward. Needs no GPU as long as
 * nothing is run. */
#ifndef EXEC_DEVICE_CUDA_CUDNN_SDPA_H
#define EXEC_DEVICE_CUDA_CUDNN_SDPA_H

#include "exec/device/cuda/cudnn.h"

/* What it is made of: q | k | v in rows as attention reads them (kernels.h). */
struct cudnn_sdpa {
    int64_t samples, tokens, heads, kv_heads, depth, value;
    int64_t causal; /* bool */
};

/* Tensors by their ids. LSE and DELTA are fp32, (samples, heads, tokens): the logarithm of a row's
 * sum of exponentials, and the sum over the row of dy y. The last three are numbers of the host. */
enum cudnn_sdpa_id {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_Y,
    SDPA_LSE,
    SDPA_DY,
    SDPA_DELTA,
    SDPA_DQ,
    SDPA_DK,
    SDPA_DV,
    SDPA_SCALE,
    SDPA_MASKED, /* minus infinity */
    SDPA_ONE
};

/* Add the operations to a graph that has none. The forward reads Q, K, V, and leaves Y and LSE; the
 * backward reads these and DY, and leaves DELTA, DQ, DK and DV, whose rows are as those of Q, K and
 * V. Everything is summed in fp32; P and the gradient of scores are bf16 where they are multiplied.
 * The backward has the form without an array that blocks add gradients of queries to, of which
 * engines are deterministic. */
void cudnn_sdpa_forward(struct cudnn_graph *g, const struct cudnn_sdpa *a);
void cudnn_sdpa_backward(struct cudnn_graph *g, const struct cudnn_sdpa *a);

#endif
