/* Attention where replicas share sequences (context parallelism): each has 1/c of the tokens, L
 * of T, and attends from them to all keys and values, which it gathers first. The forward and
 * the backward of attention.c, of L rows of P and T columns in their order; rows of a replica
 * are two chunks (layer_position()), each with rows one after the other. In the backward the
 * gradients of all keys and values are summed, each replica keeping those of its tokens.
 *
 * Liu et al., Ring Attention, 2023; Dubey et al., Llama 3, 2024, section 3.3.2 (all-gather). */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"
#include "exec/ring.h"

enum { CONTEXT_ROWS = 32 };

/* Rows of P that are made at once: of one chunk. */
static size_t context_tile_rows(const struct layer *l)
{
    size_t chunk = l->tokens / 2;
    return l->attention.flash && chunk > CONTEXT_ROWS ? CONTEXT_ROWS : chunk;
}

/* Keys and values of all tokens. */
static size_t context_gathered(const struct layer *l, size_t batch)
{
    return size_times(size_times(batch, l->context.sequence), layer_key_width(l));
}

/* work: keys and values as they are gathered; in the order of the sequence, (B, T, G (D + V));
 * their gradients likewise; the gradient of a tile of P; flash: the tile. */
void context_size(size_t batch, struct layer *l)
{
    size_t tile = size_times(context_tile_rows(l), l->context.sequence);
    l->work = size_plus(size_times(3, context_gathered(l, batch)),
                        size_times(l->attention.flash ? 2 : 1, tile));
}

/* One sample and head; channels where its parts begin: of x, and of keys and values. */
struct context_head {
    const struct layer *layer;
    const real *x, *kv;
    size_t at_q, at_k, at_v;
    real scale;       /* 1 / sqrt(D) */
    const real *sink; /* NULL: none */
    real *d_sink;
};

static struct context_head context_head(const struct layer *l, const struct layer_io *io, size_t b,
                                        size_t h)
{
    size_t own = h / (l->heads.n / l->heads.kv);
    return (struct context_head){.layer = l,
                                 .x = io->x[0] + b * l->input,
                                 .kv = io->work + context_gathered(l, io->batch) +
                                       b * l->context.sequence * layer_key_width(l),
                                 .at_q = h * l->heads.depth,
                                 .at_k = own * l->heads.depth,
                                 .at_v = l->heads.kv * l->heads.depth + own * l->heads.value,
                                 .scale = (real)(1.0 / sqrt((double)l->heads.depth)),
                                 .sink = l->attention.sinks ? io->parameter + h : NULL,
                                 .d_sink = l->attention.sinks ? io->d_parameter + h : NULL};
}

/* Rows row .. row + rows - 1 of P, tokens `place` .. of the sequence, and the first `columns`,
 * beyond which none of them sees. */
struct context_tile {
    size_t row, rows, place, columns;
    real *p; /* (rows, columns), rows T apart */
};

static struct context_tile context_tile(const struct layer *l, const struct layer_io *io, size_t b,
                                        size_t h, size_t row)
{
    size_t chunk = l->tokens / 2, rest = chunk - row % chunk, all = l->context.sequence;
    struct context_tile t = {.row = row,
                             .rows = rest < context_tile_rows(l) ? rest : context_tile_rows(l)};
    t.place = layer_position(l, row);
    t.columns = l->attention.causal ? t.place + t.rows : all;
    real *work = io->work + 3 * context_gathered(l, io->batch) + context_tile_rows(l) * all;
    t.p = l->attention.flash ? work : io->saved + b * l->saved + (h * l->tokens + row) * all;
    return t;
}

/* Columns from .. to - 1 are what row i of the tile sees. */
static void context_seen_range(const struct layer *l, const struct context_tile *t, size_t i,
                               size_t *from, size_t *to)
{
    size_t place = t->place + i;
    *from = layer_first_seen(l, place);
    *to = l->attention.causal ? place + 1 : l->context.sequence;
}

static struct gemm_operand context_queries(const struct context_head *a,
                                           const struct context_tile *t)
{
    const struct layer *l = a->layer;
    return matrix(a->x + t->row * l->in + a->at_q, t->rows, l->heads.depth, l->in);
}

static struct gemm_operand context_keys(const struct context_head *a, const struct context_tile *t)
{
    return matrix(a->kv + a->at_k, t->columns, a->layer->heads.depth, layer_key_width(a->layer));
}
static struct gemm_operand context_values(const struct context_head *a,
                                          const struct context_tile *t)
{
    return matrix(a->kv + a->at_v, t->columns, a->layer->heads.value, layer_key_width(a->layer));
}

/* p = softmax(scale q k^T); of flash, the logarithm of each row's sum goes to `sums` [L] or,
 * `again`, comes from there. */
static void make_tile(const struct context_head *a, const struct context_tile *t, real *sums,
                      bool again)
{
    const struct layer *l = a->layer;
    struct gemm g = product(a->scale, context_queries(a, t), transposed(context_keys(a, t)), t->p,
                            l->context.sequence);
    gemm(&g);
    for (size_t i = 0; i < t->rows; i++) {
        size_t from, to;
        real *p = t->p + i * l->context.sequence;
        context_seen_range(l, t, i, &from, &to);
        real largest = again ? sums[t->row + i] : vector_max(p + from, to - from);
        largest = !again && a->sink && *a->sink > largest ? *a->sink : largest;
        for (size_t k = 0; k < t->columns; k++)
            p[k] = k < from || k >= to ? 0 : vector_exp(p[k] - largest);
        if (again)
            continue;
        real sum = vector_sum(p + from, to - from), scale;
        sum += a->sink ? vector_exp(*a->sink - largest) : 0;
        scale = 1 / sum;
        for (size_t k = from; k < to; k++)
            p[k] *= scale;
        if (l->attention.flash)
            sums[t->row + i] = largest + (real)log((double)sum);
    }
}

static real *context_key_sums(const struct layer *l, const struct layer_io *io, size_t b, size_t h)
{
    return io->saved + b * l->saved + h * l->tokens;
}

/* ---- exchange */

/* Own keys and values go to the part of the array that this replica gives, one sample after the
 * other; chunk j of the array is of replica j - 1 (exec/ring.h). */
static void context_gather(const struct layer *l, struct layer_io *io)
{
    size_t width = layer_key_width(l), n = context_gathered(l, io->batch),
           rows = io->batch * l->tokens;
    struct ring_part own = ring_own(n, l->context.replicas, l->context.position);
    for (size_t row = 0; row < rows; row++)
        memcpy(io->work + own.first + row * width, io->x[0] + row * l->in + layer_first_key(l),
               width * sizeof(real));
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, OP_ALLGATHER, io->work, n);
    for (size_t k = 0; k < l->context.replicas; k++) {
        const real *from = io->work + ring_own(n, l->context.replicas, k).first;
        for (size_t row = 0; row < rows; row++) {
            size_t b = row / l->tokens, place = layer_place(l, k, row % l->tokens);
            memcpy(io->work + n + (b * l->context.sequence + place) * width, from + row * width,
                   width * sizeof(real));
        }
    }
}

/* Gradients of all keys and values to those who have the tokens. */
static void context_scatter(const struct layer *l, struct layer_io *io)
{
    size_t width = layer_key_width(l), n = context_gathered(l, io->batch),
           rows = io->batch * l->tokens;
    for (size_t k = 0; k < l->context.replicas; k++) {
        real *to = io->work + ring_own(n, l->context.replicas, k).first;
        for (size_t row = 0; row < rows; row++) {
            size_t b = row / l->tokens, place = layer_place(l, k, row % l->tokens);
            memcpy(to + row * width, io->work + 2 * n + (b * l->context.sequence + place) * width,
                   width * sizeof(real));
        }
    }
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, OP_REDUCESCATTER, io->work, n);
    struct ring_part own = ring_own(n, l->context.replicas, l->context.position);
    for (size_t row = 0; row < rows; row++)
        memcpy(io->dx[0] + row * l->in + layer_first_key(l), io->work + own.first + row * width,
               width * sizeof(real));
}

/* ---- passes */

void context_forward(const struct layer *l, struct layer_io *io)
{
    context_gather(l, io);
    for (size_t b = 0; b < io->batch; b++)
        for (size_t h = 0; h < l->heads.n; h++) {
            struct context_head a = context_head(l, io, b, h);
            real *y = io->y + b * l->output + h * l->heads.value;
            struct context_tile t;
            for (size_t row = 0; row < l->tokens; row += t.rows) {
                t = context_tile(l, io, b, h, row);
                make_tile(&a, &t, context_key_sums(l, io, b, h), false);
                struct gemm mean = product(1, matrix(t.p, t.rows, t.columns, l->context.sequence),
                                           context_values(&a, &t), y + row * l->out, l->out);
                gemm(&mean);
            }
        }
}

/* attention.c has the formulas. dy (rows, V) rows H V apart; dkv: of the sample. */
static void tile_backward(const struct context_head *a, const struct context_tile *t,
                          const real *dy, real *ds, real *dx, real *dkv)
{
    const struct layer *l = a->layer;
    size_t width = layer_key_width(l), s = l->context.sequence;
    struct gemm_operand from = matrix(dy + t->row * l->out, t->rows, l->heads.value, l->out);
    struct gemm_operand p = matrix(t->p, t->rows, t->columns, s),
                        d = matrix(ds, t->rows, t->columns, s);
    struct gemm values = product_added(transposed(p), from, dkv + a->at_v, width);
    struct gemm inner = product(1, from, transposed(context_values(a, t)), ds, s);
    gemm(&values);
    gemm(&inner);
    for (size_t i = 0; i < t->rows; i++) {
        const real *row = t->p + i * s;
        real *di = ds + i * s, mean = vector_dot(di, row, t->columns);
        for (size_t k = 0; k < t->columns; k++)
            di[k] = a->scale * row[k] * (di[k] - mean);
        if (a->sink)
            *a->d_sink -= (1 - vector_sum(row, t->columns)) * mean;
    }
    struct gemm queries = product(1, d, context_keys(a, t), dx + t->row * l->in + a->at_q, l->in);
    struct gemm keys = product_added(transposed(d), context_queries(a, t), dkv + a->at_k, width);
    gemm(&queries);
    gemm(&keys);
}

void context_backward(const struct layer *l, struct layer_io *io)
{
    size_t n = context_gathered(l, io->batch);
    real *dkv = io->work + 2 * n, *ds = io->work + 3 * n;
    context_gather(l, io);
    memset(dkv, 0, n * sizeof *dkv);
    for (size_t b = 0; b < io->batch; b++)
        for (size_t h = 0; h < l->heads.n; h++) {
            struct context_head a = context_head(l, io, b, h);
            struct context_tile t;
            for (size_t row = 0; row < l->tokens; row += t.rows) {
                t = context_tile(l, io, b, h, row);
                if (l->attention.flash)
                    make_tile(&a, &t, context_key_sums(l, io, b, h), true);
                tile_backward(&a, &t, io->dy + b * l->output + h * l->heads.value, ds,
                              io->dx[0] + b * l->input,
                              dkv + b * l->context.sequence * layer_key_width(l));
            }
        }
    context_scatter(l, io);
}
