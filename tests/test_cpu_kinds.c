/* The layer kinds of today's models but routers and experts: forward and backward (kind_case.h). */
#include <math.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/kind_case.h"

/* ---- attention and rope */

static struct attention_shape draw_heads(struct draw *d)
{
    struct attention_shape s = {.tokens = from_to(d, 1, 70), .causal = from_to(d, 0, 3) > 0};
    s.kv_heads = from_to(d, 1, 3);
    s.heads = s.kv_heads * from_to(d, 1, 3);
    s.head = s.value = 2 * from_to(d, 1, 3);
    s.turned = 0;
    s.flash = from_to(d, 0, 1);
    s.window = s.causal && from_to(d, 0, 1) ? from_to(d, 1, 40) : 0;
    if (s.tokens * (s.heads + 2 * s.kv_heads) * s.head * CALL_B > CALL_ROOM / 2 ||
        s.tokens * s.tokens * s.heads * CALL_B > CALL_ROOM)
        s.tokens = 1 + s.tokens % 20;
    return s;
}

static double naive_attention(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t d = l->heads.depth, v = l->out / l->heads.n, h = i / v,
           kv = h / (l->heads.n / l->heads.kv);
    size_t b = row / l->tokens, t = row % l->tokens;
    const real *x = c->x[0] + b * l->input, *q = x + t * l->in + h * d;
    double sum = l->attention.sinks ? exp((double)c->parameter[h]) : 0, weighted = 0;
    for (size_t s = 0; s < l->tokens; s++) {
        const real *k = x + s * l->in + (l->heads.n + kv) * d;
        double score = 0;
        if ((l->attention.causal && s > t) ||
            (l->attention.window > 0 && t >= l->attention.window && s <= t - l->attention.window))
            continue;
        for (size_t n = 0; n < d; n++)
            score += (double)(q[n] * k[n]);
        score = exp(score / sqrt((double)d));
        sum += score;
        weighted += score * (double)x[s * l->in + (l->heads.n + l->heads.kv) * d + kv * v + i % v];
    }
    return weighted / sum;
}

static void attention_of_groups_and_windows(void **state)
{
    for (uint64_t k = 0; k < 60; k++) {
        struct draw d = {k, 0};
        struct graph g = begin();
        struct attention_shape s = draw_heads(&d);
        s.sinks = k % 3 == 1; /* as gpt-oss has them */
        s.learned = s.sinks ? s.heads : 0;
        s.value = k % 3 == 2 ? from_to(&d, 1, 6) : s.head; /* as latent attention has them */
        layer_attention(&g, "op",
                        source(&g, s.tokens, s.heads * s.head + s.kv_heads * (s.head + s.value)),
                        MODEL_NO_OP, &s);
        check(&g, k, naive_attention);
    }
}

static double naive_rope(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t d = l->heads.depth, at = i % d, pair = at % (d / 2);
    const real *x = c->x[0] + row * l->in;
    double angle =
        (double)(row % l->tokens) * pow((double)l->normal, -2.0 * (double)pair / (double)d);
    double other = (double)(at < d / 2 ? -x[i + d / 2] : x[i - (at < d / 2 ? 0 : d / 2)]);
    if (i >= (l->heads.n + l->heads.kv) * d)
        return (double)x[i];
    return (double)x[i] * cos(angle) + other * sin(angle);
}

static void rope_turns_queries_and_keys(void **state)
{
    for (uint64_t k = 0; k < 20; k++) {
        struct draw d = {100 + k, 0};
        struct graph g = begin();
        struct attention_shape s = draw_heads(&d);
        s.base = from_to(&d, 0, 1) ? 500000 : 0;
        layer_rope(&g, "op", source(&g, s.tokens, (s.heads + 2 * s.kv_heads) * s.head), &s);
        check(&g, k, naive_rope);
    }
}

/* Channel i of what heads read of latents: queries, keys and values, head by head. */
static double naive_latent(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const struct layer_heads *heads = &l->heads;
    size_t d = heads->depth, plain = d - heads->turned, wide = plain + heads->value,
           all = heads->n * d;
    const real *q = c->x[0] + row * l->in, *kv = c->x[1] + row * (heads->n * wide + heads->turned);
    size_t at = i % d, head = i % all / d, half = heads->turned / 2, pair = (at - plain) % half;
    if (i >= 2 * all)
        return (
            double)kv[(i - 2 * all) / heads->value * wide + plain + (i - 2 * all) % heads->value];
    if (at < plain)
        return (double)(i < all ? q[i] : kv[head * wide + at]);
    const real *turned = i < all ? q + head * d + plain : kv + heads->n * wide;
    double angle = (double)(row % l->tokens) *
                   pow((double)l->normal, -2.0 * (double)pair / (double)heads->turned);
    double a = (double)turned[pair], b = (double)turned[pair + half];
    return at - plain < half ? a * cos(angle) - b * sin(angle) : b * cos(angle) + a * sin(angle);
}

static void rope_makes_rows_of_latents(void **state)
{
    for (uint64_t k = 0; k < 30; k++) {
        struct draw d = {150 + k, 0};
        struct graph g = begin();
        struct attention_shape s = {.tokens = from_to(&d, 1, 20), .heads = from_to(&d, 1, 4)};
        s.kv_heads = s.heads;
        s.turned = 2 * from_to(&d, 1, 3);
        s.head = s.turned + from_to(&d, 0, 4);
        s.value = from_to(&d, 1, 5);
        s.base = from_to(&d, 0, 1) ? 500000 : 0;
        uint32_t q = source(&g, s.tokens, s.heads * s.head);
        uint32_t kv = source(&g, s.tokens, s.heads * (s.head - s.turned + s.value) + s.turned);
        layer_rope_latent(&g, "op", q, kv, &s);
        check(&g, k, naive_latent);
    }
}

/* ---- linear */

static double naive_linear(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t in = l->in - l->passed, out = l->out - l->passed;
    const real *x = c->x[0] + row * l->in;
    double sum = l->bias ? (double)c->parameter[in * out + i] : 0;
    if (i >= out)
        return (double)x[in + i - out];
    for (size_t n = 0; n < in; n++)
        sum += (double)(x[n] * c->parameter[i * in + n]);
    return sum;
}

static void products_pass_channels_on(void **state)
{
    for (uint64_t k = 0; k < 20; k++) {
        struct draw d = {170 + k, 0};
        struct graph g = begin();
        struct linear_shape s = {.tokens = from_to(&d, 1, 12),
                                 .in = from_to(&d, 1, 12),
                                 .out = from_to(&d, 1, 12),
                                 .bias = from_to(&d, 0, 1),
                                 .tied = MODEL_NO_OP};
        int64_t passes = from_to(&d, 0, 5);
        layer_linear_passing(&g, "op", source(&g, s.tokens, s.in + passes), &s, passes);
        check(&g, k, naive_linear);
    }
}

/* ---- rmsnorm */

static double naive_rmsnorm(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const real *x = c->x[0] + row * l->in;
    size_t low = i < l->queries ? 0 : l->queries, high = i < l->queries ? l->queries : l->normal;
    size_t weight = i;
    double square = 0;
    if (i >= l->normal)
        return (double)x[i];
    if (l->head > 0) {
        weight = (i < l->queries ? 0 : l->head) + i % l->head;
        low = i / l->head * l->head;
        high = low + l->head;
    }
    for (size_t n = low; n < high; n++)
        square += (double)(x[n] * x[n]) / (double)(high - low);
    return (double)x[i] / sqrt(square + 1e-5) *
           ((double)c->parameter[weight] + (l->offset ? 1 : 0));
}

static void rmsnorm_of_rows_parts_and_heads(void **state)
{
    for (uint64_t k = 0; k < 40; k++) {
        struct draw d = {200 + k, 0};
        struct graph g = begin();
        struct rms_shape s = {.tokens = from_to(&d, 1, 20), .offset = from_to(&d, 0, 1)};
        int64_t head = from_to(&d, 1, 9), queries = head * from_to(&d, 1, 4);
        s.channels = queries + head * from_to(&d, 1, 3);
        s.width = s.channels + from_to(&d, 0, 1) * head;
        if (k % 4 < 2)
            s.queries = queries;
        if (k % 4 == 0)
            s.head = head;
        if (k % 4 == 2)
            s.width = s.channels;
        layer_rmsnorm(&g, "op", source(&g, s.tokens, s.width), &s);
        check(&g, k, naive_rmsnorm);
    }
}

/* ---- activations */

static double naive_gated(const struct call *c, size_t row, size_t i)
{
    const real *x = c->x[0] + row * c->layer.in;
    return act(c->layer.tanh, (double)x[i]) * (double)x[c->layer.out + i];
}

static void gated_by_silu_and_gelu(void **state)
{
    for (uint64_t k = 0; k < 12; k++) {
        struct draw d = {300 + k, 0};
        struct graph g = begin();
        int64_t tokens = from_to(&d, 1, 20), channels = from_to(&d, 1, 40);
        layer_gated(&g, "op", source(&g, tokens, 2 * channels), tokens, channels, k % 2,
                    TENSOR_SPLIT);
        check(&g, k, naive_gated);
    }
}

/* ---- embedding */

static double naive_scaled(const struct call *c, size_t row, size_t i)
{
    size_t n = c->layer.out;
    return sqrt((double)n) * (double)c->parameter[(size_t)c->token[row] * n + i];
}

static void scaled_embedding(void **state)
{
    struct graph g = begin();
    layer_embedding(
        &g, "op",
        &(struct embedding_shape){.tokens = 9, .channels = 12, .vocabulary = 256, .scaled = true});
    check(&g, 0, naive_scaled);
}

/* ---- what has no numerics */

static void refused(struct graph *g, const char *why)
{
    struct model m = {0};
    struct layer l;
    assert_int_equal(graph_finish(g, "case", NULL, &m), STATUS_OK);
    assert_int_equal(layer_shape(&m, (uint32_t)m.n - 1, CALL_B, &l), STATUS_UNSUPPORTED);
    if (!message_says(error_message(), why))
        fail_msg("%s: %s", why, error_message());
    model_free(&m);
}

static void what_has_no_numerics_is_named(void **state)
{
    struct attention_shape a = {
        .tokens = 4, .heads = 2, .kv_heads = 2, .head = 4, .value = 4, .causal = true};
    struct experts_shape e = {
        .tokens = 4, .channels = 8, .inner = 8, .experts = 4, .top_k = 2, .group = 1};
    struct graph g = begin();
    a.learned = 2;
    layer_attention(&g, "op", source(&g, 4, 24), MODEL_NO_OP, &a);
    refused(&g, "'op' 'attention' position bias");
    g = begin();
    e.unbiased = e.einsum = true;
    uint32_t x = source(&g, 4, 8);
    layer_experts(&g, "op", x, layer_gate(&g, "gate", x, &e), &e);
    refused(&g, "dispatch masks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_groups_and_windows),
        cmocka_unit_test(rope_turns_queries_and_keys),
        cmocka_unit_test(rope_makes_rows_of_latents),
        cmocka_unit_test(products_pass_channels_on),
        cmocka_unit_test(rmsnorm_of_rows_parts_and_heads),
        cmocka_unit_test(gated_by_silu_and_gelu),
        cmocka_unit_test(scaled_embedding),
        cmocka_unit_test(what_has_no_numerics_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
