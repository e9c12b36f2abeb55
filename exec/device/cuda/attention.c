/* Attention (exec/device/cpu/attention.c) in blocks of rows: the scores of all heads for some rows
 * of one sample at a time, so that no more than SCORES numbers of the (heads, T, T) of a sample
 * exist; the backward recomputes them from two numbers saved per row. Rabe & Staats 2021, arXiv:2112.05682,
 * block the rows in the same way; unlike Dao et al. 2022 (FlashAttention) the scores of a block are
 * whole rows in memory, and the products are cuBLAS's. */
#include <math.h>

#include "exec/device/cuda/context.h"

enum { SCORES = 4 << 20, LEAST_ROWS = 16 };

/* Rows at a time. */
static size_t block_rows(const struct layer *l)
{
    size_t rows = SCORES / size_times(l->heads, l->tokens);
    rows = rows > LEAST_ROWS ? rows : LEAST_ROWS;
    size_t blocks = l->tokens / rows + (l->tokens % rows > 0); /* alike: a rest costs as much */
    return l->tokens / blocks + (l->tokens % blocks > 0);
}

void cuda_attention_sizes(struct layer *l)
{
    size_t scores = size_times(size_times(l->heads, block_rows(l)), l->tokens);
    l->saved = size_times(2 * l->heads, l->tokens);
    l->work =
        size_times(l->half ? 3 : 2, scores); /* scores or their gradients twice; and in bf16 */
}

/* Rows first .. first + rows of sample b. */
struct block {
    struct cuda_context *context;
    struct kernel_scores scores;
    size_t depth, x_stride, y_stride;
    const struct layer *layer;
    const real *q, *k, *v; /* of row 0 and head 0 */
    real scale;
};

/* After the scores of the block come the gradients of p; in bf16 then p, then those of the scores;
 * in fp32 these take the place of what they are made from. */
static size_t block_size(const struct block *k)
{
    return k->scores.heads * k->scores.rows * k->scores.columns;
}
static real *p_gradient(const struct block *k)
{
    return k->scores.score + block_size(k);
}
static real *score_gradient(const struct block *k)
{
    return k->layer->half ? cuda_at(k->layer, k->scores.p, block_size(k)) : p_gradient(k);
}

static struct block block_of(const struct layer *l, const struct layer_io *io, size_t b,
                             size_t first)
{
    size_t c = l->out, rows = block_rows(l);
    rows = first + rows < l->tokens ? rows : l->tokens - first;
    const real *q = cuda_at(l, io->x[0], b * l->input);
    size_t columns = l->causal ? first + rows : l->tokens, size = l->heads * rows * columns;
    return (struct block){
        .context = io->on,
        .scores = {.type = cuda_type(l),
                   .heads = l->heads,
                   .rows = rows,
                   .columns = columns,
                   .first = first,
                   .tokens = l->tokens,
                   .causal = l->causal,
                   .score = io->work,
                   .p = l->half ? io->work + 2 * size : io->work,
                   .saved = io->saved + b * l->saved},
        .depth = c / l->heads,
        .x_stride = l->in,
        .y_stride = c,
        .layer = l,
        .q = q,
        .k = cuda_at(l, q, c),
        .v = cuda_at(l, q, 2 * c),
        .scale = (real)(1.0 / sqrt((double)(c / l->heads))),
    };
}

/* out (heads, rows, columns) in fp32 = alpha a b^T for a (rows, depth) and b (columns, depth) per
 * head */
static void outer(const struct block *k, const real *a, size_t a_stride, const real *b, real alpha,
                  real *out)
{
    const struct kernel_scores *s = &k->scores;
    const struct matrix left = matrix(a, s->rows, k->depth, a_stride);
    const struct matrix right = matrix(b, s->columns, k->depth, k->x_stride);
    const struct cuda_gemm g = {.g = product(alpha, left, transposed(right), out, s->columns),
                                .in = cuda_type(k->layer)};
    cuda_gemm(k->context, "attention scores", &g,
              &(struct cuda_batch){s->heads, k->depth, k->depth, s->rows * s->columns});
}

/* out (rows, depth) = alpha p b for p (rows, columns), b (columns, depth) per head */
static void inner(const struct block *k, const real *p, const real *b, real alpha, real *out,
                  size_t out_stride)
{
    const struct kernel_scores *s = &k->scores;
    const struct matrix left = matrix(p, s->rows, s->columns, s->columns);
    const struct matrix right = matrix(b, s->columns, k->depth, k->x_stride);
    const struct cuda_gemm g = {.g = product(alpha, left, right, out, out_stride),
                                .in = cuda_type(k->layer),
                                .out = cuda_type(k->layer)};
    cuda_gemm(k->context, "attention rows", &g,
              &(struct cuda_batch){s->heads, s->rows * s->columns, k->depth, k->depth});
}

/* out (columns, depth) = alpha p^T b for p (rows, columns), b (rows, depth) per head; added to what
 * later blocks of rows have left there, which begin with the last one. */
static void gather(const struct block *k, const real *p, const real *b, size_t b_stride, real alpha,
                   real *out)
{
    const struct kernel_scores *s = &k->scores;
    bool last = s->first + s->rows == s->tokens;
    const struct matrix left = transposed(matrix(p, s->rows, s->columns, s->columns));
    const struct matrix right = matrix(b, s->rows, k->depth, b_stride);
    struct cuda_gemm g = {.g = product(alpha, left, right, out, k->x_stride),
                          .in = cuda_type(k->layer),
                          .out = cuda_type(k->layer)};
    g.g.beta = last ? 0 : 1;
    cuda_gemm(k->context, "attention columns", &g,
              &(struct cuda_batch){s->heads, s->rows * s->columns, k->depth, k->depth});
}

static void forward(const struct layer *l, struct layer_io *io)
{
    for (size_t b = 0; b < io->batch; b++)
        for (size_t first = 0; first < l->tokens; first += block_rows(l)) {
            const struct block k = block_of(l, io, b, first);
            outer(&k, cuda_at(l, k.q, first * k.x_stride), k.x_stride, k.k, k.scale,
                  k.scores.score);
            CUDA_NOTE(io->on, "attention", kernel_softmax(&k.scores));
            inner(&k, k.scores.p, k.v, 1, cuda_at(l, io->y, b * l->output + first * k.y_stride),
                  k.y_stride);
        }
}

static void block_backward(const struct block *k, const real *dy, real *dx)
{
    const struct kernel_scores *s = &k->scores;
    const struct layer *l = k->layer;
    size_t c = k->y_stride, row = s->first * k->x_stride;
    const real *q = cuda_at(l, k->q, row);
    real *d = p_gradient(k), *ds = score_gradient(k);
    dy = cuda_at(l, dy, s->first * c);
    outer(k, q, k->x_stride, k->k, k->scale, s->score);
    CUDA_NOTE(k->context, "attention again", kernel_softmax_again(s));
    gather(k, s->p, dy, c, 1, cuda_at(l, dx, 2 * c));
    outer(k, dy, c, k->v, 1, d);
    CUDA_NOTE(k->context, "attention backward", kernel_softmax_backward(s, d, ds));
    inner(k, ds, k->k, k->scale, cuda_at(l, dx, row), k->x_stride);
    gather(k, ds, q, k->x_stride, k->scale, cuda_at(l, dx, c));
}

static void backward(const struct layer *l, struct layer_io *io)
{
    size_t rows = block_rows(l), last = (l->tokens - 1) / rows * rows;
    for (size_t b = 0; b < io->batch; b++)
        for (size_t first = last;; first -= rows) {
            const struct block k = block_of(l, io, b, first);
            block_backward(&k, cuda_at(l, io->dy, b * l->output),
                           cuda_at(l, io->dx[0], b * l->input));
            if (first == 0)
                break;
        }
}

const struct layer_kind cuda_attention = {
    .name = "attention", .inputs = 1, .forward = forward, .backward = backward};
