/* Which operators have numerics; those that work number by number. */
#include <stdint.h>

#include "exec/device/sharded/kind.h"

enum status kind_misfit(const struct operator_call *c)
{
    return error_set(STATUS_INVALID, "operator '%s' (%s): the shapes of its tensors do not match",
                     c->node->name, c->node->kind);
}

void kind_zero(const struct operator_call *c, size_t n, real *to)
{
    c->on->memory.backend->zero(c->self, to, n * sizeof *to);
}

void kind_copy(const struct operator_call *c, size_t n, const real *from, real *to)
{
    c->on->memory.backend->copy(c->self, to, from, n * sizeof *to);
}

void kind_increase(const struct operator_call *c, size_t n, const real *from, real *to)
{
    c->on->memory.backend->add(c->self, to, from, n);
}

void kind_product(const struct operator_call *c, const struct kind_product *p)
{
    struct gemm g = product(p->alpha == 0 ? 1 : p->alpha, p->a, p->b, p->to, p->to_stride);
    struct product_steps steps = p->steps;
    steps.n = steps.n == 0 && steps.c == 0 ? 1 : steps.n;
    g.beta = p->adds ? 1 : 0;
    if (g.m > 0 && g.n > 0 && g.k > 0)
        c->does->product(c->self, &g, &steps);
    else if (g.m > 0 && g.n > 0 && !p->adds)
        for (size_t k = 0; k < steps.n * g.m; k++)
            kind_zero(c, g.n, p->to + k / g.m * steps.c + k % g.m * p->to_stride);
}

void kind_bias(const struct operator_call *c, size_t rows, size_t n, real factor, const real *b,
               real *y)
{
    const struct stride_spread s = spread_rows(rows, n, 0, n);
    c->does->spread(c->self, &s, factor, true, b, y);
}

void kind_bias_back(const struct operator_call *c, size_t rows, size_t n, real factor,
                    const real *dy, real *db)
{
    const struct row_sums s = {rows, n, n, 1, factor};
    c->does->sums(c->self, &s, dy, db);
}

/* ---- y = f(x) */

static void sigmoid_forward(struct operator_call *c)
{
    c->does->bend(c->self, BEND_SIGMOID, c->made[0].view.n, c->read[0].value, c->made[0].value);
}

static void sigmoid_backward(struct operator_call *c)
{
    c->does->bend_back(c->self, BEND_SIGMOID, c->made[0].view.n, c->made[0].value,
                       c->made[0].gradient, c->read[0].gradient);
}

static void sharded_relu_forward(struct operator_call *c)
{
    c->does->bend(c->self, BEND_RELU, c->made[0].view.n, c->read[0].value, c->made[0].value);
}

static void sharded_relu_backward(struct operator_call *c)
{
    c->does->bend_back(c->self, BEND_RELU, c->made[0].view.n, c->made[0].value, c->made[0].gradient,
                       c->read[0].gradient);
}

void kind_same(struct operator_call *c)
{
    kind_copy(c, c->made[0].view.n, c->read[0].value, c->made[0].value);
}

void kind_same_back(struct operator_call *c)
{
    kind_increase(c, c->made[0].view.n, c->made[0].gradient, c->read[0].gradient);
}

/* ---- dropout: what a number becomes is drawn by its place in the batch, whoever has it */

static const double dropped = 0.1;

static enum status dropout_check(const struct operator_call *c)
{
    bool fits = c->node->argument[0] < (int64_t)c->made[0].view.rank &&
                view_alike(&c->read[0].view, &c->made[0].view);
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t dropout_saved(const struct operator_call *c)
{
    return c->made[0].view.n;
}

static void dropout_forward(struct operator_call *c)
{
    struct view v = c->made[0].view;
    const struct drop d = {c->key, dropped, &v, c->read[0].value, c->saved, c->made[0].value};
    view_in_batch(&v, (size_t)c->node->argument[0], c->half, c->halves);
    c->does->drop(c->self, &d);
}

static void dropout_backward(struct operator_call *c)
{
    c->does->multiply(c->self, c->made[0].view.n, c->saved, c->made[0].gradient,
                      c->read[0].gradient);
}

/* ---- sums. Of two, the second is repeated over leading dimensions in which it has one. */

static enum status add_check(const struct operator_call *c)
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

/* How often the second is repeated. */
static size_t add_rows(const struct operator_call *c)
{
    size_t n = c->read[1].view.n;
    return n > 0 ? c->made[0].view.n / n : 0;
}

static void add_forward(struct operator_call *c)
{
    kind_same(c);
    kind_bias(c, add_rows(c), c->read[1].view.n, 1, c->read[1].value, c->made[0].value);
}

static void add_backward(struct operator_call *c)
{
    kind_same_back(c);
    kind_bias_back(c, add_rows(c), c->read[1].view.n, 1, c->made[0].gradient, c->read[1].gradient);
}

static struct start add_start(const struct operator_call *c, size_t k)
{
    (void)c;
    return kind_numbers(0, k == 1 ? 0.02 : 1);
}

static enum status sum_check(const struct operator_call *c)
{
    return c->made[0].view.n == 1 ? STATUS_OK : kind_misfit(c);
}

static void sum_forward(struct operator_call *c)
{
    c->does->total(c->self, c->read[0].view.n, c->read[0].value, c->made[0].value);
}

static void sum_backward(struct operator_call *c)
{
    const struct stride_spread all = {.rank = 1, .n = {c->read[0].view.n}, .from = {0}, .to = {1}};
    c->does->spread(c->self, &all, 1, true, c->made[0].gradient, c->read[0].gradient);
}

/* ---- the table */

const struct operator_kind sharded_sigmoid = {
    .reads = 1, .least = 1, .makes = 1, .forward = sigmoid_forward, .backward = sigmoid_backward};
const struct operator_kind sharded_relu = {.reads = 1,
                                           .least = 1,
                                           .makes = 1,
                                           .forward = sharded_relu_forward,
                                           .backward = sharded_relu_backward};
const struct operator_kind sharded_item = {.hidden = true,
                                           .reads = 1,
                                           .least = 1,
                                           .makes = 1,
                                           .forward = kind_same,
                                           .backward = kind_same_back};
const struct operator_kind sharded_dropout = {.reads = 1,
                                              .least = 1,
                                              .makes = 1,
                                              .arguments = 1,
                                              .check = dropout_check,
                                              .saved = dropout_saved,
                                              .forward = dropout_forward,
                                              .backward = dropout_backward};
const struct operator_kind sharded_add = {.reads = 2,
                                          .least = 2,
                                          .makes = 1,
                                          .check = add_check,
                                          .forward = add_forward,
                                          .backward = add_backward,
                                          .start = add_start};
const struct operator_kind sharded_sum = {.reads = 1,
                                          .least = 1,
                                          .makes = 1,
                                          .check = sum_check,
                                          .forward = sum_forward,
                                          .backward = sum_backward};

const struct operator_kind *kind_of(enum operator_type type)
{
    static const struct operator_kind *const kinds[OPERATORS] = {
#define YES(name) [OPERATOR_##name] = &sharded_##name,
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) shards(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES
    };
    return kinds[type];
}
