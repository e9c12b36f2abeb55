/* Which operators have numerics; those that work number by number. */
#include <stdint.h>
#include <string.h>

#include "core/random.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

enum status kind_misfit(const struct call *c)
{
    return error_set(STATUS_INVALID, "'%s' (%s): shapes do not fit together", c->node->name,
                     c->node->kind);
}

void kind_product(real alpha, const struct matrix *a, const struct matrix *b, bool adds, real *c,
                  size_t c_stride)
{
    struct gemm g = product(alpha, *a, *b, c, c_stride);
    g.beta = adds ? 1 : 0;
    if (g.m > 0 && g.n > 0 && g.k > 0) {
        gemm(&g);
        return;
    }
    for (size_t row = 0; row < g.m && g.n > 0 && !adds; row++)
        memset(c + row * c_stride, 0, g.n * sizeof *c);
}

/* ---- y = f(x) */

static void sigmoid_forward(struct call *c)
{
    const real *x = c->read[0].value;
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->made[0].value[i] = 1 / (1 + vector_exp(-x[i]));
}

static void sigmoid_backward(struct call *c)
{
    const real *y = c->made[0].value, *dy = c->made[0].gradient;
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->read[0].gradient[i] += dy[i] * y[i] * (1 - y[i]);
}

static void relu_forward(struct call *c)
{
    const real *x = c->read[0].value;
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->made[0].value[i] = x[i] > 0 ? x[i] : 0;
}

static void relu_backward(struct call *c)
{
    const real *y = c->made[0].value, *dy = c->made[0].gradient;
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->read[0].gradient[i] += y[i] > 0 ? dy[i] : 0;
}

static void same_forward(struct call *c)
{
    memcpy(c->made[0].value, c->read[0].value, c->made[0].view.n * sizeof(real));
}

static void same_backward(struct call *c)
{
    vector_add(c->read[0].gradient, c->made[0].gradient, c->made[0].view.n);
}

/* ---- dropout: what a number becomes is drawn by its place in the batch, whoever has it */

static const double dropped = 0.1;

static enum status dropout_check(const struct call *c)
{
    bool fits = c->node->argument[0] < (int64_t)c->made[0].view.rank &&
                view_alike(&c->read[0].view, &c->made[0].view);
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t dropout_saved(const struct call *c)
{
    return c->made[0].view.n;
}

static void dropout_forward(struct call *c)
{
    struct view v = c->made[0].view;
    view_in_batch(&v, (size_t)c->node->argument[0], c->half, c->halves);
    for (size_t i = 0; i < v.n; i++) {
        bool drops = random_unit(c->key, view_index(&v, i)) < dropped;
        c->saved[i] = drops ? 0 : (real)(1 / (1 - dropped));
        c->made[0].value[i] = c->saved[i] * c->read[0].value[i];
    }
}

static void dropout_backward(struct call *c)
{
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->read[0].gradient[i] += c->saved[i] * c->made[0].gradient[i];
}

/* ---- sums. Of two, the second is repeated over leading dimensions in which it has one. */

static enum status add_check(const struct call *c)
{
    const struct view *y = &c->made[0].view, *b = &c->read[1].view;
    bool fits = view_alike(&c->read[0].view, y) && b->rank == y->rank;
    size_t d = 0;
    while (fits && d < b->rank && b->whole[d] == 1 && b->size[d] == 1)
        d++;
    for (; fits && d < b->rank; d++)
        fits = b->size[d] == y->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void add_forward(struct call *c)
{
    size_t n = c->read[1].view.n;
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->made[0].value[i] = c->read[0].value[i] + c->read[1].value[i % n];
}

static void add_backward(struct call *c)
{
    size_t n = c->read[1].view.n;
    vector_add(c->read[0].gradient, c->made[0].gradient, c->made[0].view.n);
    for (size_t i = 0; i < c->made[0].view.n; i += n)
        vector_add(c->read[1].gradient, c->made[0].gradient + i, n);
}

static struct start add_start(const struct call *c, size_t k)
{
    (void)c;
    return kind_numbers(0, k == 1 ? 0.02 : 1);
}

static enum status sum_check(const struct call *c)
{
    return c->made[0].view.n == 1 ? STATUS_OK : kind_misfit(c);
}

static void sum_forward(struct call *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->read[0].view.n; i++)
        sum += (double)c->read[0].value[i];
    c->made[0].value[0] = (real)sum;
}

static void sum_backward(struct call *c)
{
    for (size_t i = 0; i < c->read[0].view.n; i++)
        c->read[0].gradient[i] += c->made[0].gradient[0];
}

/* ---- the table */

static const struct kind kind_sigmoid = {.name = "sigmoid",
                                         .reads = 1,
                                         .least = 1,
                                         .makes = 1,
                                         .forward = sigmoid_forward,
                                         .backward = sigmoid_backward};
static const struct kind kind_relu = {.name = "relu",
                                      .reads = 1,
                                      .least = 1,
                                      .makes = 1,
                                      .forward = relu_forward,
                                      .backward = relu_backward};
static const struct kind kind_item = {.name = "item",
                                      .reads = 1,
                                      .least = 1,
                                      .makes = 1,
                                      .forward = same_forward,
                                      .backward = same_backward};
static const struct kind kind_dropout = {.name = "dropout",
                                         .reads = 1,
                                         .least = 1,
                                         .makes = 1,
                                         .arguments = 1,
                                         .check = dropout_check,
                                         .saved = dropout_saved,
                                         .forward = dropout_forward,
                                         .backward = dropout_backward};
static const struct kind kind_add = {.name = "add",
                                     .reads = 2,
                                     .least = 2,
                                     .makes = 1,
                                     .check = add_check,
                                     .forward = add_forward,
                                     .backward = add_backward,
                                     .start = add_start};
static const struct kind kind_sum = {.name = "sum",
                                     .reads = 1,
                                     .least = 1,
                                     .makes = 1,
                                     .check = sum_check,
                                     .forward = sum_forward,
                                     .backward = sum_backward};

const struct kind *kind_find(const char *name)
{
    static const struct kind *const kinds[] = {
        &kind_sigmoid,         &kind_relu,          &kind_item,
        &kind_dropout,         &kind_add,           &kind_sum,
        &sharded_linear,       &sharded_dispatch,   &sharded_combine,
        &sharded_expert_in,    &sharded_expert_out, &sharded_layer_norm,
        &sharded_transpose,    &sharded_attention,  &sharded_gate,
        &sharded_embedding,    &sharded_mul,        &sharded_log_softmax,
        &sharded_nll_loss,     &sharded_conv2d,     &sharded_flatten,
        &sharded_append_class, &sharded_get_class,
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}
