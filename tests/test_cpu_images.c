/* The layer kinds of networks for images and of recurrent ones: forward and backward
 * (kind_case.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/kind_case.h"

/* ---- windows of images */

static struct window_shape draw_windows(struct draw *d)
{
    struct window_shape w = {.height = from_to(d, 1, 9), .width = from_to(d, 1, 9)};
    int64_t least = w.height < w.width ? w.height : w.width;
    w.kernel = from_to(d, 1, least < 4 ? least : 4);
    w.stride = from_to(d, 1, 3);
    w.padding = from_to(d, 0, w.kernel / 2);
    return w;
}

/* Number of channel c where window `row` has (i, j); false: outside of the image. */
static bool pixel(const struct call *c, size_t row, size_t i, size_t j, size_t channel, double *x)
{
    const struct layer *l = &c->layer;
    const struct layer_window *w = &l->window_of;
    size_t at = row % l->tokens;
    long y = (long)(at / w->across * w->stride + i) - (long)w->padding;
    long z = (long)(at % w->across * w->stride + j) - (long)w->padding;
    if (y < 0 || y >= (long)w->height || z < 0 || z >= (long)w->width)
        return false;
    *x = (double)c->x[0][row / l->tokens * l->input + ((size_t)y * w->width + (size_t)z) * l->in +
                         channel];
    return true;
}

static double naive_convolution(const struct call *c, size_t row, size_t o)
{
    const struct layer *l = &c->layer;
    size_t k = l->window_of.kernel;
    double x, sum = l->bias ? (double)c->parameter[l->out * k * k * l->in + o] : 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            for (size_t n = 0; n < l->in; n++)
                if (pixel(c, row, i, j, n, &x))
                    sum += x * (double)c->parameter[((o * k + i) * k + j) * l->in + n];
    return sum;
}

static void convolutions_of_drawn_windows(void **state)
{
    for (uint64_t k = 0; k < 60; k++) {
        struct draw d = {400 + k, 0};
        struct graph g = begin();
        struct convolution_shape s = {
            .in = from_to(&d, 1, 5), .out = from_to(&d, 1, 5), .groups = 1, .bias = k % 2};
        s.at = draw_windows(&d);
        if (k % 5 == 0)
            s.at.kernel = s.at.stride = 1, s.at.padding = 0; /* the image is the matrix */
        uint32_t x = source(&g, s.at.height * s.at.width, s.in);
        layer_convolution(&g, "op", x, &s);
        check(&g, k, naive_convolution);
    }
}

static double naive_pool(const struct call *c, size_t row, size_t n)
{
    const struct layer *l = &c->layer;
    size_t k = l->window_of.kernel;
    double x, sum = 0, largest = -INFINITY;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            if (pixel(c, row, i, j, n, &x)) {
                sum += x;
                largest = fmax(largest, x);
            }
    return l->average ? sum / (double)(k * k) : largest;
}

static void pools_of_drawn_windows(void **state)
{
    for (uint64_t k = 0; k < 60; k++) {
        struct draw d = {500 + k, 0};
        struct graph g = begin();
        struct window_shape w = draw_windows(&d);
        int64_t channels = from_to(&d, 1, 6);
        layer_pool(&g, "op", source(&g, w.height * w.width, channels), channels, &w, k % 2);
        check(&g, k, naive_pool);
    }
}

static double naive_batchnorm(const struct call *c, size_t row, size_t n)
{
    const struct layer *l = &c->layer;
    size_t rows = CALL_B * l->tokens;
    double mean = 0, variance = 0;
    for (size_t r = 0; r < rows; r++)
        mean += (double)c->x[0][r * l->in + n] / (double)rows;
    for (size_t r = 0; r < rows; r++)
        variance += pow((double)c->x[0][r * l->in + n] - mean, 2) / (double)rows;
    return ((double)c->x[0][row * l->in + n] - mean) / sqrt(variance + 1e-5) *
               (double)c->parameter[n] +
           (double)c->parameter[l->in + n];
}

static void batchnorm_over_all_positions_of_a_batch(void **state)
{
    for (uint64_t k = 0; k < 20; k++) {
        struct draw d = {600 + k, 0};
        struct graph g = begin();
        int64_t positions = from_to(&d, 2, 30), channels = from_to(&d, 1, 12);
        layer_batchnorm(&g, "op", source(&g, positions, channels), channels, positions);
        check(&g, k, naive_batchnorm);
    }
}

/* Three microbatches of (2, 3, 2), then one that is evaluated: as torch.nn.BatchNorm1d(2) of torch
 * 1.13.0 prints them for the same numbers. What is made again moves nothing. */
static void running_means_move_as_in_torch(void **state)
{
    static const double moved[] = {0.04215368255972862, 0.3424421548843384, 0.8844847679138184,
                                   1.3449662923812866};
    static const double evaluated[] = {-1.0644377, -0.3826863, 0.0791041,  1.8241264,
                                       1.016921,   1.9440129,  0.1921753,  -0.2220462,
                                       -1.026001,  -1.0782504, -0.6153551, 0.7967553};
    enum { B = 2, NUMBERS = sizeof evaluated / sizeof *evaluated };
    real x[NUMBERS], y[NUMBERS], running[] = {0, 0, 1, 1}, weights[] = {1, 1, 0, 0}, work[64];
    struct graph g = begin();
    struct model m = {0};
    struct layer l;
    layer_batchnorm(&g, "op", source(&g, 3, 2), 2, 3);
    assert_int_equal(graph_finish(&g, "case", NULL, &m), STATUS_OK);
    assert_int_equal(layer_shape(&m, (uint32_t)m.n - 1, B, &l), STATUS_OK);
    assert_int_equal(l.running, 4);
    assert_true(l.work <= sizeof work / sizeof *work);
    struct layer_io io = {
        .batch = B, .x = {x}, .y = y, .work = work, .parameter = weights, .running = running};
    for (int step = 0; step < 5; step++) {
        io.again = step == 3;
        io.evaluates = step == 4;
        for (int i = 0; i < NUMBERS; i++)
            x[i] = (real)sin(0.7 * i + step + io.evaluates) * (real)(1 + i % 2) + (real)(i % 2);
        l.kind->forward(&l, &io);
    }
    for (int i = 0; i < 4; i++)
        assert_float_equal((double)running[i], moved[i], 1e-6);
    for (int i = 0; i < NUMBERS; i++)
        assert_float_equal((double)y[i], evaluated[i], 1e-6);
    model_free(&m);
}

static double naive_relu(const struct call *c, size_t row, size_t i)
{
    return fmax(0, (double)c->x[0][row * c->layer.in + i]);
}

static void relu_keeps_what_is_positive(void **state)
{
    struct graph g = begin();
    layer_relu(&g, "op", source(&g, 17, 9), 17, 9, TENSOR_WHOLE);
    check(&g, 0, naive_relu);
}

/* ---- recurrent ones */

static double naive_concat(const struct call *c, size_t row, size_t i)
{
    size_t first = c->layer.in, second = c->layer.out - first;
    return (double)(i < first ? c->x[0][row * first + i] : c->x[1][row * second + i - first]);
}

static void concat_puts_rows_side_by_side(void **state)
{
    for (uint64_t k = 0; k < 10; k++) {
        struct draw d = {700 + k, 0};
        struct graph g = begin();
        int64_t tokens = from_to(&d, 1, 9), a = from_to(&d, 1, 9), b = from_to(&d, 1, 9);
        uint32_t x = source(&g, tokens, a);
        layer_concat(&g, "op", x, source(&g, tokens, b), tokens, a, b);
        check(&g, k, naive_concat);
    }
}

/* Cell i of a sample after token t, by the equations, from the first token on, or from the last:
 * every cell at once. */
static double naive_lstm(const struct call *c, size_t row, size_t i)
{
    enum { CELLS = 16 };
    const struct layer *l = &c->layer;
    size_t n = l->out, last = row % l->tokens;
    const double *w = c->parameter, *u = w + 4 * n * l->in, *bias = u + 4 * n * n;
    double h[CELLS] = {0}, cell[CELLS] = {0}, sum[4 * CELLS];
    assert_true(n <= CELLS);
    size_t turns = l->reverse ? l->tokens - last : last + 1;
    for (size_t turn = 0; turn < turns; turn++) {
        size_t t = l->reverse ? l->tokens - 1 - turn : turn;
        const double *x = c->x[0] + (row - last + t) * l->in;
        for (size_t k = 0; k < 4 * n; k++) {
            sum[k] = bias[k];
            for (size_t j = 0; j < l->in; j++)
                sum[k] += x[j] * w[k * l->in + j];
            for (size_t j = 0; j < n; j++)
                sum[k] += h[j] * u[k * n + j];
        }
        for (size_t k = 0; k < n; k++) {
            cell[k] = cell[k] / (1 + exp(-sum[n + k])) + tanh(sum[2 * n + k]) / (1 + exp(-sum[k]));
            h[k] = tanh(cell[k]) / (1 + exp(-sum[3 * n + k]));
        }
    }
    return h[i];
}

static void lstm_follows_its_equations(void **state)
{
    for (uint64_t k = 0; k < 30; k++) {
        struct draw d = {800 + k, 0};
        struct graph g = begin();
        int64_t tokens = from_to(&d, 1, 9), in = from_to(&d, 1, 9), out = from_to(&d, 1, 9);
        (k % 2 ? layer_lstm_reverse : layer_lstm)(&g, "op", source(&g, tokens, in), tokens, in,
                                                  out);
        check(&g, k, naive_lstm);
    }
}

/* ---- losses */

/* How many logits of the row are larger than the target's. */
static size_t larger(const struct call *c, size_t row)
{
    const real *x = c->x[0] + row * c->layer.in;
    size_t n = 0;
    for (size_t i = 0; i < c->layer.in; i++)
        n += x[i] > x[c->target[row]];
    return n;
}

/* Rows predict by turns the largest logit, the one behind four larger ones, that behind five, any,
 * nothing. */
static void losses_count_what_is_likeliest(void **state)
{
    struct graph g = begin();
    struct model m = {0};
    enum { ROWS = 15 };
    layer_loss(&g, "op", source(&g, ROWS, 256), ROWS, 256, false);
    assert_int_equal(graph_finish(&g, "case", NULL, &m), STATUS_OK);
    struct call *c = new_call(&m, 1);
    size_t rows = CALL_B * ROWS, first = 0, five = 0;
    for (size_t row = 0; row < rows; row++) {
        static const size_t wanted[] = {0, 4, 5};
        for (c->target[row] = 0; row % 5 < 3 && larger(c, row) != wanted[row % 5];)
            c->target[row]++;
        if (row % 5 == 4)
            c->target[row] = -1;
        first += row % 5 != 4 && larger(c, row) == 0;
        five += row % 5 != 4 && larger(c, row) < 5;
    }
    c->layer.kind->forward(&c->layer, &c->io);
    assert_true(c->io.hits[0] == (double)first && first >= rows / 5);
    assert_true(c->io.hits[1] == (double)five && five >= 2 * rows / 5);
    free(c);
    model_free(&m);
}

/* ---- what cannot be */

static void refused(struct graph *g, enum status expected, const char *why)
{
    struct model m = {0};
    struct layer l;
    assert_int_equal(graph_finish(g, "case", NULL, &m), STATUS_OK);
    assert_int_equal(layer_shape(&m, (uint32_t)m.n - 1, CALL_B, &l), expected);
    if (!message_says(error_message(), why))
        fail_msg("'%s' does not say '%s'", error_message(), why);
    model_free(&m);
}

static void windows_that_cannot_be_are_refused(void **state)
{
    struct graph g = begin();
    struct convolution_shape s = {.in = 2, .out = 3, .groups = 1, .at = {4, 4, 5, 1, 0}};
    layer_convolution(&g, "op", source(&g, 16, 2), &s);
    refused(&g, STATUS_INVALID, "op 'op': windows of 5 x 5 do not fit 4 x 4 with 0");
    g = begin();
    s.at = (struct window_shape){4, 4, 3, 1, 1};
    s.groups = 2;
    layer_convolution(&g, "op", source(&g, 16, 2), &s);
    refused(&g, STATUS_UNSUPPORTED, "'op' 'convolution'");
    g = begin();
    s = (struct convolution_shape){2, 3, 1, .window = 9, .read = 16, .written = 16};
    layer_convolution(&g, "op", source(&g, 16, 2), &s);
    refused(&g, STATUS_UNSUPPORTED, "'convolution' 'kernel'");
    g = begin();
    const struct plain_shape plain = {.kind = "relu", .read = 32, .written = 32};
    layer_plain(&g, "op", source(&g, 16, 2), &plain); /* as ONNX has them */
    refused(&g, STATUS_UNSUPPORTED, "'relu' 'tokens'");
    g = begin();
    const struct window_shape far = {4, 4, 2, 1, 2};
    layer_pool(&g, "op", source(&g, 16, 2), 2, &far, true);
    refused(&g, STATUS_INVALID, "windows of 2 x 2 do not fit");
}

/* What looks at other rows than its own cannot be given a part of them. */
static void parts_of_sequences_are_refused(void **state)
{
    struct graph g = begin();
    struct model m = {0};
    const struct window_shape w = {4, 4, 2, 2, 0};
    uint32_t x = source(&g, 16, 4);
    layer_convolution(
        &g, "conv", x,
        &(struct convolution_shape){.in = 4, .out = 4, .groups = 1, .at = {4, 4, 3, 1, 1}});
    layer_pool(&g, "pool", x, 4, &w, false);
    layer_batchnorm(&g, "norm", x, 4, 16);
    layer_lstm(&g, "lstm", x, 16, 4, 4);
    uint32_t relu = layer_relu(&g, "relu", x, 16, 4, TENSOR_WHOLE);
    assert_int_equal(graph_finish(&g, "case", NULL, &m), STATUS_OK);
    for (uint32_t op = 1; op < m.n; op++) {
        struct layer l;
        assert_int_equal(layer_shape(&m, op, CALL_B, &l), STATUS_OK);
        assert_int_equal(layer_share(&m.op[op], 2, 0, false, CALL_B, &l),
                         op == relu ? STATUS_OK : STATUS_UNSUPPORTED);
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_drawn_windows),
        cmocka_unit_test(pools_of_drawn_windows),
        cmocka_unit_test(batchnorm_over_all_positions_of_a_batch),
        cmocka_unit_test(running_means_move_as_in_torch),
        cmocka_unit_test(relu_keeps_what_is_positive),
        cmocka_unit_test(concat_puts_rows_side_by_side),
        cmocka_unit_test(lstm_follows_its_equations),
        cmocka_unit_test(losses_count_what_is_likeliest),
        cmocka_unit_test(windows_that_cannot_be_are_refused),
        cmocka_unit_test(parts_of_sequences_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
