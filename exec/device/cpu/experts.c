/* Experts of a mixture: x (B, T, C) and the router's y (B, T, 2 K) (gate.c); every token goes to
 * its K experts, y = sum of weight times what they make of it. An expert is a feed-forward layer
 *     act(x W1^T) W2^T,  W1 (H, C), W2 (C, H), act a gelu in its tanh form,
 * or, `gated`, (act(x Wa^T) (x Wb^T)) W2^T with W1 = Wa over Wb (2 H, C) and act silu, or as
 * gpt-oss has it (`clamped`, act.h); both products may have a bias. Lepikhin et al., GShard, ICLR
 * 2021; Jiang et al., Mixtral, 2024, arXiv:2401.04088.
 *
 * Tokens are sorted by expert, so that each expert does products over the rows that it has been
 * given, however many (dropless); with fewer slots than choices an expert takes slots / experts of
 * a sample, first choices first, and what is beyond contributes nothing.
 *
 * Experts may be spread over ranks (layer.spread): rows go to the rank of their expert and back,
 * two exchanges a pass (experts_exchange.c). A rank that has been sent rows keeps them, by sender
 * and then by expert; alone, what it keeps is in that order too. */
#include "exec/device/cpu/experts.h"

#include <string.h>

#include "exec/device/cpu/act.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/ring.h"

enum { CHUNK = 64 }; /* rows of a backward, which bounds its scratch */

/* ---- shapes */

void experts_size(struct layer *l)
{
    size_t inside = experts_wide(l) + l->moe.inner, here = l->moe.experts / l->spread.ranks;
    l->part[0].n = size_times(here, size_times(experts_wide(l), l->in));
    l->part[1].n = size_times(here, size_times(l->moe.inner, l->in));
    l->part[2].n = l->bias ? size_times(here, experts_wide(l)) : 0;
    l->part[3].n = l->bias && l->shard == 0 ? size_times(here, l->in) : 0;
    l->saved = size_plus(size_times(2 * l->tokens, l->moe.top_k),
                         size_times(size_times(l->spread.shards, l->spread.ranks), l->moe.experts));
    l->saved = size_plus(l->saved, size_times(l->moe.slots, l->in));
    if (l->spread.ranks == 1)
        l->saved = size_plus(l->saved, size_times(l->moe.slots, l->in + inside));
    l->work = size_plus(size_times(CHUNK, 2 * l->in + inside), l->moe.experts);
}

static enum status check_kind(const struct model_op *op, const struct layer *l)
{
    const char *what = NULL;
    if (model_attribute(op, "einsum", 0) != 0)
        what = "with one-hot dispatch masks (einsum)";
    if (layer_drops(l) && model_attribute(op, "group", 1) != 1)
        what = "with capacity limits that span several samples (group)";
    if (layer_drops(l) && l->moe.slots < l->moe.experts)
        what = "with fewer slots than experts";
    return what
               ? error_set(STATUS_UNSUPPORTED,
                           "op '%s': foreline run cannot compute kind '%s' %s; try --compute paced",
                           op->name, op->kind, what)
               : STATUS_OK;
}

static enum status experts_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_attribute(op, "inner", -1, 1, &l->moe.inner));
    PASS(layer_attribute(op, "experts", -1, 1, &l->moe.experts));
    PASS(layer_attribute(op, "top_k", -1, 1, &l->moe.top_k));
    PASS(layer_attribute(op, "slots", -1, 1, &l->moe.slots));
    PASS(layer_flag(op, "gated", &l->moe.gated));
    PASS(layer_flag(op, "bias", &l->bias));
    PASS(layer_flag(op, "clamped", &l->moe.clamped));
    l->moe.clamped = l->moe.clamped && l->moe.gated;
    PASS(check_kind(op, l));
    l->out = l->in;
    l->spread.ranks = 1;
    l->input = l->output = size_times(l->tokens, l->in);
    l->second = size_times(l->tokens, 2 * l->moe.top_k);
    l->part[0].fill = l->part[1].fill = FILL_NORMAL;
    l->part[2].fill = l->part[3].fill = FILL_ZERO;
    experts_size(l);
    return STATUS_OK;
}

/* ---- the experts here */

static size_t experts_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Where the biases of an expert are among the parameters: of the first product, and of the second,
 * which one shard has. */
static size_t experts_first_bias(const struct layer *l, size_t expert)
{
    return l->part[0].n + l->part[1].n + expert * experts_wide(l);
}
static size_t experts_second_bias(const struct layer *l, size_t expert)
{
    return l->part[0].n + l->part[1].n + l->part[2].n + expert * l->in;
}

/* Rows of n numbers, as wide as `bias`, which is added to each. */
static void add_bias(real *rows, size_t n, const real *bias, size_t width)
{
    for (size_t i = 0; i < n; i++)
        vector_add(rows + i * width, bias, width);
}

/* bias += all rows */
static void bias_backward(const real *rows, size_t n, real *bias, size_t width)
{
    for (size_t i = 0; i < n; i++)
        vector_add(bias, rows + i * width, width);
}

static void activate(const struct layer *l, const struct expert_rows *r)
{
    size_t h = l->moe.inner, w = experts_wide(l);
    for (size_t i = 0; i < r->n; i++)
        if (l->moe.clamped)
            act_clamped(r->inner + i * w, h, r->act + i * h);
        else if (l->moe.gated)
            act_gate(false, r->inner + i * w, h, r->act + i * h);
        else
            for (size_t k = 0; k < h; k++)
                r->act[i * h + k] = act_of(true, r->inner[i * h + k]);
}

static void activate_backward(const struct layer *l, const struct expert_rows *r, const real *d_act,
                              real *d_inner)
{
    size_t h = l->moe.inner, w = experts_wide(l);
    for (size_t i = 0; i < r->n; i++)
        if (l->moe.clamped)
            act_clamped_backward(r->inner + i * w, d_act + i * h, h, d_inner + i * w);
        else if (l->moe.gated)
            act_gate_backward(false, r->inner + i * w, d_act + i * h, h, d_inner + i * w);
        else
            for (size_t k = 0; k < h; k++)
                d_inner[i * h + k] = d_act[i * h + k] * act_slope(true, r->inner[i * h + k]);
}

/* Rows at .. at + n - 1 of what is kept belong to one expert, number `expert` of those here. */
void experts_forward(const struct layer *l, const struct layer_io *io, const struct expert_rows *r,
                     size_t expert, real *y)
{
    size_t c = l->in, h = l->moe.inner, w = experts_wide(l);
    const real *w1 = io->parameter + expert * w * c;
    const real *w2 = io->parameter + l->part[0].n + expert * c * h;
    struct gemm in =
        product(1, matrix(r->x, r->n, c, c), transposed(matrix(w1, w, c, c)), r->inner, w);
    struct gemm out = product(1, matrix(r->act, r->n, h, h), transposed(matrix(w2, c, h, h)), y, c);
    if (r->n == 0)
        return;
    gemm(&in);
    if (l->bias)
        add_bias(r->inner, r->n, io->parameter + experts_first_bias(l, expert), w);
    activate(l, r);
    gemm(&out);
    if (l->part[3].n > 0)
        add_bias(y, r->n, io->parameter + experts_second_bias(l, expert), c);
}

/* One chunk: dW2 += dy^T act, d act = dy W2, through the activation, dW1 += d inner^T x,
 * dx = d inner W1, which may take the place of dy. */
static void chunk_backward(const struct layer *l, struct layer_io *io, const struct expert_rows *r,
                           size_t expert, const real *dy, real *dx)
{
    size_t c = l->in, h = l->moe.inner, w = experts_wide(l), at1 = expert * w * c,
           at2 = l->part[0].n + expert * c * h;
    real *d_act = io->work + 2 * CHUNK * c, *d_inner = d_act + CHUNK * h;
    struct gemm_operand to = matrix(dy, r->n, c, c), inner = matrix(d_inner, r->n, w, w);
    struct gemm out_weight =
        product_added(transposed(to), matrix(r->act, r->n, h, h), io->d_parameter + at2, h);
    struct gemm out = product(1, to, matrix(io->parameter + at2, c, h, h), d_act, h);
    struct gemm in_weight =
        product_added(transposed(inner), matrix(r->x, r->n, c, c), io->d_parameter + at1, c);
    struct gemm in = product(1, inner, matrix(io->parameter + at1, w, c, c), dx, c);
    gemm(&out_weight);
    gemm(&out);
    activate_backward(l, r, d_act, d_inner);
    gemm(&in_weight);
    if (l->bias)
        bias_backward(d_inner, r->n, io->d_parameter + experts_first_bias(l, expert), w);
    if (l->part[3].n > 0)
        bias_backward(dy, r->n, io->d_parameter + experts_second_bias(l, expert), c);
    gemm(&in);
}

/* A chunk of one expert's rows from row `at` on. */
static struct expert_rows experts_chunk(const struct layer *l, const struct expert_rows *all,
                                        size_t at)
{
    return (struct expert_rows){experts_least(all->n - at, CHUNK), all->x + at * l->in,
                                all->inner + at * experts_wide(l), all->act + at * l->moe.inner};
}

void experts_backward(const struct layer *l, struct layer_io *io, const struct expert_rows *r,
                      size_t expert, const real *dy, real *dx)
{
    for (size_t at = 0; at < r->n; at += CHUNK) {
        const struct expert_rows chunk = experts_chunk(l, r, at);
        chunk_backward(l, io, &chunk, expert, dy + at * l->in, dx + at * l->in);
    }
}

/* ---- who goes where */

struct experts_kept experts_kept(const struct layer *l, const struct layer_io *io)
{
    size_t choices = io->batch * l->tokens * l->moe.top_k, rows = io->batch * l->moe.slots;
    size_t told = l->spread.ranks * l->moe.experts; /* numbers of a shard */
    real *counts = io->saved + 2 * choices, *y = counts + io->batch * l->spread.shards * told;
    struct experts_kept k = {.place = (int32_t *)(void *)io->saved,
                             .choice = (int32_t *)(void *)(io->saved + choices),
                             .counts =
                                 counts + ring_owned(l->spread.shards, l->spread.shard) * told,
                             .all_counts = counts,
                             .y = y};
    for (size_t e = 0; e < l->moe.experts; e++)
        k.n += (size_t)k.counts[e];
    if (l->spread.ranks == 1)
        k.rows = experts_rows(l, y + rows * l->in, rows);
    return k;
}

struct expert_rows experts_rows(const struct layer *l, real *data, size_t n)
{
    return (struct expert_rows){n, data, data + n * l->in, data + n * (l->in + experts_wide(l))};
}

size_t experts_row_size(const struct layer *l)
{
    return l->in + experts_wide(l) + l->moe.inner;
}

/* Choice k of token t of sample b: which expert, and its weight. */
static size_t experts_expert_at(const struct layer *l, const struct layer_io *io, size_t row,
                                size_t k)
{
    return (size_t)io->x[1][row * 2 * l->moe.top_k + k];
}
static real experts_weight(const struct layer *l, const struct layer_io *io, size_t row, size_t k)
{
    return io->x[1][row * 2 * l->moe.top_k + l->moe.top_k + k];
}

/* place [choices]: number of each choice among those of its expert, or -1; count [E]. An expert
 * has room for so many choices of a sample. scratch [E] */
static void experts_number_choices(const struct layer *l, const struct layer_io *io, int32_t *place,
                                   real *count, real *scratch)
{
    real room = (real)(layer_drops(l) ? l->moe.slots / l->moe.experts : l->tokens * l->moe.top_k);
    memset(count, 0, l->moe.experts * sizeof *count);
    for (size_t b = 0; b < io->batch; b++) {
        memcpy(scratch, count, l->moe.experts * sizeof *count); /* when the sample begins */
        for (size_t i = 0; i < l->moe.top_k * l->tokens; i++) { /* first choices first */
            size_t k = i / l->tokens, row = b * l->tokens + i % l->tokens;
            size_t e = experts_expert_at(l, io, row, k);
            bool fits = count[e] < scratch[e] + room;
            place[row * l->moe.top_k + k] = fits ? (int32_t)count[e] : -1;
            count[e] += fits;
        }
    }
}

/* From numbers within an expert to rows sorted by expert, and back: choice [rows]. */
static void sort_choices(const struct layer *l, const struct layer_io *io,
                         const struct experts_kept *k, real *first)
{
    for (size_t e = 0; e < l->moe.experts; e++)
        first[e] = e > 0 ? first[e - 1] + k->counts[e - 1] : 0;
    for (size_t i = 0; i < io->batch * l->tokens * l->moe.top_k; i++) {
        if (k->place[i] < 0)
            continue;
        k->place[i] += (int32_t)first[experts_expert_at(l, io, i / l->moe.top_k, i % l->moe.top_k)];
        k->choice[k->place[i]] = (int32_t)i;
    }
}

/* What an expert makes of its rows, weighted and added, best choice first. */
static void experts_combine(const struct layer *l, struct layer_io *io,
                            const struct experts_kept *kept)
{
    size_t c = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        real *y = io->y + row * c;
        memset(y, 0, c * sizeof *y);
        for (size_t k = 0; k < l->moe.top_k; k++) {
            int32_t at = kept->place[row * l->moe.top_k + k];
            const real *from = kept->y + (size_t)at * c;
            real weight = experts_weight(l, io, row, k);
            for (size_t i = 0; i < c && at >= 0; i++)
                y[i] += weight * from[i];
        }
    }
}

/* to [n rows] = x, or, `weighted`, weight times x, of those who chose sorted rows first .. */
void experts_gather(const struct layer *l, const struct layer_io *io, size_t first, size_t n,
                    const real *x, bool weighted, real *to)
{
    const struct experts_kept kept = experts_kept(l, io);
    for (size_t i = 0; i < n; i++, to += l->in) {
        size_t choice = (size_t)kept.choice[first + i], row = choice / l->moe.top_k;
        real weight = weighted ? experts_weight(l, io, row, choice % l->moe.top_k) : 1;
        const real *from = x + row * l->in;
        for (size_t c = 0; c < l->in; c++)
            to[c] = weight * from[c];
    }
}

/* The gradients of these rows are added to those of who chose them. */
void experts_scatter(const struct layer *l, struct layer_io *io, size_t first, size_t n,
                     const real *dx)
{
    const struct experts_kept kept = experts_kept(l, io);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)kept.choice[first + i] / l->moe.top_k;
        vector_add(io->dx[0] + row * l->in, dx + i * l->in, l->in);
    }
}

static void alone_forward(const struct layer *l, struct layer_io *io,
                          const struct experts_kept *kept)
{
    size_t at = 0;
    experts_gather(l, io, 0, kept->n, io->x[0], false, kept->rows.x);
    for (size_t e = 0; e < l->moe.experts; e++) {
        size_t n = (size_t)kept->counts[e];
        const struct expert_rows r = {n, kept->rows.x + at * l->in,
                                      kept->rows.inner + at * experts_wide(l),
                                      kept->rows.act + at * l->moe.inner};
        experts_forward(l, io, &r, e, kept->y + at * l->in);
        at += n;
    }
}

/* Rows of expert e, of all members of the group, or from here. */
static uint64_t experts_rows_of(const struct layer *l, const struct experts_kept *kept, size_t e,
                                bool all)
{
    uint64_t n = 0;
    for (size_t m = 0; m < l->spread.ranks; m++)
        n += all || m == l->spread.rank ? (uint64_t)kept->counts[m * l->moe.experts + e] : 0;
    return n;
}

static void count_rows(const struct layer *l, const struct layer_io *io,
                       const struct experts_kept *kept)
{
    struct layer_routing *to = io->routing;
    size_t experts = l->moe.experts;
    uint64_t all = 0;
    for (size_t e = 0; e < experts; e++) {
        to->rows[e] += experts_rows_of(l, kept, e, false);
        all += experts_rows_of(l, kept, e, true);
    }
    to->calls += all > 0;
    for (size_t k = 0; k < LAYER_SPREADS && experts % ((size_t)2 << k) == 0 && all > 0; k++) {
        size_t ranks = (size_t)2 << k, here = experts / ranks;
        uint64_t most = 0;
        for (size_t r = 0; r < ranks; r++) {
            uint64_t n = 0;
            for (size_t e = r * here; e < (r + 1) * here; e++)
                n += experts_rows_of(l, kept, e, true);
            most = n > most ? n : most;
        }
        to->busiest[k] += (double)most * (double)ranks / (double)all;
    }
}

static void experts_layer_forward(const struct layer *l, struct layer_io *io)
{
    struct experts_kept kept = experts_kept(l, io);
    real *scratch = io->work + l->work - l->moe.experts;
    experts_number_choices(l, io, kept.place, kept.counts, scratch);
    sort_choices(l, io, &kept, scratch);
    kept = experts_kept(l, io); /* now with its number of rows */
    if (l->spread.ranks > 1)
        experts_exchange_forward(l, io);
    else
        alone_forward(l, io, &kept);
    if (io->routing && !io->again)
        count_rows(l, io, &kept);
    experts_combine(l, io, &kept);
}

/* ---- backward */

/* Gradients of the router's weights: dy . what the expert made; of the numbers of experts: none. */
static void weights_backward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    size_t c = l->in, k_n = l->moe.top_k;
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t k = 0; k < k_n; k++) {
            int32_t at = kept.place[row * k_n + k];
            real *d = io->dx[1] + row * 2 * k_n;
            d[k] = 0;
            d[k_n + k] = at < 0 ? 0 : vector_dot(io->dy + row * c, kept.y + (size_t)at * c, c);
        }
}

static void alone_backward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    real *dy = io->work, *dx = dy + CHUNK * l->in;
    size_t first = 0;
    for (size_t e = 0; e < l->moe.experts; e++) {
        size_t n = (size_t)kept.counts[e];
        const struct expert_rows all = {n, kept.rows.x + first * l->in,
                                        kept.rows.inner + first * experts_wide(l),
                                        kept.rows.act + first * l->moe.inner};
        for (size_t at = 0; at < n; at += CHUNK) {
            const struct expert_rows chunk = experts_chunk(l, &all, at);
            experts_gather(l, io, first + at, chunk.n, io->dy, true, dy);
            chunk_backward(l, io, &chunk, e, dy, dx);
            experts_scatter(l, io, first + at, chunk.n, dx);
        }
        first += n;
    }
}

static void experts_layer_backward(const struct layer *l, struct layer_io *io)
{
    weights_backward(l, io);
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dy);
    if (l->spread.ranks > 1)
        experts_exchange_backward(l, io);
    else
        alone_backward(l, io);
}

/* Each expert by its inner width: rows of W1, of both halves where it is gated, and columns of W2.
 * The output and both gradients of inputs are sums over the shards, as of a column-parallel product
 * and a row-parallel one behind it. Or whole experts, spread over ranks. */
static enum status experts_divide(const struct model_op *op, const struct layer_shard *s,
                                  size_t batch, struct layer *l)
{
    (void)batch;
    size_t here = l->moe.experts / s->parts, inner = l->moe.inner,
           rows = experts_wide(l) / inner * l->moe.experts;
    if (l->moe.experts % s->parts != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': %zu experts cannot be divided over %zu ranks", op->name,
                         l->moe.experts, s->parts);
    l->spread.ranks = s->parts;
    l->spread.rank = s->part;
    l->moe.inner = shard_rows(inner, s);
    size_t first = shard_first(inner, s), in = s->part * (rows / s->parts) * inner * l->in;
    struct layer_part *w1 = &l->part[0], *w2 = &l->part[1], *b1 = &l->part[2], *b2 = &l->part[3];
    w1->from += in + first * l->in;
    w1->run = l->moe.inner * l->in;
    w1->stride = inner * l->in;
    w2->from += s->part * here * l->in * inner + first;
    w2->run = l->moe.inner;
    w2->stride = inner;
    b1->from += s->part * (rows / s->parts) * inner + first;
    b1->run = l->moe.inner;
    b1->stride = inner;
    b2->from += s->part * here * l->in;
    b2->run = b2->stride = here * l->in;
    l->shard = s->shard;
    experts_size(l);
    return STATUS_OK;
}

const struct layer_kind kind_experts = {.type = OPERATOR_experts,
                                        .inputs = 2,
                                        .shape = experts_shape,
                                        .forward = experts_layer_forward,
                                        .backward = experts_layer_backward,
                                        .divide = experts_divide,
                                        .resize = experts_size};
