/* Words in and out: rows of a table, and what the right word's probability says. A number that counts no
 * row or class is nothing: it reads zeros, and it is not predicted. */
#include <math.h>
#include <string.h>

#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

/* Which of n a number counts; n: none of them. */
static size_t counted(real number, size_t n)
{
    return number >= 0 && (double)number < (double)n ? (size_t)number : n;
}

/* ---- embedding: y (..., channels) = rows of a table (rows, channels) that x (...) counts */

static enum status embedding_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *table = &c->read[1].view, *y = &c->made[0].view;
    bool fits = table->rank == 2 && y->rank == x->rank + 1 && y->size[x->rank] == table->size[1] &&
                table->size[0] == table->whole[0];
    for (size_t d = 0; fits && d < x->rank; d++)
        fits = x->size[d] == y->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void embedding_forward(struct call *c)
{
    size_t rows = c->read[1].view.size[0], n = c->read[1].view.size[1];
    for (size_t i = 0; i < c->read[0].view.n; i++) {
        size_t row = counted(c->read[0].value[i], rows);
        real *y = c->made[0].value + i * n;
        if (row < rows)
            memcpy(y, c->read[1].value + row * n, n * sizeof *y);
        else
            memset(y, 0, n * sizeof *y);
    }
}

static void embedding_backward(struct call *c)
{
    size_t rows = c->read[1].view.size[0], n = c->read[1].view.size[1];
    for (size_t i = 0; i < c->read[0].view.n; i++) {
        size_t row = counted(c->read[0].value[i], rows);
        if (row < rows)
            vector_add(c->read[1].gradient + row * n, c->made[0].gradient + i * n, n);
    }
}

static struct start embedding_start(const struct call *c, size_t k)
{
    if (k == 0)
        return (struct start){.source = SOURCE_TOKENS, .of = c->read[1].view.whole[0]};
    return kind_numbers(0, 0.1);
}

const struct kind sharded_embedding = {.name = "embedding",
                                       .reads = 2,
                                       .least = 2,
                                       .makes = 1,
                                       .check = embedding_check,
                                       .forward = embedding_forward,
                                       .backward = embedding_backward,
                                       .start = embedding_start};

/* ---- mul: by the root of the argument, as embeddings are by that of their channels (Vaswani et al.,
 * NeurIPS 2017, 3.4) */

static void mul_forward(struct call *c)
{
    real factor = (real)sqrt((double)c->node->argument[0]);
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->made[0].value[i] = factor * c->read[0].value[i];
}

static void mul_backward(struct call *c)
{
    real factor = (real)sqrt((double)c->node->argument[0]);
    for (size_t i = 0; i < c->made[0].view.n; i++)
        c->read[0].gradient[i] += factor * c->made[0].gradient[i];
}

const struct kind sharded_mul = {.name = "mul",
                                 .reads = 1,
                                 .least = 1,
                                 .makes = 1,
                                 .arguments = 1,
                                 .forward = mul_forward,
                                 .backward = mul_backward};

/* ---- log_softmax over the last dimension */

static enum status log_softmax_check(const struct call *c)
{
    const struct view *x = &c->read[0].view;
    bool fits = x->rank > 0 && view_alike(x, &c->made[0].view) &&
                (size_t)c->node->argument[0] == x->rank - 1 &&
                x->size[x->rank - 1] == x->whole[x->rank - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void log_softmax_forward(struct call *c)
{
    const struct view *v = &c->read[0].view;
    size_t n = v->size[v->rank - 1];
    for (size_t at = 0; at < v->n; at += n) {
        const real *x = c->read[0].value + at;
        real *y = c->made[0].value + at, most = vector_max(x, n);
        for (size_t i = 0; i < n; i++)
            y[i] = vector_exp(x[i] - most);
        real shift = most + (real)log((double)vector_sum(y, n));
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] - shift;
    }
}

static void log_softmax_backward(struct call *c)
{
    const struct view *v = &c->read[0].view;
    size_t n = v->size[v->rank - 1];
    for (size_t at = 0; at < v->n; at += n) {
        const real *y = c->made[0].value + at, *dy = c->made[0].gradient + at;
        real *dx = c->read[0].gradient + at, sum = vector_sum(dy, n);
        for (size_t i = 0; i < n; i++)
            dx[i] += dy[i] - vector_exp(y[i]) * sum;
    }
}

const struct kind sharded_log_softmax = {.name = "log_softmax",
                                         .reads = 1,
                                         .least = 1,
                                         .makes = 1,
                                         .arguments = 1,
                                         .check = log_softmax_check,
                                         .forward = log_softmax_forward,
                                         .backward = log_softmax_backward};

/* ---- nll_loss: of logarithms of probabilities x (N, C, ...) and what was right y (N, ...), the mean
 * over a sample's places, summed over samples */

static enum status nll_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->read[1].view;
    bool fits = x->rank >= 2 && y->rank + 1 == x->rank && c->made[0].view.rank == 0 &&
                x->size[0] == y->size[0] && x->size[1] == x->whole[1];
    for (size_t d = 2; fits && d < x->rank; d++)
        fits = x->size[d] == y->size[d - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static real nll_share(const struct call *c)
{
    const struct view *x = &c->read[0].view;
    double places = 1;
    for (size_t d = 2; d < x->rank; d++)
        places *= (double)x->whole[d];
    return (real)(1 / places);
}

/* Where the logarithm that counts for y[i] is; view.n: nowhere. */
static size_t nll_place(const struct call *c, size_t i)
{
    const struct view *x = &c->read[0].view;
    size_t classes = x->size[1], places = view_numbers(x, 2, x->rank);
    size_t k = counted(c->read[1].value[i], classes);
    return k < classes ? (i / places * classes + k) * places + i % places : x->n;
}

static void nll_forward(struct call *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->read[1].view.n; i++) {
        size_t place = nll_place(c, i);
        sum -= place < c->read[0].view.n ? (double)c->read[0].value[place] : 0;
    }
    c->made[0].value[0] = (real)sum * nll_share(c);
}

static void nll_backward(struct call *c)
{
    real share = nll_share(c) * c->made[0].gradient[0];
    for (size_t i = 0; i < c->read[1].view.n; i++) {
        size_t place = nll_place(c, i);
        if (place < c->read[0].view.n)
            c->read[0].gradient[place] -= share;
    }
}

static struct start nll_start(const struct call *c, size_t k)
{
    if (k == 0)
        return kind_numbers(0, 1);
    return (struct start){.source = c->read[1].view.rank > 1 ? SOURCE_TARGETS : SOURCE_LABELS,
                          .of = c->read[0].view.whole[1]};
}

const struct kind sharded_nll_loss = {.name = "nll_loss",
                                      .reads = 2,
                                      .least = 2,
                                      .makes = 1,
                                      .check = nll_check,
                                      .forward = nll_forward,
                                      .backward = nll_backward,
                                      .start = nll_start};
