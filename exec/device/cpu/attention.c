/* Multi-head scaled dot-product attention on a fused input x (B, T, (H + 2 G) D) = q | k | v with H
 * heads of queries and G of keys and values, D channels each; head h is in channels hD .. (h+1)D of
 * its part, and H / G heads of queries share one of keys and values (Ainslie et al., GQA, EMNLP
 * 2023); y (B, T, H D). Per sample and head
 *     P = softmax(q k^T / sqrt(D)), row t over columns <= t if causal and > t - window;  y = P v.
 * Vaswani et al., NIPS 2017, arXiv:1706.03762. Values may have another width V than keys (latent
 * attention): G D + G V channels, y (B, T, H V). With `sinks` every head has one more score,
 * learned, whose part of the softmax goes nowhere (gpt-oss; Xiao et al., ICLR 2024,
 * arXiv:2309.17453).
 *
 * P is made in tiles of rows. Plain: one tile, and P (B, H, T, T) is saved. `flash`: tiles of
 * FLASH_ROWS rows over the columns that any of them sees; the logarithm of each row's sum of
 * exponentials is all that is saved, from which the backward makes the tile again (Dao et al.,
 * NeurIPS 2022, without the tiling of columns). */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

enum { FLASH_ROWS = 32 };

static size_t attention_tile_rows(const struct layer *l)
{
    return l->attention.flash && l->tokens > FLASH_ROWS ? FLASH_ROWS : l->tokens;
}

/* x (B, T, (H + G) D + G V), y (B, T, H V), saved (B, H, T, T) or, with flash, (B, H, T); work: the
 * gradient of one tile of P, and with flash the tile itself. No parameters but sinks [H]: the
 * products around attention are layers of their own. */
void attention_size(struct layer *l)
{
    size_t tile = size_times(attention_tile_rows(l), l->tokens);
    l->out = l->heads.n * l->heads.value;
    l->in = l->heads.n * l->heads.depth + l->heads.kv * (l->heads.depth + l->heads.value);
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->work = l->attention.flash ? size_times(2, tile) : tile;
    l->saved = size_times(l->heads.n, l->attention.flash ? l->tokens : tile);
}

/* What the graph knows and these formulas do not. */
static enum status check_plain(const struct model_op *op)
{
    const char *what = NULL;
    if (model_attribute(op, "learned", 0) > 0 && model_attribute(op, "sinks", 0) == 0)
        what = "with a learned relative position bias";
    if (model_attribute(op, "memory", 0) > 0)
        what = "with keys and values from another op (cross-attention)";
    return what
               ? error_set(STATUS_UNSUPPORTED,
                           "op '%s': foreline run cannot compute kind '%s' %s; try --compute paced",
                           op->name, op->kind, what)
               : STATUS_OK;
}

static enum status attention_shape(const struct model_op *op, struct layer *l)
{
    PASS(check_plain(op));
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->out));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads.n));
    PASS(layer_attribute(op, "kv_heads", (int64_t)l->heads.n, 1, &l->heads.kv));
    PASS(layer_attribute(op, "window", 0, 0, &l->attention.window));
    PASS(layer_flag(op, "causal", &l->attention.causal));
    PASS(layer_flag(op, "flash", &l->attention.flash));
    PASS(layer_flag(op, "sinks", &l->attention.sinks));
    if (l->out % l->heads.n != 0)
        return error_set(STATUS_INVALID, "op '%s': %zu channels cannot be divided into %zu heads",
                         op->name, l->out, l->heads.n);
    if (l->heads.n % l->heads.kv != 0)
        return error_set(
            STATUS_INVALID,
            "op '%s': got %zu query heads, expected a multiple of the %zu key/value heads",
            op->name, l->heads.n, l->heads.kv);
    if (l->attention.window > 0 && !l->attention.causal)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': attribute window needs causal attention (causal=1)", op->name);
    l->heads.value = l->out / l->heads.n;
    PASS(layer_attribute(op, "head", (int64_t)l->heads.value, 1, &l->heads.depth));
    l->part[0] = (struct layer_part){.n = l->attention.sinks ? l->heads.n : 0, .fill = FILL_NORMAL};
    attention_size(l);
    return STATUS_OK;
}

/* The matrices of one sample and head: q, k (T, D), v (T, V), rows `in` apart; dy and y (T, V). */
struct head_inputs {
    const struct layer *layer;
    size_t at_q, at_k, at_v; /* first channels in a row of x */
    real scale;              /* 1 / sqrt(D) */
    const real *x;           /* of the sample */
    bool first;              /* of the heads that share k and v: their gradients begin here */
    const real *sink;        /* NULL: none */
    real *d_sink;
};

static struct head_inputs attention_head(const struct layer *l, const struct layer_io *io, size_t b,
                                         size_t h)
{
    size_t shared = l->heads.n / l->heads.kv, kv = h / shared, keys = l->heads.n * l->heads.depth;
    return (struct head_inputs){.layer = l,
                                .at_q = h * l->heads.depth,
                                .at_k = keys + kv * l->heads.depth,
                                .at_v = keys + l->heads.kv * l->heads.depth + kv * l->heads.value,
                                .scale = (real)(1.0 / sqrt((double)l->heads.depth)),
                                .x = io->x[0] + b * l->input,
                                .first = h % shared == 0,
                                .sink = l->attention.sinks ? io->parameter + h : NULL,
                                .d_sink = l->attention.sinks ? io->d_parameter + h : NULL};
}

/* Rows row .. row + rows - 1 of P, and the columns that any of them sees. */
struct attention_tile {
    size_t row, rows, column, columns;
    real *p; /* (rows, columns) */
};

static struct attention_tile attention_tile(const struct layer *l, size_t row)
{
    size_t rows =
        l->tokens - row < attention_tile_rows(l) ? l->tokens - row : attention_tile_rows(l);
    if (!l->attention.flash)
        return (struct attention_tile){0, l->tokens, 0, l->tokens, NULL};
    size_t end = l->attention.causal ? row + rows : l->tokens;
    size_t column = layer_first_seen(l, row);
    return (struct attention_tile){row, rows, column, end - column, NULL};
}

/* Rows of the sample as a matrix: `from` is x or its gradient, at the channel where a part
 * begins. */
static struct gemm_operand attention_part(const struct layer *l, const real *from, size_t row,
                                          size_t rows)
{
    return matrix(from + row * l->in, rows, l->heads.depth, l->in);
}
static struct gemm_operand attention_values(const struct head_inputs *a,
                                            const struct attention_tile *t)
{
    return matrix(a->x + a->at_v + t->column * a->layer->in, t->columns, a->layer->heads.value,
                  a->layer->in);
}

/* Columns from .. to - 1 of the tile are what row i of it sees. */
static void attention_seen_range(const struct layer *l, const struct attention_tile *t, size_t i,
                                 size_t *from, size_t *to)
{
    size_t row = t->row + i, least = layer_first_seen(l, row);
    *from = least > t->column ? least - t->column : 0;
    *to = l->attention.causal ? row + 1 - t->column : t->columns;
}

/* t->p = scale q k^T */
static void attention_scores(const struct head_inputs *a, const struct attention_tile *t)
{
    const struct layer *l = a->layer;
    struct gemm g = product(a->scale, attention_part(l, a->x + a->at_q, t->row, t->rows),
                            transposed(attention_part(l, a->x + a->at_k, t->column, t->columns)),
                            t->p, t->columns);
    gemm(&g);
}

/* Softmax of numbers from .. to - 1 and of the sink, zeros elsewhere; Milakov & Gimelshein 2018
 * call it the safe one: the largest is subtracted first. Returns the logarithm of the sum of
 * exponentials. */
VECTOR_CLONES static real attention_softmax(real *p, size_t from, size_t to, size_t columns,
                                            const real *sink)
{
    real largest = vector_max(p + from, to - from);
    largest = sink && *sink > largest ? *sink : largest;
    for (size_t i = from; i < to; i++)
        p[i] = vector_exp(p[i] - largest);
    real sum = vector_sum(p + from, to - from) + (sink ? vector_exp(*sink - largest) : 0);
    real scale = 1 / sum;
    for (size_t i = from; i < to; i++)
        p[i] *= scale;
    for (size_t i = 0; i < from; i++)
        p[i] = 0;
    for (size_t i = to; i < columns; i++)
        p[i] = 0;
    return largest + (real)log((double)sum);
}

/* p = softmax(scale q k^T), y = p v: equation (1) of Vaswani et al. sums [T]: of flash. */
static void tile_forward(const struct head_inputs *a, const struct attention_tile *t, real *sums,
                         real *y)
{
    const struct layer *l = a->layer;
    attention_scores(a, t);
    for (size_t i = 0; i < t->rows; i++) {
        size_t from, to;
        attention_seen_range(l, t, i, &from, &to);
        real sum = attention_softmax(t->p + i * t->columns, from, to, t->columns, a->sink);
        if (l->attention.flash)
            sums[t->row + i] = sum;
    }
    struct gemm mean = product(1, matrix(t->p, t->rows, t->columns, t->columns),
                               attention_values(a, t), y + t->row * l->out, l->out);
    gemm(&mean);
}

/* The tile of the forward, from the sums that it has saved. */
static void tile_again(const struct head_inputs *a, const struct attention_tile *t,
                       const real *sums)
{
    attention_scores(a, t);
    for (size_t i = 0; i < t->rows; i++) {
        size_t from, to;
        real *p = t->p + i * t->columns;
        attention_seen_range(a->layer, t, i, &from, &to);
        for (size_t k = 0; k < t->columns; k++)
            p[k] = k < from || k >= to ? 0 : vector_exp(p[k] - sums[t->row + i]);
    }
}

/* The gradient of y = p v, and then that of the softmax, whose Jacobian is diag(p) - p p^T:
 *     dv = p^T dy,  dp = dy v^T,  ds = p (dp - sum over the row of dp p).
 * dy (T, V) with rows H V apart, dv (T, V) with rows as of x, to which flash and later heads add;
 * ds (rows, columns), dp before it. The sink has what is left of the row, and dp = 0. */
static void tile_backward_softmax(const struct head_inputs *a, const struct attention_tile *t,
                                  const real *dy, real *dv, real *ds)
{
    const struct layer *l = a->layer;
    struct gemm_operand from = matrix(dy + t->row * l->out, t->rows, l->heads.value, l->out);
    struct gemm_operand p = matrix(t->p, t->rows, t->columns, t->columns);
    struct gemm of_values = product(1, transposed(p), from, dv + t->column * l->in, l->in);
    struct gemm probabilities =
        product(1, from, transposed(attention_values(a, t)), ds, t->columns);
    of_values.beta = l->attention.flash || !a->first;
    gemm(&of_values);
    gemm(&probabilities);
    for (size_t i = 0; i < t->rows; i++) {
        const real *row = t->p + i * t->columns;
        real *d = ds + i * t->columns, mean = vector_dot(d, row, t->columns);
        for (size_t k = 0; k < t->columns; k++)
            d[k] = row[k] * (d[k] - mean);
        if (a->sink)
            *a->d_sink -= (1 - vector_sum(row, t->columns)) * mean;
    }
}

/* The gradient of s = scale q k^T: dq = scale ds k, dk = scale ds^T q; dk is added to as dv. */
static void tile_backward_scores(const struct head_inputs *a, const struct attention_tile *t,
                                 const real *ds, real *dx)
{
    const struct layer *l = a->layer;
    struct gemm_operand from = matrix(ds, t->rows, t->columns, t->columns);
    struct gemm queries =
        product(a->scale, from, attention_part(l, a->x + a->at_k, t->column, t->columns),
                dx + a->at_q + t->row * l->in, l->in);
    struct gemm keys =
        product(a->scale, transposed(from), attention_part(l, a->x + a->at_q, t->row, t->rows),
                dx + a->at_k + t->column * l->in, l->in);
    keys.beta = l->attention.flash || !a->first;
    gemm(&queries);
    gemm(&keys);
}

/* Every head by itself: 2 T^2 D FLOP in the scores and as many in y, 4 T^2 H D per sample; without
 * flash a causal layer computes the scores above the diagonal too and forgets them. */
static void attention_forward(const struct layer *l, struct layer_io *io)
{
    if (l->context.replicas > 1) {
        (l->context.swaps ? swap_forward : context_forward)(l, io);
        return;
    }
    for (size_t b = 0; b < io->batch; b++)
        for (size_t h = 0; h < l->heads.n; h++) {
            struct head_inputs a = attention_head(l, io, b, h);
            real *saved = io->saved + b * l->saved + h * (l->saved / l->heads.n);
            for (size_t row = 0; row < l->tokens; row += attention_tile_rows(l)) {
                struct attention_tile t = attention_tile(l, row);
                t.p = l->attention.flash ? io->work : saved;
                tile_forward(&a, &t, saved, io->y + b * l->output + h * l->heads.value);
            }
        }
}

/* Where tiles or heads add to the gradients of keys and values, these begin at 0. */
static void clear_keys(const struct layer *l, real *dx)
{
    size_t keys = l->heads.n * l->heads.depth;
    for (size_t row = 0; row < l->tokens && l->attention.flash; row++)
        memset(dx + row * l->in + keys, 0, (l->in - keys) * sizeof *dx);
}

/* Twice the forward: four products of the same size, and with flash the scores once more. dx is
 * overwritten: every head has its own channels of queries, the first of those that share keys and
 * values begins theirs. */
static void attention_backward(const struct layer *l, struct layer_io *io)
{
    if (l->context.replicas > 1) {
        (l->context.swaps ? swap_backward : context_backward)(l, io);
        return;
    }
    for (size_t b = 0; b < io->batch; b++) {
        real *dx = io->dx[0] + b * l->input;
        clear_keys(l, dx);
        for (size_t h = 0; h < l->heads.n; h++) {
            struct head_inputs a = attention_head(l, io, b, h);
            real *saved = io->saved + b * l->saved + h * (l->saved / l->heads.n);
            const real *dy = io->dy + b * l->output + h * l->heads.value;
            for (size_t row = 0; row < l->tokens; row += attention_tile_rows(l)) {
                struct attention_tile t = attention_tile(l, row);
                real *ds =
                    l->attention.flash ? io->work + attention_tile_rows(l) * l->tokens : io->work;
                t.p = l->attention.flash ? io->work : saved;
                if (l->attention.flash)
                    tile_again(&a, &t, saved);
                tile_backward_softmax(&a, &t, dy, dx + a.at_v, ds);
                tile_backward_scores(&a, &t, ds, dx);
            }
        }
    }
}

/* By heads: shard k of p has heads k h/p .. (k + 1) h/p - 1 of q, k and v, which the product before
 * divides in the same way (layer_divide(): groups). Nothing is exchanged here: the row-parallel
 * product after attention reduces. Shoeybi et al. 2019, arXiv:1909.08053, section 3. */
static enum status attention_divide(const struct model_op *op, const struct layer_shard *s,
                                    size_t batch, struct layer *l)
{
    (void)batch;
    PASS(layer_divide_heads(op, s, l));
    if (l->attention.sinks)
        layer_divide_rows(s, l->heads.n * s->shards, 1, &l->part[0]);
    attention_size(l);
    return STATUS_OK;
}

static enum status attention_share(const struct model_op *op, size_t batch, struct layer *l)
{
    if (l->context.swaps)
        return swap_size(op, batch, l);
    context_size(batch, l);
    return STATUS_OK;
}

const struct layer_kind kind_attention = {.type = OPERATOR_attention,
                                          .inputs = 1,
                                          .shape = attention_shape,
                                          .forward = attention_forward,
                                          .backward = attention_backward,
                                          .divide = attention_divide,
                                          .share = attention_share,
                                          .exact = true};
