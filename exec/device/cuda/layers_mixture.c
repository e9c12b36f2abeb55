/* Layers of mixtures of experts on a GPU: mixture.h. */
#include "exec/device/cuda/experts.h"
#include "exec/device/cuda/layers.h"

/* ---- the gate: scores by cuBLAS, in fp32 */

/* saved: what weights are made of, then the gradients of scores, then groups and which are open. */
static void cuda_gate_sizes(struct layer *l)
{
    l->saved = size_times(l->tokens, 2 * l->moe.experts + 2 * l->gate.groups);
    l->work = size_times(COLUMN_PARTS, l->moe.experts);
}

static struct kernel_gate cuda_gate_of(const struct layer *l, const struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    return (struct kernel_gate){
        .type = cuda_type(l),
        .rows = rows,
        .experts = l->moe.experts,
        .top_k = l->moe.top_k,
        .groups = l->gate.groups,
        .group_top = l->gate.group_top,
        .over_all = l->gate.over_all,
        .sigmoid = l->gate.sigmoid,
        .corrects = l->gate.correction,
        .scale = (real)l->gate.scale,
        .added = l->bias || l->gate.correction ? io->parameter + l->part[0].n : NULL,
        .p = io->saved,
        .group = io->saved + 2 * rows * l->moe.experts,
    };
}

static struct gemm_operand gate_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->half ? io->half : io->parameter, l->moe.experts, l->in, l->in);
}

static void cuda_gate_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_gate k = cuda_gate_of(l, io);
    const struct gemm_operand x = matrix(io->x[0], k.rows, l->in, l->in);
    const struct cuda_gemm g = {
        .g = product(1, x, transposed(gate_weight(l, io)), k.p, l->moe.experts),
        .in = cuda_type(l)};
    cuda_gemm(io->on, "gate", &g);
    CUDA_NOTE(io->on, "gate", kernel_gate(&k, io->y));
}

static void cuda_gate_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_gate k = cuda_gate_of(l, io);
    real *scores = io->saved + k.rows * l->moe.experts;
    const struct gemm_operand ds = matrix(scores, k.rows, l->moe.experts, l->moe.experts);
    const struct gemm_operand x = matrix(io->x[0], k.rows, l->in, l->in);
    const struct cuda_gemm in = {.g = product(1, ds, gate_weight(l, io), io->dx[0], l->in),
                                 .in = cuda_type(l),
                                 .out = cuda_type(l)};
    const struct cuda_gemm weight = {.g = product_added(transposed(ds), x, io->d_parameter, l->in),
                                     .in = cuda_type(l)};
    CUDA_NOTE(io->on, "gate backward", kernel_gate_backward(&k, io->y, io->dy, scores));
    cuda_gemm(io->on, "gate backward", &in);
    cuda_gemm(io->on, "gate weight", &weight);
    if (l->bias)
        CUDA_NOTE(io->on, "gate bias",
                  kernel_columns(cuda_type(l), io->d_parameter + l->part[0].n, scores, k.rows,
                                 l->moe.experts, l->moe.experts, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_gate = {.type = OPERATOR_gate,
                                     .inputs = 1,
                                     .forward = cuda_gate_forward,
                                     .backward = cuda_gate_backward,
                                     .reads_output = true,
                                     .sizes = cuda_gate_sizes};

/* ---- the gate of one number per token */

static void cuda_token_gate_sizes(struct layer *l)
{
    l->saved = 2 * l->tokens;
    l->work = size_times(COLUMN_PARTS, l->in);
}

static struct kernel_token_gate cuda_token_gate_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_token_gate){
        .type = cuda_type(l),
        .rows = io->batch * l->tokens,
        .channels = l->in,
        .branch = io->x[0],
        .x = io->x[1],
        .weight = io->parameter,
        .saved = io->saved,
    };
}

static void cuda_token_gate_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_token_gate g = cuda_token_gate_of(l, io);
    CUDA_NOTE(io->on, "token gate", kernel_token_gate(&g, io->y));
}

static void cuda_token_gate_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_token_gate g = cuda_token_gate_of(l, io);
    CUDA_NOTE(io->on, "token gate backward",
              kernel_token_gate_backward(&g, io->dy, io->dx[0], io->dx[1]));
    CUDA_NOTE(io->on, "token gate weight",
              kernel_token_gate_weight(&g, io->d_parameter, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_token_gate = {.type = OPERATOR_token_gate,
                                           .inputs = 2,
                                           .forward = cuda_token_gate_forward,
                                           .backward = cuda_token_gate_backward,
                                           .sizes = cuda_token_gate_sizes};

/* ---- experts */

enum { EXPERT_ALIGNED = 4 }; /* reals: 16 bytes, which tensor cores want */

static size_t wide(const struct layer *l)
{
    return l->moe.gated ? 2 * l->moe.inner : l->moe.inner;
}

static size_t aligned_reals(size_t n)
{
    return size_times(size_plus(n, EXPERT_ALIGNED - 1) / EXPERT_ALIGNED, EXPERT_ALIGNED);
}

size_t cuda_experts_numbers(const struct layer *l, size_t batch)
{
    size_t choices = size_times(batch, size_times(l->tokens, l->moe.top_k));
    size_t n = size_plus(choices, size_times(batch, size_times(2, l->moe.slots)));
    n = size_plus(n, size_times(size_times(2, batch), l->moe.experts));
    return aligned_reals(size_plus(n, size_times(3, l->moe.experts + 1)));
}

/* Four arrays of rows, each at a multiple of 16 bytes. */
static size_t rows_room(const struct layer *l, size_t batch, size_t width, bool half)
{
    size_t n = size_times(size_times(batch, l->moe.slots), width);
    return aligned_reals(half ? n / 2 + 1 : n);
}

static void cuda_experts_sizes(struct layer *l)
{
    const size_t widths[] = {l->in, wide(l), l->moe.inner};
    if (l->spread.ranks > 1) {
        cuda_spread_sizes(l);
        return;
    }
    l->saved = size_plus(cuda_experts_numbers(l, 1), rows_room(l, 1, l->in, false));
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
        l->saved = size_plus(l->saved, rows_room(l, 1, widths[k], l->half));
    l->work = 0;
}

struct kernel_routes cuda_experts_routes(const struct layer *l, const struct layer_io *io)
{
    size_t choices = io->batch * l->tokens * l->moe.top_k, counts = io->batch * l->moe.experts;
    size_t most = io->batch * l->moe.slots;
    int32_t *at = (int32_t *)(void *)io->saved;
    return (struct kernel_routes){
        .type = cuda_type(l),
        .samples = io->batch,
        .tokens = l->tokens,
        .top_k = l->moe.top_k,
        .experts = l->moe.experts,
        .room = layer_drops(l) ? l->moe.slots / l->moe.experts : l->tokens * l->moe.top_k,
        .y = io->x[1],
        .place = at,
        .choice = at + choices,
        .count = at + choices + most,
        .first = at + choices + most + counts,
        .total = at + choices + most + 2 * counts,
        .begin = at + choices + most + 2 * counts + l->moe.experts + 1,
        .tile = at + choices + most + 2 * counts + 2 * (l->moe.experts + 1),
        .weight = io->saved + choices + most + 2 * counts + 3 * (l->moe.experts + 1),
    };
}

static struct experts_rows cuda_experts_kept(const struct layer *l, const struct layer_io *io)
{
    struct experts_rows k = {.r = cuda_experts_routes(l, io), .most = io->batch * l->moe.slots};
    k.x = io->saved + cuda_experts_numbers(l, io->batch);
    k.inside = k.x + rows_room(l, io->batch, l->in, l->half);
    k.act = k.inside + rows_room(l, io->batch, wide(l), l->half);
    k.y = k.act + rows_room(l, io->batch, l->moe.inner, l->half);
    return k;
}

/* Number n of the parameters as products read them. */
static const void *weight_at(const struct layer *l, const struct layer_io *io, size_t n)
{
    return l->half ? (const void *)((const uint16_t *)(const void *)io->half + n)
                   : (const void *)(io->parameter + n);
}

/* Where the second weights and both biases are among the parameters. */
static size_t second_at(const struct layer *l)
{
    return l->part[0].n;
}
static size_t cuda_experts_first_bias(const struct layer *l)
{
    return l->part[0].n + l->part[1].n;
}
static size_t cuda_experts_second_bias(const struct layer *l)
{
    return cuda_experts_first_bias(l) + l->part[2].n;
}

static void cuda_experts_multiply(const struct layer *l, const struct layer_io *io,
                                  const struct experts_rows *k, struct kernel_grouped g)
{
    g.type = cuda_type(l);
    g.tensor_cores = ((const struct cuda_context *)io->on)->tensor_cores;
    g.experts = k->r.experts;
    g.most = k->most;
    g.begin = k->r.begin;
    g.tile = k->r.tile;
    CUDA_NOTE(io->on, "products of experts", kernel_grouped(&g));
}

static enum mixture_act act_of(const struct layer *l)
{
    return l->moe.clamped ? ACT_CLAMPED : l->moe.gated ? ACT_GATED : ACT_GELU;
}

void cuda_experts_products(const struct layer *l, struct layer_io *io, const struct experts_rows *k)
{
    cuda_experts_multiply(
        l, io, k,
        (struct kernel_grouped){.form = GROUPED_FORWARD,
                                .n = wide(l),
                                .k = l->in,
                                .a = k->x,
                                .b = weight_at(l, io, 0),
                                .bias = l->bias ? io->parameter + cuda_experts_first_bias(l) : NULL,
                                .act = act_of(l),
                                .c = k->inside,
                                .made = k->act});
    cuda_experts_multiply(
        l, io, k,
        (struct kernel_grouped){
            .form = GROUPED_FORWARD,
            .wide = true,
            .n = l->in,
            .k = l->moe.inner,
            .a = k->act,
            .b = weight_at(l, io, second_at(l)),
            .bias = l->part[3].n > 0 ? io->parameter + cuda_experts_second_bias(l) : NULL,
            .c = k->y});
}

static void cuda_experts_forward(const struct layer *l, struct layer_io *io)
{
    const struct experts_rows k = cuda_experts_kept(l, io);
    CUDA_NOTE(io->on, "routes", kernel_routes(&k.r));
    CUDA_NOTE(io->on, "rows to experts", kernel_route_rows(&k.r, k.most, l->in, io->x[0], k.x));
    cuda_experts_products(l, io, &k);
    CUDA_NOTE(io->on, "rows from experts", kernel_route_back(&k.r, l->in, k.y, true, io->y));
}

/* The weights of rows are in the second operand of the gradient of second weights, which is made
 * again from what was inside: it is rounded once, as dy is not. */
void cuda_experts_products_backward(const struct layer *l, struct layer_io *io,
                                    const struct experts_rows *k)
{
    const struct kernel_grouped second = {
        .form = GROUPED_WEIGHT, .n = l->in, .k = l->moe.inner, .a = k->y, .b = k->act};
    const struct kernel_grouped first = {
        .form = GROUPED_WEIGHT, .n = wide(l), .k = l->in, .a = k->inside, .b = k->x};
    struct kernel_grouped g = second;
    CUDA_NOTE(io->on, "inside of experts",
              kernel_inside(&k->r, act_of(l), k->most, l->moe.inner, k->inside, k->act));
    g.c = io->d_parameter + second_at(l);
    cuda_experts_multiply(l, io, k, g);
    if (l->part[3].n > 0)
        CUDA_NOTE(io->on, "bias of experts",
                  kernel_expert_columns(&k->r, l->in, k->y, true,
                                        io->d_parameter + cuda_experts_second_bias(l)));
    g.form = GROUPED_BACKWARD;
    g.b = weight_at(l, io, second_at(l));
    g.c = k->inside;
    g.act = act_of(l);
    g.weight = k->r.weight;
    cuda_experts_multiply(l, io, k, g);
    g = first;
    g.c = io->d_parameter;
    cuda_experts_multiply(l, io, k, g);
    if (l->bias)
        CUDA_NOTE(io->on, "bias of experts",
                  kernel_expert_columns(&k->r, wide(l), k->inside, false,
                                        io->d_parameter + cuda_experts_first_bias(l)));
    g.form = GROUPED_BACKWARD;
    g.b = weight_at(l, io, 0);
    g.c = k->y;
    g.wide = true;
    cuda_experts_multiply(l, io, k, g);
}

static void cuda_experts_backward(const struct layer *l, struct layer_io *io)
{
    const struct experts_rows k = cuda_experts_kept(l, io);
    CUDA_NOTE(io->on, "weights of experts",
              kernel_route_weights(&k.r, l->in, io->dy, k.y, io->dx[1]));
    CUDA_NOTE(io->on, "gradients to experts", kernel_route_rows(&k.r, k.most, l->in, io->dy, k.y));
    cuda_experts_products_backward(l, io, &k);
    CUDA_NOTE(io->on, "gradients from experts",
              kernel_route_back(&k.r, l->in, k.y, false, io->dx[0]));
}

const struct layer_kind cuda_experts = {.type = OPERATOR_experts,
                                        .inputs = 2,
                                        .forward = cuda_experts_forward,
                                        .backward = cuda_experts_backward,
                                        .sizes = cuda_experts_sizes};
