/* Forward of every kind against the formula written down naively in double. */
#include "exec/device/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/vector.h"
#include "tests/cmocka.h"
#include "tests/layer_call.h"
#include "tests/tiny.h"

static double naive_embedding(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const real *positions = c->parameter + l->vocabulary * l->out;
    double y = (double)c->parameter[(size_t)c->token[row] * l->out + i];
    if (l->positions > 0)
        y += (double)positions[row % l->tokens * l->out + i];
    if (l->types > 0)
        y += (double)positions[l->positions * l->out + i];
    return y;
}

static double naive_layernorm(const struct call *c, size_t row, size_t i)
{
    size_t n = c->layer.in;
    const real *x = c->x[0] + row * n;
    double mean = 0, variance = 0;
    for (size_t j = 0; j < n; j++)
        mean += (double)x[j] / (double)n;
    for (size_t j = 0; j < n; j++)
        variance += ((double)x[j] - mean) * ((double)x[j] - mean) / (double)n;
    return ((double)x[i] - mean) / sqrt(variance + 1e-5) * (double)c->parameter[i] +
           (double)c->parameter[n + i];
}

static double naive_linear(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const real *weight = l->tied ? c->shared : c->parameter;
    const real *bias = c->parameter + (l->tied ? 0 : l->in * l->out);
    double y = l->bias ? (double)bias[i] : 0;
    for (size_t j = 0; j < l->in; j++)
        y += (double)c->x[0][row * l->in + j] * (double)weight[i * l->in + j];
    return y;
}

/* q . k / sqrt(D) of head h between rows t and s of sample b */
static double score(const struct call *c, size_t b, size_t h, size_t t, size_t s)
{
    size_t channels = c->layer.out, depth = channels / c->layer.heads.n;
    const real *x = c->x[0] + b * c->layer.tokens * 3 * channels;
    double sum = 0;
    for (size_t d = 0; d < depth; d++)
        sum += (double)x[t * 3 * channels + h * depth + d] *
               (double)x[s * 3 * channels + channels + h * depth + d];
    return sum / sqrt((double)depth);
}

static double naive_attention(const struct call *c, size_t row, size_t i)
{
    size_t channels = c->layer.out, tokens = c->layer.tokens, b = row / tokens, t = row % tokens;
    size_t h = i / (channels / c->layer.heads.n), end = c->layer.attention.causal ? t + 1 : tokens;
    const real *x = c->x[0] + b * tokens * 3 * channels;
    double sum = 0, weighted = 0;
    for (size_t s = 0; s < end; s++) {
        double e = exp(score(c, b, h, t, s));
        sum += e;
        weighted += e * (double)x[s * 3 * channels + 2 * channels + i];
    }
    return weighted / sum;
}

static double naive_gelu(const struct call *c, size_t row, size_t i)
{
    double x = (double)c->x[0][row * c->layer.in + i];
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double naive_residual(const struct call *c, size_t row, size_t i)
{
    return (double)c->x[0][row * c->layer.in + i] + (double)c->x[1][row * c->layer.in + i];
}

static double naive_loss(const struct call *c)
{
    const struct layer *l = &c->layer;
    double loss = 0;
    for (size_t row = 0; row < CALL_B * l->tokens; row++) {
        double sum = 0;
        if (c->target[row] < 0)
            continue;
        for (size_t i = 0; i < l->in; i++)
            sum += exp((double)c->x[0][row * l->in + i]);
        loss += log(sum) - (double)c->x[0][row * l->in + (size_t)c->target[row]];
    }
    return loss;
}

typedef double (*naive)(const struct call *c, size_t row, size_t i);

static naive naive_of(const char *kind)
{
    static const struct {
        const char *kind;
        naive y;
    } table[] = {
        {"embedding", naive_embedding}, {"layernorm", naive_layernorm},
        {"linear", naive_linear},       {"attention", naive_attention},
        {"gelu", naive_gelu},           {"residual", naive_residual},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].kind, kind) == 0)
            return table[i].y;
    return NULL;
}

/* Forward of every op of the model; adds how many were compared to *compared. */
static void check_model(struct model *m, size_t *compared)
{
    for (uint32_t op = 0; op < m->n; op++) {
        struct call *c = new_call(m, op);
        const struct layer *l = &c->layer;
        l->kind->forward(l, &c->io);
        naive y = naive_of(layer_kind_name(l->kind));
        if (!y)
            assert_true(fabs(c->io.loss - naive_loss(c)) < 1e-5 * naive_loss(c));
        for (size_t row = 0; y && row < CALL_B * l->tokens; row++)
            for (size_t i = 0; i < l->out; i++) {
                double expected = y(c, row, i), found = (double)c->y[row * l->out + i];
                if (!(fabs(found - expected) <= 2e-6 * (4 + fabs(expected))))
                    fail_msg("%s row %zu channel %zu: %.9g, expected %.9g", m->op[op].name, row, i,
                             found, expected);
            }
        ++*compared;
        free(c);
    }
    model_free(m);
}

static void forward_is_the_formula(void **state)
{
    struct model m;
    size_t compared = 0;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    check_model(&m, &compared);
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    check_model(&m, &compared);
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    check_model(&m, &compared);
    assert_int_equal(compared, 14 + 14 + 7);
}

/* Softmax is unchanged by what is added to all its inputs, and large inputs do not overflow. */
static void softmax_does_not_overflow(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    struct call *c = new_call(&m, (uint32_t)m.n - 1);
    c->layer.kind->forward(&c->layer, &c->io);
    double loss = c->io.loss;
    for (size_t i = 0; i < CALL_B * c->layer.input; i++)
        c->x[0][i] += 1000;
    c->layer.kind->forward(&c->layer, &c->io);
    assert_true(fabs(c->io.loss - loss) < 1e-4 * loss); /* 1000 costs ten bits of the inputs */
    free(c);
    model_free(&m);
}

static void exp_is_precise_to_three_in_ten_million(void **state)
{
    double worst = 0;
    for (double x = -64; x <= 64; x += 0.00390625 / 16) {
        double error = fabs((double)vector_expf((float)x) / exp((double)(float)x) - 1);
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 3e-7);
    assert_true((double)vector_expf(0) == 1);
    assert_true(vector_expf(-1e30f) == vector_expf(-64) && vector_expf(-INFINITY) > 0);
    assert_true(vector_expf(1e30f) == vector_expf(64) && isfinite(vector_expf(INFINITY)));
    assert_true(isnan(vector_expf(NAN)));
}

/* The lanes' remainder: sums of every length up to three rounds of lanes. */
static void row_sums_take_every_element_once(void **state)
{
    real x[3 * LANES], y[3 * LANES];
    for (size_t n = 1; n <= 3 * LANES; n++) {
        for (size_t i = 0; i < n; i++) {
            x[i] = (real)(i + 1);
            y[i] = 2;
        }
        assert_true(vector_sum(x, n) == (real)(n * (n + 1) / 2));
        assert_true(vector_dot(x, y, n) == (real)(n * (n + 1)));
        assert_true(vector_max(x, n) == (real)n);
        x[n / 2] = 1000;
        assert_true(vector_max(x, n) == 1000);
    }
}

static void only_kinds_in_the_table_have_numerics(void **state)
{
    assert_non_null(layer_kind_of(operator_find("attention")));
    assert_null(layer_kind_of(operator_find("Conv2d")));
    assert_null(layer_kind_of(operator_find("")));
    for (int k = 0; k < OPERATORS; k++) {
        const struct layer_kind *kind = layer_kind_of((enum operator_type)k);
        assert_true(!kind || (int)kind->type == k);
        assert_true(k <= OPERATOR_UNKNOWN || (int)operator_find(operator_table[k].name) == k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_the_formula),
        cmocka_unit_test(softmax_does_not_overflow),
        cmocka_unit_test(exp_is_precise_to_three_in_ten_million),
        cmocka_unit_test(row_sums_take_every_element_once),
        cmocka_unit_test(only_kinds_in_the_table_have_numerics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
