/* What operators of strategies are made of, on a GPU: self is its context. */
#include "exec/device/cuda/strategies.h"

#include <assert.h>

#include "exec/device/cuda/context.h"
#include "exec/device/sharded/arithmetic.h"

static_assert((size_t)KERNEL_RANK >= (size_t)SPREAD_RANK &&
                  (size_t)KERNEL_RANK >= (size_t)OPERATORS_RANK,
              "kernels have room for all dimensions");
static_assert(SUMS_WORK * sizeof(float) <= CUDA_WORKSPACE, "sums fit beside no product");

static void cuda_batched_gemm(void *self, const struct gemm *g, const struct product_steps *s)
{
    const struct cuda_gemm one = {*g, KERNEL_FP32, KERNEL_FP32};
    cuda_gemms(self, "product", &one, s);
}

/* Dimensions of one number are left out, and those that go on from one to the next in both arrays
 * joined. */
static struct kernel_strides cuda_merge_dimensions(const struct stride_spread *s)
{
    struct kernel_strides k = {.total = 1};
    for (size_t d = 0; d < s->rank; d++) {
        unsigned last = k.rank - 1;
        k.total *= s->n[d];
        if (s->n[d] == 1)
            continue;
        bool joins =
            k.rank > 0 && k.from[last] == s->n[d] * s->from[d] && k.to[last] == s->n[d] * s->to[d];
        if (!joins) {
            last = k.rank++;
            k.n[last] = 1;
        }
        k.n[last] *= s->n[d];
        k.from[last] = s->from[d];
        k.to[last] = s->to[d];
    }
    return k;
}

static void cuda_copy_strides(void *self, const struct stride_spread *s, real factor, bool adds,
                              const real *from, real *to)
{
    struct kernel_strides k = cuda_merge_dimensions(s);
    bool plain = factor == 1 && (k.rank == 0 || (k.rank == 1 && k.from[0] == 1 && k.to[0] == 1));
    k.factor = factor;
    k.adds = adds;
    if (plain && adds)
        backend_cuda.add(self, to, from, k.total);
    else if (plain)
        backend_cuda.copy(self, to, from, k.total * sizeof *to);
    else
        CUDA_NOTE(self, "spread", kernel_strides(&k, from, to));
}

static void cuda_row_sums(void *self, const struct row_sums *s, const real *x, real *out)
{
    struct cuda_context *c = self;
    const struct kernel_row_sums k = {s->rows, s->row, s->columns, s->column, s->factor};
    CUDA_NOTE(c, "sums of rows", kernel_row_sums(&k, x, out, c->workspace, c->tickets));
}

static void cuda_total(void *self, size_t n, const real *x, real *y)
{
    struct cuda_context *c = self;
    CUDA_NOTE(c, "sum", kernel_total(y, x, n, c->norm, c->tickets));
}

static void cuda_activation(void *self, enum bend how, size_t n, const real *x, real *y)
{
    CUDA_NOTE(self, "bend", kernel_bend(how == BEND_RELU, y, x, n));
}

static void cuda_activation_backward(void *self, enum bend how, size_t n, const real *y,
                                     const real *dy, real *dx)
{
    CUDA_NOTE(self, "bend backward", kernel_bend_backward(how == BEND_RELU, dx, y, dy, n));
}

static void cuda_multiply_add(void *self, size_t n, const real *a, const real *b, real *y)
{
    CUDA_NOTE(self, "multiply", kernel_multiplied(y, a, b, n));
}

static void cuda_dropout(void *self, const struct drop *d)
{
    const struct view *v = d->view;
    struct kernel_drop k = {
        .key = d->key, .chance = d->chance, .rank = (unsigned)v->rank, .n = v->n};
    for (size_t i = 0; i < v->rank; i++) {
        k.size[i] = v->size[i];
        k.first[i] = v->first[i];
        k.whole[i] = v->whole[i];
    }
    CUDA_NOTE(self, "dropout", kernel_drop(&k, d->x, d->saved, d->y));
}

/* The kernels want weight and bias, and their gradients, one after the other: both are in the
 * scratch. */
static struct kernel_norm cuda_sharded_norm_of(void *self, const struct row_norm *r)
{
    size_t bytes = r->n * sizeof(real);
    backend_cuda.copy(self, r->work, r->w, bytes);
    backend_cuda.copy(self, r->work + r->n, r->b, bytes);
    return (struct kernel_norm){.type = KERNEL_FP32,
                                .rows = r->rows,
                                .channels = r->n,
                                .x = r->x,
                                .parameter = r->work,
                                .saved = r->saved,
                                .adds = 1};
}

static void cuda_sharded_norm(void *self, const struct row_norm *r)
{
    struct cuda_context *c = self;
    if (r->rows * r->n == 0)
        return;
    const struct kernel_norm k = cuda_sharded_norm_of(c, r);
    CUDA_NOTE(c, "layer norm", kernel_norm(&k, r->y));
}

enum { NORM_WORK = 4 + 2 * NORM_PARTS };

static void cuda_sharded_norm_backward(void *self, const struct row_norm *r)
{
    struct cuda_context *c = self;
    if (r->rows * r->n == 0)
        return;
    const struct kernel_norm k = cuda_sharded_norm_of(c, r);
    real *gradient = r->work + 2 * r->n, *parts = gradient + 2 * r->n;
    backend_cuda.zero(c, gradient, 2 * r->n * sizeof *gradient);
    CUDA_NOTE(c, "layer norm backward",
              kernel_norm_backward(&k, r->dy, r->dx, gradient, parts, c->tickets));
    backend_cuda.add(c, r->dw, gradient, r->n);
    backend_cuda.add(c, r->db, gradient + r->n, r->n);
}

static void cuda_softmax(void *self, size_t rows, size_t n, const real *mask, size_t period,
                         real *x)
{
    CUDA_NOTE(self, "softmax", kernel_softmax(x, mask, rows, n, period));
}

static void cuda_softmax_backward(void *self, size_t rows, size_t n, const real *p, real *dp)
{
    CUDA_NOTE(self, "softmax backward", kernel_softmax_backward(dp, p, rows, n));
}

static void cuda_log_softmax(void *self, size_t rows, size_t n, const real *x, real *y)
{
    CUDA_NOTE(self, "log softmax", kernel_log_softmax(y, x, rows, n));
}

static void cuda_log_softmax_backward(void *self, size_t rows, size_t n, const real *y,
                                      const real *dy, real *dx)
{
    CUDA_NOTE(self, "log softmax backward", kernel_log_softmax_backward(dx, y, dy, rows, n));
}

static struct kernel_slots cuda_slots(const struct slot_routes *r)
{
    return (struct kernel_slots){r->samples, r->tokens,   r->experts, r->slots,
                                 r->top,     r->chance,   r->chosen,  r->picked,
                                 r->taken,   r->dispatch, r->combine};
}

static void cuda_route_slots(void *self, const struct slot_routes *r)
{
    const struct kernel_slots k = cuda_slots(r);
    backend_cuda.zero(self, r->chosen, r->samples * r->tokens * r->experts * sizeof *r->chosen);
    backend_cuda.zero(self, r->taken, r->samples * r->experts * sizeof *r->taken);
    CUDA_NOTE(self, "gate", kernel_slots(&k));
}

static void cuda_route_slots_backward(void *self, const struct slot_routes *r,
                                      const real *d_combine, real *d)
{
    const struct kernel_slots k = cuda_slots(r);
    CUDA_NOTE(self, "gate backward", kernel_slots_backward(&k, d_combine, d));
}

static struct kernel_lookups cuda_lookups(const struct lookups *l)
{
    return (struct kernel_lookups){l->n, l->rows, l->channels, l->x};
}

static void cuda_look_up(void *self, const struct lookups *l, const real *table, real *y)
{
    const struct kernel_lookups k = cuda_lookups(l);
    CUDA_NOTE(self, "embedding", kernel_look_up(&k, table, y));
}

static void cuda_look_up_backward(void *self, const struct lookups *l, const real *dy,
                                  real *d_table)
{
    const struct kernel_lookups k = cuda_lookups(l);
    CUDA_NOTE(self, "embedding backward", kernel_look_up_backward(&k, dy, d_table));
}

static struct kernel_picks cuda_picks(const struct picks *p)
{
    return (struct kernel_picks){p->samples, p->classes, p->places, p->y, p->share};
}

static void cuda_pick_target(void *self, const struct picks *p, const real *x, real *loss)
{
    struct cuda_context *c = self;
    const struct kernel_picks k = cuda_picks(p);
    CUDA_NOTE(c, "loss", kernel_pick(&k, x, loss, c->norm, c->tickets));
}

static void cuda_pick_target_backward(void *self, const struct picks *p, const real *d_loss,
                                      real *dx)
{
    const struct kernel_picks k = cuda_picks(p);
    CUDA_NOTE(self, "loss backward", kernel_pick_backward(&k, d_loss, dx));
}

/* The owner of the context reads its sum: *loss stays as it is. */
static void cuda_nll(void *self, const real *value, double samples, real *gradient, double *loss)
{
    struct cuda_context *c = self;
    (void)loss;
    CUDA_NOTE(c, "end", kernel_end(value, samples, gradient, c->loss));
}

const struct arithmetic arithmetic_cuda = {.norm_work = NORM_WORK,
                                           .product = cuda_batched_gemm,
                                           .spread = cuda_copy_strides,
                                           .sums = cuda_row_sums,
                                           .total = cuda_total,
                                           .bend = cuda_activation,
                                           .bend_back = cuda_activation_backward,
                                           .multiply = cuda_multiply_add,
                                           .drop = cuda_dropout,
                                           .norm = cuda_sharded_norm,
                                           .norm_back = cuda_sharded_norm_backward,
                                           .softmax = cuda_softmax,
                                           .softmax_back = cuda_softmax_backward,
                                           .log_softmax = cuda_log_softmax,
                                           .log_softmax_back = cuda_log_softmax_backward,
                                           .route = cuda_route_slots,
                                           .route_back = cuda_route_slots_backward,
                                           .look_up = cuda_look_up,
                                           .look_up_back = cuda_look_up_backward,
                                           .pick = cuda_pick_target,
                                           .pick_back = cuda_pick_target_backward,
                                           .end = cuda_nll};
