/* The operations in the order in which NVIDIA's open cudnn-frontend has them (MIT licence, its
 * class CompositeSDPANode and CompositeSDPABackwardNode), as engines look for that pattern; the
 * mathematics are those of Dao, FlashAttention-2, arXiv:2307.08691. */
#include "exec/device/cuda/cudnn_sdpa.h"

/* ---- tensors */

/* (samples, heads, rows, columns), where a row of all heads has `stride` numbers. */
static struct cudnn_shape sdpa_heads(const struct cudnn_sdpa *a, int64_t heads, int64_t width,
                                     int64_t stride)
{
    return (struct cudnn_shape){{a->samples, heads, a->tokens, width},
                                {a->tokens * stride, width, stride, 1}};
}

static struct cudnn_shape turned(struct cudnn_shape s)
{
    return (struct cudnn_shape){{s.size[0], s.size[1], s.size[3], s.size[2]},
                                {s.stride[0], s.stride[1], s.stride[3], s.stride[2]}};
}

static struct cudnn_shape sdpa_dense(const struct cudnn_sdpa *a, int64_t rows, int64_t columns)
{
    return (struct cudnn_shape){{a->samples, a->heads, rows, columns},
                                {a->heads * rows * columns, rows * columns, columns, 1}};
}

/* Of x and its gradient. */
static int64_t sdpa_row_shape(const struct cudnn_sdpa *a)
{
    return a->heads * a->depth + a->kv_heads * (a->depth + a->value);
}

static struct cudnn_shape queries(const struct cudnn_sdpa *a)
{
    return sdpa_heads(a, a->heads, a->depth, sdpa_row_shape(a));
}

static struct cudnn_shape keys(const struct cudnn_sdpa *a)
{
    return sdpa_heads(a, a->kv_heads, a->depth, sdpa_row_shape(a));
}

static struct cudnn_shape sdpa_value_shape(const struct cudnn_sdpa *a)
{
    return sdpa_heads(a, a->kv_heads, a->value, sdpa_row_shape(a));
}

static struct cudnn_shape results(const struct cudnn_sdpa *a)
{
    return sdpa_heads(a, a->heads, a->value, a->heads * a->value);
}

static struct cudnn_shape sdpa_scores(const struct cudnn_sdpa *a)
{
    return sdpa_dense(a, a->tokens, a->tokens);
}

static struct cudnn_shape by_row(const struct cudnn_sdpa *a)
{
    return sdpa_dense(a, a->tokens, 1);
}

static void *in_memory(struct cudnn_graph *g, enum cudnn_sdpa_id id, enum cudnn_data data,
                       struct cudnn_shape s)
{
    return cudnn_tensor(g, (int64_t)id, data, &s);
}

static void *in_between(struct cudnn_graph *g, enum cudnn_data data, struct cudnn_shape s)
{
    return cudnn_tensor(g, 0, data, &s);
}

static void *sdpa_add_number(struct cudnn_graph *g, enum cudnn_sdpa_id id)
{
    static const struct cudnn_shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return cudnn_tensor(g, -(int64_t)id, CUDNN_FP32, &one);
}

/* ---- operations */

static void into(struct cudnn_graph *g, enum cudnn_mode mode, void *x, void *b, void *y)
{
    const struct cudnn_pointwise p = {.mode = mode, .precision = CUDNN_FP32, .x = x, .b = b};
    cudnn_pointwise(g, &p, y);
}

/* The result is in between, in fp32. */
static void *sdpa_apply(struct cudnn_graph *g, enum cudnn_mode mode, void *x, void *b,
                        struct cudnn_shape s)
{
    void *y = in_between(g, CUDNN_FP32, s);
    into(g, mode, x, b, y);
    return y;
}

static void *sdpa_reduce(struct cudnn_graph *g, enum cudnn_reduction what, void *x,
                         struct cudnn_shape s)
{
    void *y = in_between(g, CUDNN_FP32, s);
    cudnn_reduce(g, what, x, y);
    return y;
}

static void *sdpa_multiply(struct cudnn_graph *g, void *a, void *b, struct cudnn_shape s)
{
    void *c = in_between(g, CUDNN_FP32, s);
    cudnn_matmul(g, a, b, c);
    return c;
}

static void *index_along(struct cudnn_graph *g, void *x, int64_t axis, struct cudnn_shape s)
{
    const struct cudnn_pointwise p = {
        .mode = CUDNN_INDEX, .precision = CUDNN_FP32, .axis = axis, .x = x};
    void *y = in_between(g, CUDNN_INT32, s);
    cudnn_pointwise(g, &p, y);
    return y;
}

/* Minus infinity where the column is behind the row. */
static void *sdpa_mask(struct cudnn_graph *g, const struct cudnn_sdpa *a, void *x)
{
    if (!a->causal)
        return x;
    const struct cudnn_shape s = sdpa_scores(a);
    void *rows = index_along(g, x, 2, s), *columns = index_along(g, x, 3, s);
    void *seen = in_between(g, CUDNN_BOOLEAN, s), *y = in_between(g, CUDNN_FP32, s);
    const struct cudnn_pointwise compare = {
        .mode = CUDNN_IS_GREATER_OR_EQUAL, .precision = CUDNN_BOOLEAN, .x = rows, .b = columns};
    cudnn_pointwise(g, &compare, seen);
    const struct cudnn_pointwise select = {.mode = CUDNN_SELECT,
                                           .precision = CUDNN_FP32,
                                           .x = x,
                                           .b = sdpa_add_number(g, SDPA_MASKED),
                                           .t = seen};
    cudnn_pointwise(g, &select, y);
    return y;
}

void cudnn_sdpa_forward(struct cudnn_graph *g, const struct cudnn_sdpa *a)
{
    void *q = in_memory(g, SDPA_Q, CUDNN_BF16, queries(a));
    void *k = in_memory(g, SDPA_K, CUDNN_BF16, turned(keys(a)));
    void *v = in_memory(g, SDPA_V, CUDNN_BF16, sdpa_value_shape(a));
    void *y = in_memory(g, SDPA_Y, CUDNN_BF16, results(a));
    void *lse = in_memory(g, SDPA_LSE, CUDNN_FP32, by_row(a));
    void *x = sdpa_multiply(g, q, k, sdpa_scores(a));
    x = sdpa_mask(g, a,
                  sdpa_apply(g, CUDNN_MUL, x, sdpa_add_number(g, SDPA_SCALE), sdpa_scores(a)));
    void *largest = sdpa_reduce(g, CUDNN_LARGEST, x, by_row(a));
    x = sdpa_apply(g, CUDNN_SUB, x, largest, sdpa_scores(a));
    x = sdpa_apply(g, CUDNN_EXP, x, NULL, sdpa_scores(a));
    void *sum = sdpa_reduce(g, CUDNN_SUM, x, by_row(a));
    into(g, CUDNN_ADD, largest, sdpa_apply(g, CUDNN_LOG, sum, NULL, by_row(a)), lse);
    void *p = in_between(g, CUDNN_BF16, sdpa_scores(a));
    into(g, CUDNN_DIV, x, sum, p);
    cudnn_matmul(g, p, v, y);
}

/* Gradient of keys or of values: x^T rows, where heads share them summed over these: in fp32, where
 * cudnn-frontend has bf16, as the sum is rounded anyway. */
static void sdpa_gradient(struct cudnn_graph *g, const struct cudnn_sdpa *a, void *x, void *rows,
                          void *out, int64_t width)
{
    const struct cudnn_shape s = sdpa_scores(a);
    void *x_turned = in_between(g, CUDNN_BF16, turned(s));
    cudnn_reshape(g, x, x_turned);
    if (a->kv_heads == a->heads) {
        cudnn_matmul(g, x_turned, rows, out);
        return;
    }
    void *of_heads = in_between(g, CUDNN_FP32, sdpa_dense(a, a->tokens, width));
    cudnn_matmul(g, x_turned, rows, of_heads);
    cudnn_reduce(g, CUDNN_SUM, of_heads, out);
}

void cudnn_sdpa_backward(struct cudnn_graph *g, const struct cudnn_sdpa *a)
{
    void *q = in_memory(g, SDPA_Q, CUDNN_BF16, queries(a));
    void *k = in_memory(g, SDPA_K, CUDNN_BF16, turned(keys(a)));
    void *v = in_memory(g, SDPA_V, CUDNN_BF16, turned(sdpa_value_shape(a)));
    void *y = in_memory(g, SDPA_Y, CUDNN_BF16, results(a));
    void *dy = in_memory(g, SDPA_DY, CUDNN_BF16, results(a));
    void *lse = in_memory(g, SDPA_LSE, CUDNN_FP32, by_row(a));
    void *delta = in_memory(g, SDPA_DELTA, CUDNN_FP32, by_row(a));
    void *scale = sdpa_add_number(g, SDPA_SCALE);
    void *x = sdpa_apply(g, CUDNN_MUL, dy, y, sdpa_dense(a, a->tokens, a->value));
    into(g, CUDNN_MUL, sdpa_reduce(g, CUDNN_SUM, x, by_row(a)), sdpa_add_number(g, SDPA_ONE),
         delta);
    x = sdpa_apply(g, CUDNN_MUL, sdpa_multiply(g, q, k, sdpa_scores(a)), scale, sdpa_scores(a));
    x = sdpa_mask(g, a, sdpa_apply(g, CUDNN_SUB, x, lse, sdpa_scores(a)));
    void *p = sdpa_apply(g, CUDNN_EXP, x, NULL, sdpa_scores(a));
    sdpa_gradient(g, a, p, dy, in_memory(g, SDPA_DV, CUDNN_BF16, sdpa_value_shape(a)), a->value);
    x = sdpa_apply(g, CUDNN_SUB, sdpa_multiply(g, dy, v, sdpa_scores(a)), delta, sdpa_scores(a));
    x = sdpa_apply(g, CUDNN_MUL, x, p, sdpa_scores(a));
    void *ds = sdpa_apply(g, CUDNN_MUL, x, scale, sdpa_scores(a));
    sdpa_gradient(g, a, ds, q, in_memory(g, SDPA_DK, CUDNN_BF16, keys(a)), a->depth);
    void *k_again = in_between(g, CUDNN_BF16, keys(a));
    cudnn_reshape(g, k, k_again);
    cudnn_matmul(g, ds, k_again, in_memory(g, SDPA_DQ, CUDNN_BF16, queries(a)));
}
