/* The layer kinds that few encoders have, and those of networks that make images: forward and
 * backward (kind_case.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kind_case.h"

enum { CASES = 40 };

/* Row of the sample `row` is in that is `by` tokens further on; NULL: there is none. */
static const real *other_row(const real *x, const struct layer *l, size_t row, long by,
                             size_t width)
{
    long t = (long)(row % l->tokens) + by;
    return t < 0 || t >= (long)l->tokens ? NULL : x + ((long)row + by) * (long)width;
}

/* ---- poolers, norms without moments, trigrams, positions */

static double naive_pooler(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    double sum = (double)c->parameter[l->in * l->out + i];
    for (size_t n = 0; n < l->in; n++)
        sum += (double)(c->x[0][row * l->input + n] * c->parameter[i * l->in + n]);
    return tanh(sum);
}

static double naive_affine(const struct call *c, size_t row, size_t i)
{
    size_t n = c->layer.in;
    return (double)(c->x[0][row * n + i] * c->parameter[i] + c->parameter[n + i]);
}

static double naive_neighbours(const struct call *c, size_t row, size_t i)
{
    static const long by[] = {1, 0, -1};
    const real *x = other_row(c->x[0], &c->layer, row, by[i / c->layer.in], c->layer.in);
    return x ? (double)x[i % c->layer.in] : 0;
}

static double naive_positions(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    real type = l->types > 0 ? c->parameter[l->positions * l->in + i] : 0;
    return (double)(c->x[0][row * l->in + i] + type + c->parameter[row % l->tokens * l->in + i]);
}

static void rows_of_tokens(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw d = {700 + k, 0};
        int64_t t = from_to(&d, 1, 7), n = from_to(&d, 1, 9);
        struct graph g = begin();
        layer_pooler(&g, "y", source(&g, t, n), t, n);
        check(&g, k, naive_pooler);
        g = begin();
        layer_affine(&g, "y", source(&g, t, n), t, n);
        check(&g, k, naive_affine);
        g = begin();
        layer_neighbours(&g, "y", source(&g, t, n), t, n);
        check(&g, k, naive_neighbours);
        g = begin();
        layer_positions(&g, "y", source(&g, t, n), t, n, t + from_to(&d, 0, 3), (int64_t)k % 3);
        check(&g, k, naive_positions);
    }
}

/* ---- products */

static double naive_joined(const struct call *c, size_t row, size_t o)
{
    const struct layer *l = &c->layer;
    size_t own = l->passed, tied = l->in - own;
    double sum = l->bias ? (double)c->parameter[own * l->out + o] : 0;
    for (size_t n = 0; n < l->in; n++)
        sum += (double)(c->x[0][row * l->in + n] *
                        (n < tied ? c->shared[o * tied + n] : c->parameter[o * own + n - tied]));
    return sum;
}

static double naive_multiply(const struct call *c, size_t row, size_t i)
{
    return (double)(c->x[0][row * c->layer.in + i] * c->x[1][row * c->layer.out + i]);
}

static void products_of_parts(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw d = {800 + k, 0};
        int64_t t = from_to(&d, 1, 5), tied = from_to(&d, 1, 6), own = from_to(&d, 1, 6);
        struct graph g = begin();
        uint32_t table = source(&g, t, tied), x = source(&g, t, tied + own);
        layer_linear_joined(&g, "y", x,
                            &(struct linear_shape){t, tied + own, 256, k % 2, table, TENSOR_WHOLE},
                            own);
        check(&g, k, naive_joined);
        g = begin();
        uint32_t wide = source(&g, t, tied + own), narrow = source(&g, t, own);
        layer_multiply(&g, "y", wide, narrow, t, tied + own, own);
        check(&g, k, naive_multiply);
    }
}

/* ---- kernels over tokens */

static double naive_depthwise(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    long half = (long)l->window_of.kernel / 2;
    double sum = 0;
    for (long k = -half; k <= half; k++) {
        const real *x = other_row(c->x[0], l, row, k, l->in);
        sum += x ? (double)(x[i] * c->parameter[(long)(i * l->window_of.kernel) + k + half]) : 0;
    }
    return sum;
}

static double naive_dynamic(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    long half = (long)l->window_of.kernel / 2;
    const real *kernel = c->x[0] + row * l->in + i / (l->out / l->heads.n) * l->window_of.kernel;
    double sum = 0, all = 0;
    for (long k = -half; k <= half; k++) {
        const real *x = other_row(c->x[1], l, row, k, l->out);
        sum += x ? exp((double)kernel[k + half]) * (double)x[i] : 0;
        all += exp((double)kernel[k + half]);
    }
    return sum / all;
}

static void kernels_over_tokens(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw d = {900 + k, 0};
        int64_t t = from_to(&d, 1, 9), heads = from_to(&d, 1, 3), n = heads * from_to(&d, 1, 4);
        int64_t kernel = 1 + 2 * from_to(&d, 0, 3);
        const struct dynamic_shape s = {t, n, heads, kernel};
        struct graph g = begin();
        layer_depthwise(&g, "y", source(&g, t, n), t, n, kernel);
        check(&g, k, naive_depthwise);
        g = begin();
        uint32_t kernels = source(&g, t, heads * kernel), values = source(&g, t, n);
        layer_dynamic(&g, "y", kernels, values, &s);
        check(&g, k, naive_dynamic);
    }
}

/* ---- attention by distances */

static double naive_sinusoids(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    double p = (double)l->normal - (double)(row % l->tokens), half = (double)l->out / 2;
    double at = (double)(i % (l->out / 2));
    return i < l->out / 2 ? sin(p / pow(10000, at / half)) : cos(p / pow(10000, at / half));
}

/* Score of tokens i and j of sample b, in head h, before the root. */
static double score(const struct call *c, size_t b, size_t h, size_t i, size_t j)
{
    const struct layer *l = &c->layer;
    size_t n = l->out, d = n / l->heads.n, t = l->tokens;
    const real *q = c->x[0] + (b * t + i) * 3 * n + h * d,
               *k = c->x[0] + (b * t + j) * 3 * n + n + h * d;
    const real *r = c->x[1] + (b * 2 * t + t - i + j) * n + h * d, *u = c->parameter + h * d;
    double sum = 0;
    for (size_t x = 0; x < d; x++)
        sum += (double)((q[x] + u[x]) * k[x] + (q[x] + u[n + x]) * r[x]);
    return sum;
}

static double naive_relative(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t t = l->tokens, n = l->out, b = row / t, h = i / (n / l->heads.n);
    double root = sqrt((double)n / (double)l->heads.n), sum = 0, all = 0;
    for (size_t j = 0; j < t; j++) {
        double weight = exp(score(c, b, h, row % t, j) / root);
        sum += weight * (double)c->x[0][(b * t + j) * 3 * n + 2 * n + i];
        all += weight;
    }
    return sum / all;
}

static void distances_of_tokens(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw d = {1000 + k, 0};
        int64_t t = from_to(&d, 1, 7), heads = from_to(&d, 1, 3), head = from_to(&d, 1, 5);
        int64_t n = heads * head, learned = (5 + (int64_t)k % 2) * n;
        struct graph g = begin();
        layer_sinusoids(&g, "y", t, 2 * head, from_to(&d, 0, 9));
        check(&g, k, naive_sinusoids);
        g = begin();
        uint32_t qkv = source(&g, t, 3 * n), far = source(&g, 2 * t, n);
        const struct attention_shape s = {.tokens = t,
                                          .heads = heads,
                                          .kv_heads = heads,
                                          .head = head,
                                          .value = head,
                                          .learned = learned,
                                          .distances = 2 * t,
                                          .terms = 1,
                                          .relative = true};
        layer_attention(&g, "y", qkv, far, &s);
        check(&g, k, naive_relative);
    }
}

/* ---- images that are made */

static double naive_groupnorm(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t wide = l->in / l->groups, first = i / wide * wide;
    const real *x = c->x[0] + row / l->tokens * l->input;
    double sum = 0, squares = 0, all = (double)(l->tokens * wide);
    for (size_t p = 0; p < l->tokens; p++)
        for (size_t k = first; k < first + wide; k++)
            sum += (double)x[p * l->in + k];
    for (size_t p = 0; p < l->tokens; p++)
        for (size_t k = first; k < first + wide; k++)
            squares += pow((double)x[p * l->in + k] - sum / all, 2);
    double normal =
        ((double)x[row % l->tokens * l->in + i] - sum / all) / sqrt(squares / all + 1e-5);
    return normal * (double)c->parameter[i] + (double)c->parameter[l->in + i];
}

static double naive_silu(const struct call *c, size_t row, size_t i)
{
    double x = (double)c->x[0][row * c->layer.in + i];
    return x / (1 + exp(-x));
}

static double naive_upsample(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t width = l->window_of.width, at = row % l->tokens;
    size_t y = at / (2 * width) / 2, x = at % (2 * width) / 2;
    return (double)c->x[0][row / l->tokens * l->input + (y * width + x) * l->in + i];
}

static double naive_add_row(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    return (double)(c->x[0][row * l->in + i] + c->x[1][row / l->tokens * l->in + i]);
}

static void images_that_are_made(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw d = {1100 + k, 0};
        int64_t groups = from_to(&d, 1, 3), n = groups * from_to(&d, 1, 4);
        int64_t height = from_to(&d, 1, 5), width = from_to(&d, 1, 5), t = height * width;
        struct graph g = begin();
        /* two numbers and more: of one the normalised is 0, and rounding is all there is */
        layer_groupnorm(&g, "y", source(&g, t + 1, n), n, t + 1, groups);
        check(&g, k, naive_groupnorm);
        g = begin();
        layer_silu(&g, "y", source(&g, t, n), t, n);
        check(&g, k, naive_silu);
        g = begin();
        layer_upsample(&g, "y", source(&g, t, n), n, height, width);
        check(&g, k, naive_upsample);
        g = begin();
        uint32_t x = source(&g, t, n), row = source(&g, 1, n);
        layer_add_row(&g, "y", x, row, t, n);
        check(&g, k, naive_add_row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_tokens),       cmocka_unit_test(products_of_parts),
        cmocka_unit_test(kernels_over_tokens),  cmocka_unit_test(distances_of_tokens),
        cmocka_unit_test(images_that_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
