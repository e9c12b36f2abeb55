/* The layers of exec/device/cpu on a GPU. Shapes, formulas and sources are there. */
#include <math.h>

#include "exec/corpus.h"
#include "exec/device/cuda/layers.h"
#include "exec/device/cuda/mixture.h"
#include "exec/device/gpu.h"

/* ---- linear */

/* Numbers from one row of the output to the next. */
static size_t cuda_row_of(const struct layer *l)
{
    return l->row > 0 ? l->row : l->out;
}

/* (out, in), the layer's own or borrowed, in the type of the activations. */
static struct gemm_operand cuda_linear_weight(const struct layer *l, const struct layer_io *io)
{
    const real *weight =
        l->half ? (l->tied ? io->half_shared : io->half) : (l->tied ? io->shared : io->parameter);
    return matrix(weight, layer_product_out(l), layer_product_in(l), layer_product_in(l));
}

/* Of the bias among the parameters. */
static size_t bias_at(const struct layer *l)
{
    return l->tied ? 0 : layer_product_in(l) * layer_product_out(l);
}

static void cuda_linear_pass_on(const struct layer *l, const struct layer_io *io, const real *from,
                                size_t from_width, real *to, size_t to_width)
{
    if (l->passed > 0)
        CUDA_NOTE(io->on, "linear",
                  kernel_pass_on(cuda_type(l), to, to_width, from, from_width,
                                 io->batch * l->tokens, l->passed));
}

/* y (BT, out) = x (BT, in) weight^T */
static struct cuda_gemm cuda_forward_of(const struct layer *l, const struct layer_io *io, real *y)
{
    const struct gemm_operand x =
        matrix(io->x[0], io->batch * l->tokens, layer_product_in(l), l->in);
    return (struct cuda_gemm){
        .g = product(1, x, transposed(cuda_linear_weight(l, io)), y, cuda_row_of(l)),
        .in = cuda_type(l),
        .out = cuda_type(l)};
}

/* The bias in 16 bits; NULL: the layer is not. */
static const void *half_bias(const struct layer *l, const struct layer_io *io)
{
    return l->half ? (const uint16_t *)(const void *)io->half + bias_at(l) : NULL;
}

/* y + bias [out] */
static void cuda_linear_forward(const struct layer *l, struct layer_io *io)
{
    const struct cuda_gemm g = cuda_forward_of(l, io, io->y);
    const struct cuda_after bias = {.what = EPILOGUE_BIAS, .bias = half_bias(l, io)};
    bool done = l->bias && cuda_gemm_after(io->on, "linear", &g, &bias);
    if (!done)
        cuda_gemm(io->on, "linear", &g);
    if (l->bias && !done)
        CUDA_NOTE(io->on, "linear",
                  kernel_bias(cuda_type(l), io->y, io->parameter + bias_at(l),
                              io->batch * l->tokens, layer_product_out(l), cuda_row_of(l)));
    cuda_linear_pass_on(l, io, io->x[0], l->in, io->y, l->out);
}

static bool is_gelu(const struct layer *l);

static bool linear_with_gelu(const struct layer *l, struct layer_io *io, const struct layer *next,
                             struct layer_io *of_next)
{
    if (!l->bias || l->passed > 0 || !is_gelu(next))
        return false;
    const struct cuda_gemm g = cuda_forward_of(l, io, of_next->y);
    const struct cuda_after both = {EPILOGUE_GELU, half_bias(l, io), io->y};
    return cuda_gemm_after(io->on, "linear and gelu", &g, &both);
}

/* dx (BT, in) = dy (BT, out) weight */
static struct cuda_gemm backward_of(const struct layer *l, const struct layer_io *io, real *dx)
{
    const struct gemm_operand dy =
        matrix(io->dy, io->batch * l->tokens, layer_product_out(l), cuda_row_of(l));
    return (struct cuda_gemm){.g = product(1, dy, cuda_linear_weight(l, io), dx, l->in),
                              .in = cuda_type(l),
                              .out = cuda_type(l)};
}

static void cuda_linear_backward(const struct layer *l, struct layer_io *io)
{
    const struct cuda_gemm g = backward_of(l, io, io->dx[0]);
    cuda_gemm(io->on, "linear backward", &g);
    cuda_linear_pass_on(l, io, io->dy, l->out, io->dx[0], l->in);
}

static bool linear_backward_with_gelu(const struct layer *l, struct layer_io *io,
                                      const struct layer *before, struct layer_io *of_before)
{
    if (l->passed > 0 || !is_gelu(before))
        return false;
    const struct cuda_gemm g = backward_of(l, io, of_before->dx[0]);
    const struct cuda_after slope = {.what = EPILOGUE_GELU_BACKWARD,
                                     .gelu = (void *)(uintptr_t)of_before->x[0]};
    return cuda_gemm_after(io->on, "linear and gelu backward", &g, &slope);
}

/* Into gradients in fp32. */
static void cuda_linear_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    const struct gemm_operand dy = matrix(io->dy, rows, layer_product_out(l), cuda_row_of(l));
    const struct gemm_operand x = matrix(io->x[0], rows, layer_product_in(l), l->in);
    real *to = l->tied ? io->d_shared : io->d_parameter;
    const struct cuda_gemm g = {.g = product_added(transposed(dy), x, to, layer_product_in(l)),
                                .in = cuda_type(l)};
    cuda_gemm(io->on, "linear weight", &g);
    if (l->bias)
        CUDA_NOTE(io->on, "linear bias",
                  kernel_columns(cuda_type(l), io->d_parameter + bias_at(l), io->dy, rows,
                                 layer_product_out(l), cuda_row_of(l), io->work, cuda_tickets(io)));
}

/* ---- layernorm, and RMSNorm of whole rows */

static struct kernel_norm cuda_norm_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_norm){
        .type = cuda_type(l),
        .rows = io->batch * l->tokens,
        .channels = l->in,
        .root = l->normal > 0, /* layernorms have none */
        .offset = l->offset,
        .x = io->x[0],
        .parameter = io->parameter,
        .saved = io->saved,
        .adds = io->adds,
    };
}

static void cuda_norm_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_norm n = cuda_norm_of(l, io);
    CUDA_NOTE(io->on, "norm", kernel_norm(&n, io->y));
}

static void cuda_norm_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_norm n = cuda_norm_of(l, io);
    CUDA_NOTE(
        io->on, "norm backward",
        kernel_norm_backward(&n, io->dy, io->dx[0], io->d_parameter, io->work, cuda_tickets(io)));
}

/* ---- gelu, residual */

CUDA_POINTWISE(gelu)

static void cuda_residual_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "residual",
              kernel_sum(cuda_type(l), io->y, io->x[0], io->x[1], io->batch * l->output));
}

/* Nothing where the gradients have one place. */
static void cuda_residual_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t i = 0; i < l->inputs; i++)
        if (io->dx[i] != io->dy)
            backend_cuda.copy(io->on, io->dx[i], io->dy,
                              layer_room(l, io->batch * l->input) * sizeof(real));
}

static bool is_norm(const struct layer *l);
static bool cuda_is_linear(const struct layer *l);

/* The sum and its norm: it is not read again. */
static bool residual_with_norm(const struct layer *l, struct layer_io *io, const struct layer *next,
                               struct layer_io *of_next)
{
    (void)l;
    if (!is_norm(next))
        return false;
    struct kernel_norm n = cuda_norm_of(next, of_next);
    n.x = io->x[0];
    n.other = io->x[1];
    n.sum = io->y;
    CUDA_NOTE(io->on, "residual and norm", kernel_norm(&n, of_next->y));
    return true;
}

/* ---- embedding */

static struct kernel_table table_of(const struct layer *l, size_t k)
{
    struct kernel_table t = {.first = l->first[k], .rows = l->part[k].n / l->out};
    for (size_t i = 0; i < k; i++)
        t.start += l->part[i].n;
    return t;
}

static struct kernel_embedding embedding_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_embedding){
        .type = cuda_type(l),
        .place = cuda_place(l),
        .samples = io->batch,
        .tokens = l->tokens,
        .channels = l->out,
        .values = CORPUS_VOCABULARY, /* of the data; the table may have more rows */
        .token = io->token,
        .value = table_of(l, 0),
        .position = table_of(l, 1),
        .segment = table_of(l, 2),
        .factor = l->scaled ? (float)sqrt((double)l->out) : 1,
    };
}

static void cuda_embedding_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_embedding e = embedding_of(l, io);
    CUDA_NOTE(io->on, "embedding", kernel_embedding(&e, io->parameter, io->y));
}

static void cuda_embedding_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_embedding e = embedding_of(l, io);
    CUDA_NOTE(io->on, "embedding backward",
              kernel_embedding_backward(&e, io->dy, io->d_parameter, io->work, cuda_tickets(io)));
}

/* ---- loss: the sum stays on the GPU */

static struct kernel_loss loss_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_loss){
        .type = cuda_type(l),
        .rows = io->batch * l->tokens,
        .columns = l->in,
        .row = l->row > 0 ? l->row : l->in,
        .first = l->first[0],
        .shards = l->shards,
        .shard = l->shard,
        .x = io->x[0],
        .target = io->target,
        .part = io->work,
        .saved = io->saved,
        .scale = io->scale,
    };
}

/* Shards tell each other what they have seen as exec/device/cpu/loss.c does; the first one has the
 * loss, which is a mean over the step also where every microbatch makes an update of its own. */
static void cuda_loss_forward(const struct layer *l, struct layer_io *io)
{
    struct cuda_context *c = io->on;
    struct kernel_loss k = loss_of(l, io);
    if (l->shards > 1) {
        CUDA_NOTE(c, "loss", kernel_loss_look(&k));
        io->reduction->sum(io->reduction->self, ELEMENT_FP32, k.part, 3 * k.rows * k.shards);
        CUDA_NOTE(c, "loss", kernel_loss_join(&k));
    } else {
        CUDA_NOTE(c, "loss", kernel_loss_row(&k, io->dx[0] == io->x[0]));
    }
    k.scale = io->loss_scale;
    if (l->shard == 0 && !io->again)
        CUDA_NOTE(c, "loss", kernel_loss_sum(&k, c->loss));
}

/* Only a product's result, which its backward does not look at. */
static bool loss_overwrites(const struct layer *l, const struct layer *before)
{
    return l->shards == 1 && cuda_is_linear(before);
}

/* A vocabulary is seldom a multiple of what tensor cores read at once: a line of the cache. */
static size_t cuda_loss_row(const struct layer *l, const struct layer *before)
{
    enum { LINE = 64 };
    bool free = loss_overwrites(l, before) && before->passed == 0;
    return free ? size_plus(l->in, LINE - 1) / LINE * LINE : 0;
}

static void cuda_loss_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_loss k = loss_of(l, io);
    if (io->dx[0] != io->x[0]) /* else the forward has made it */
        CUDA_NOTE(io->on, "loss backward", kernel_loss_backward(&k, io->dx[0]));
}

/* ---- which layer is what, and keeps what */

void cuda_column_sizes(struct layer *l)
{
    l->work = size_times(COLUMN_PARTS, l->out);
}

static void norm_sizes(struct layer *l)
{
    l->work = size_times(2 * NORM_PARTS, l->in);
}

static void loss_sizes(struct layer *l)
{
    l->saved = 3 * l->tokens;
    l->work = l->shards > 1 ? l->work - l->in : 0; /* the CPU's row, then `part` */
}

const struct layer_kind cuda_linear = {.type = OPERATOR_linear,
                                       .inputs = 1,
                                       .forward = cuda_linear_forward,
                                       .forward_with = linear_with_gelu,
                                       .backward = cuda_linear_backward,
                                       .backward_with = linear_backward_with_gelu,
                                       .backward_weight = cuda_linear_backward_weight,
                                       .sizes = cuda_column_sizes};
const struct layer_kind cuda_layernorm = {.type = OPERATOR_layernorm,
                                          .inputs = 1,
                                          .forward = cuda_norm_forward,
                                          .backward = cuda_norm_backward,
                                          .adds = true,
                                          .sizes = norm_sizes};
static const struct layer_kind root = {
    .type = OPERATOR_rmsnorm,
    .inputs = 1,
    .forward = cuda_norm_forward,
    .backward = cuda_norm_backward,
    .adds = true,
};
const struct layer_kind cuda_gelu = {.type = OPERATOR_gelu,
                                     .inputs = 1,
                                     .forward = cuda_gelu_forward,
                                     .backward = cuda_gelu_backward};
const struct layer_kind cuda_residual = {
    .type = OPERATOR_residual,
    .inputs = 2,
    .forward = cuda_residual_forward,
    .forward_with = residual_with_norm,
    .backward = cuda_residual_backward,
    .passes = true,
};
const struct layer_kind cuda_embedding = {.type = OPERATOR_embedding,
                                          .forward = cuda_embedding_forward,
                                          .backward = cuda_embedding_backward,
                                          .sizes = cuda_column_sizes};
const struct layer_kind cuda_loss = {.type = OPERATOR_loss,
                                     .inputs = 1,
                                     .forward = cuda_loss_forward,
                                     .backward = cuda_loss_backward,
                                     .overwrites = loss_overwrites,
                                     .row = cuda_loss_row,
                                     .sizes = loss_sizes};

static bool cuda_is_linear(const struct layer *l)
{
    return l->kind == &cuda_linear;
}

static bool is_gelu(const struct layer *l)
{
    return l->kind == &cuda_gelu;
}

static bool is_norm(const struct layer *l)
{
    return l->kind == &cuda_layernorm || l->kind == &root;
}

/* One root for a whole row, and a weight for each of its channels. */
static bool cuda_is_whole(const struct layer *l)
{
    return l->head == 0 && l->queries == l->in && l->normal == l->in;
}

void cuda_rmsnorm_sizes(struct layer *l)
{
    if (!cuda_is_whole(l)) {
        cuda_rms_sizes(l);
        return;
    }
    l->kind = &root;
    l->saved = 2 * l->tokens;
    l->work = size_times(NORM_PARTS, l->in);
}

/* shape() of the CPU's kinds stays right; only what is kept and scratch differ: sizes(). */
static const struct layer_kind *const kinds[OPERATORS] = {
#define YES(name) [OPERATOR_##name] = &cuda_##name,
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) cuda(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES
};

bool cuda_has(enum operator_type type)
{
    return kinds[type] && kinds[type]->type == type;
}

enum status cuda_adapt(const struct model_op *op, struct layer *l)
{
    const struct layer_kind *kind = kinds[l->kind->type];
    if (!kind)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': the GPU has no kernels for kind '%s'; try --device cpu",
                         op->name ? op->name : "", op->kind);
    PASS(gpu_fits(op, l));
    l->kind = kind;
    if (kind->sizes)
        kind->sizes(l);
    return STATUS_OK;
}
