/* FLOP of operators that multiply matrices, a multiply-add counting as two, by the shapes of their
 * arguments; all others are memory traffic. */
#include <string.h>

#include "model/execution.h"

/* (..., m, k) times (..., k, n). */
static double execution_product(const struct execution_node *n, size_t left, size_t right)
{
    double a[EXECUTION_DIMENSIONS], b[EXECUTION_DIMENSIONS], flop = 2;
    size_t da = execution_shape(n, left, a), db = execution_shape(n, right, b);
    if (da < 2 || db < 2)
        return 0;
    for (size_t i = 0; i < da; i++)
        flop *= a[i];
    return flop * b[db - 1];
}

/* Of k numbers by channels / groups for each that is written. */
static double convolution(const struct execution_node *n)
{
    double x[EXECUTION_DIMENSIONS], w[EXECUTION_DIMENSIONS], each = 2, written = 1;
    size_t dx = execution_shape(n, 0, x), dw = execution_shape(n, 1, w);
    if (dx < 3 || dw != dx || n->outputs == 0 || n->inputs == 0 || w[0] == 0)
        return 0;
    for (size_t i = 0; i < dx; i++)
        written *= x[i];
    if (written == 0)
        return 0;
    /* bytes of a number are the same on both sides */
    written = n->output[0].bytes / (n->input[0].bytes / written);
    for (size_t i = 1; i < dw; i++)
        each *= w[i];
    return each * written;
}

/* Gradients of what is written: of the input, and of the weight. */
static double execution_convolution_gradients(const struct execution_node *n)
{
    double g[EXECUTION_DIMENSIONS], w[EXECUTION_DIMENSIONS], flop = 2;
    size_t dg = execution_shape(n, 0, g), dw = execution_shape(n, 2, w);
    if (dg < 3 || dw != dg)
        return 0;
    for (size_t i = 0; i < dg; i++)
        flop *= g[i];
    for (size_t i = 1; i < dw; i++)
        flop *= w[i];
    return flop * (n->outputs > 1 ? 2 : 1);
}

/* Scores and weighted values of all queries and keys: queries (..., q, d), keys (..., k, d). */
static double execution_attention(const struct execution_node *n)
{
    double q[EXECUTION_DIMENSIONS], k[EXECUTION_DIMENSIONS], flop = 4;
    size_t dq = execution_shape(n, 0, q), dk = execution_shape(n, 1, k);
    if (dq < 3 || dk < 3)
        return 0;
    for (size_t i = 0; i < dq; i++)
        flop *= q[i];
    return flop * k[dk - 2];
}

double execution_flop(const struct execution_node *n)
{
    const char *name = n->name;
    if (!strcmp(name, "aten::mm") || !strcmp(name, "aten::bmm"))
        return execution_product(n, 0, 1);
    if (!strcmp(name, "aten::addmm") || !strcmp(name, "aten::baddbmm"))
        return execution_product(n, 1, 2);
    if (!strcmp(name, "aten::convolution"))
        return convolution(n);
    if (!strcmp(name, "aten::convolution_backward"))
        return execution_convolution_gradients(n);
    if (!strcmp(name, "aten::scaled_dot_product_attention"))
        return execution_attention(n);
    return 0;
}
