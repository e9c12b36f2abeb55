/* The layer kinds of today's models, of seeded random shapes, as the model's graph makes them: forward
 * against the formula written down naively, backward against central differences. `real` is
 * double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "model/layers.h"
#include "tests/layer_call.h"

static const double tolerance = 1e-5, close_to = 1e-9;

/* Draws of a case. */
struct draw {
    uint64_t key, n;
};

static int64_t from_to(struct draw *d, int64_t low, int64_t high)
{
    return low + (int64_t)(random_at(d->key, d->n++) % (uint64_t)(high - low + 1));
}

typedef double (*naive)(const struct call *c, size_t row, size_t i);

/* Ends the graph, whose last op is the case, and compares. A central difference of a choice that
 * flips is none: routers whose scores are near each other are let go. */
static void check(struct graph *g, uint64_t k, naive y)
{
    struct model m = {0};
    if (graph_finish(g, "case", NULL, &m) != STATUS_OK)
        fail_msg("case %llu: %s", (unsigned long long)k, error_message());
    uint32_t op = (uint32_t)m.n - 1;
    struct call *c = new_call(&m, op);
    const struct layer *l = &c->layer;
    double worst = worst_of_call(c), far = 0;
    call_loss(c);
    for (size_t row = 0; row < CALL_B * l->tokens; row++)
        for (size_t i = 0; i < l->out; i++) {
            double expected = y(c, row, i), found = (double)c->y[row * l->out + i];
            far = fmax(far, fabs(found - expected) / (1 + fabs(expected)));
        }
    if (!(far < close_to) || !(worst < tolerance))
        fail_msg("case %llu, %s: forward %g off, gradient %g", (unsigned long long)k, m.op[op].kind,
                 far, worst);
    free(c);
    model_free(&m);
}

static struct graph begin(void)
{
    return (struct graph){.model = {.element_bytes = 4}};
}

/* Something of rows of `channels` to read. */
static uint32_t source(struct graph *g, int64_t tokens, int64_t channels)
{
    return layer_embedding(
        g, "source",
        &(struct embedding_shape){.tokens = tokens, .channels = channels, .vocabulary = 256});
}

/* ---- attention and rope */

static struct attention_shape draw_heads(struct draw *d)
{
    struct attention_shape s = {.tokens = from_to(d, 1, 70), .causal = from_to(d, 0, 3) > 0};
    s.kv_heads = from_to(d, 1, 3);
    s.heads = s.kv_heads * from_to(d, 1, 3);
    s.head = s.value = 2 * from_to(d, 1, 3);
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
    size_t d = l->out / l->heads, h = i / d, kv = h / (l->heads / l->kv_heads);
    size_t b = row / l->tokens, t = row % l->tokens;
    const real *x = c->x[0] + b * l->input, *q = x + t * l->in + h * d;
    double sum = 0, weighted = 0;
    for (size_t s = 0; s < l->tokens; s++) {
        const real *k = x + s * l->in + (l->heads + kv) * d;
        double score = 0;
        if ((l->causal && s > t) || (l->window > 0 && t >= l->window && s <= t - l->window))
            continue;
        for (size_t n = 0; n < d; n++)
            score += (double)(q[n] * k[n]);
        score = exp(score / sqrt((double)d));
        sum += score;
        weighted += score * (double)x[s * l->in + (l->heads + l->kv_heads + kv) * d + i % d];
    }
    return weighted / sum;
}

static void attention_of_groups_and_windows(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 40; k++) {
        struct draw d = {k, 0};
        struct graph g = begin();
        struct attention_shape s = draw_heads(&d);
        layer_attention(&g, "op", source(&g, s.tokens, (s.heads + 2 * s.kv_heads) * s.head),
                        MODEL_NO_OP, &s);
        check(&g, k, naive_attention);
    }
}

static double naive_rope(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    size_t d = l->depth, at = i % d, pair = at % (d / 2);
    const real *x = c->x[0] + row * l->in;
    double angle =
        (double)(row % l->tokens) * pow((double)l->normal, -2.0 * (double)pair / (double)d);
    double other = (double)(at < d / 2 ? -x[i + d / 2] : x[i - (at < d / 2 ? 0 : d / 2)]);
    if (i >= (l->heads + l->kv_heads) * d)
        return (double)x[i];
    return (double)x[i] * cos(angle) + other * sin(angle);
}

static void rope_turns_queries_and_keys(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 20; k++) {
        struct draw d = {100 + k, 0};
        struct graph g = begin();
        struct attention_shape s = draw_heads(&d);
        s.base = from_to(&d, 0, 1) ? 500000 : 0;
        layer_rope(&g, "op", source(&g, s.tokens, (s.heads + 2 * s.kv_heads) * s.head), &s);
        check(&g, k, naive_rope);
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
    (void)state;
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
        if (k % 4 >= 2)
            s.width = s.channels;
        layer_rmsnorm(&g, "op", source(&g, s.tokens, s.width), &s);
        check(&g, k, naive_rmsnorm);
    }
}

/* ---- activations */

static double act(bool tanh_form, double x)
{
    return tanh_form ? 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)))
                     : x / (1 + exp(-x));
}

static double naive_gated(const struct call *c, size_t row, size_t i)
{
    const real *x = c->x[0] + row * c->layer.in;
    return act(c->layer.tanh, (double)x[i]) * (double)x[c->layer.out + i];
}

static void gated_by_silu_and_gelu(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 12; k++) {
        struct draw d = {300 + k, 0};
        struct graph g = begin();
        int64_t tokens = from_to(&d, 1, 20), channels = from_to(&d, 1, 40);
        layer_gated(&g, "op", source(&g, tokens, 2 * channels), tokens, channels, k % 2,
                    TENSOR_SPLIT);
        check(&g, k, naive_gated);
    }
}

/* ---- router and experts */

static double naive_score(const struct call *c, size_t row, size_t e)
{
    double sum = 0;
    for (size_t i = 0; i < c->layer.in; i++)
        sum += (double)(c->x[0][row * c->layer.in + i] * c->parameter[e * c->layer.in + i]);
    return sum;
}

/* How many experts have a larger score. */
static size_t better(const struct call *c, size_t row, size_t e)
{
    size_t n = 0;
    for (size_t k = 0; k < c->layer.experts; k++)
        n += naive_score(c, row, k) > naive_score(c, row, e);
    return n;
}

static double naive_gate(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    double sum = 0, mine = 0;
    for (size_t e = 0; e < l->experts; e++) {
        size_t rank = better(c, row, e);
        if (rank == i && i < l->top_k)
            return (double)e;
        if (rank + l->top_k == i)
            mine = exp(naive_score(c, row, e));
        sum += l->over_all || rank < l->top_k ? exp(naive_score(c, row, e)) : 0;
    }
    return mine / sum;
}

static struct experts_shape draw_experts(struct draw *d)
{
    struct experts_shape s = {.tokens = from_to(d, 1, 12),
                              .channels = from_to(d, 1, 10),
                              .inner = from_to(d, 1, 10),
                              .experts = from_to(d, 1, 7),
                              .group = 1,
                              .unbiased = true};
    s.top_k = from_to(d, 1, s.experts < 3 ? s.experts : 3);
    s.gated = from_to(d, 0, 1);
    s.over_all = from_to(d, 0, 1);
    s.capacity = from_to(d, 0, 1) ? from_to(d, 20, 150) : 0;
    return s;
}

static void routers_choose_and_weigh(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 30; k++) {
        struct draw d = {400 + k, 0};
        struct graph g = begin();
        struct experts_shape s = draw_experts(&d);
        layer_gate(&g, "op", source(&g, s.tokens, s.channels), &s);
        check(&g, k, naive_gate);
    }
}

/* Is choice k of token t of the sample among those that its expert has room for? First choices of all
 * tokens come first. */
static bool is_taken(const struct layer *l, const real *chosen, size_t t, size_t k)
{
    size_t e = (size_t)chosen[t * 2 * l->top_k + k], before = 0;
    if (l->slots == l->tokens * l->top_k)
        return true;
    for (size_t j = 0; j <= k; j++)
        for (size_t s = 0; s < (j < k ? l->tokens : t); s++)
            before += (size_t)chosen[s * 2 * l->top_k + j] == e;
    return before < l->slots / l->experts;
}

static double naive_expert(const struct call *c, const real *x, size_t e, size_t i)
{
    const struct layer *l = &c->layer;
    size_t wide = l->gated ? 2 * l->inner : l->inner;
    const real *w1 = c->parameter + e * wide * l->in;
    const real *w2 = c->parameter + l->experts * wide * l->in + (e * l->in + i) * l->inner;
    double y = 0;
    for (size_t h = 0; h < l->inner; h++) {
        double a = 0, b = 0;
        for (size_t n = 0; n < l->in; n++) {
            a += (double)(x[n] * w1[h * l->in + n]);
            b += l->gated ? (double)(x[n] * w1[(l->inner + h) * l->in + n]) : 0;
        }
        y += (double)w2[h] * (l->gated ? act(false, a) * b : act(true, a));
    }
    return y;
}

static double naive_experts(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const real *chosen = c->x[1] + row / l->tokens * l->second;
    size_t t = row % l->tokens;
    double y = 0;
    for (size_t k = 0; k < l->top_k; k++)
        if (is_taken(l, chosen, t, k))
            y += (double)chosen[t * 2 * l->top_k + l->top_k + k] *
                 naive_expert(c, c->x[0] + row * l->in, (size_t)chosen[t * 2 * l->top_k + k], i);
    return y;
}

static void experts_take_what_they_are_given(void **state)
{
    (void)state;
    size_t limited = 0;
    for (uint64_t k = 0; k < 40; k++) {
        struct draw d = {500 + k, 0};
        struct graph g = begin();
        struct experts_shape s = draw_experts(&d);
        uint32_t x = source(&g, s.tokens, s.channels), gate = layer_gate(&g, "gate", x, &s);
        limited += layer_slots(&s) < s.tokens * s.top_k;
        layer_experts(&g, "op", x, gate, &s);
        check(&g, k, naive_experts);
    }
    assert_true(limited >= 3);
}

/* ---- embedding */

static double naive_scaled(const struct call *c, size_t row, size_t i)
{
    size_t n = c->layer.out;
    return sqrt((double)n) * (double)c->parameter[(size_t)c->token[row] * n + i];
}

static void scaled_embedding(void **state)
{
    (void)state;
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
    if (!strstr(error_message(), why))
        fail_msg("%s: %s", why, error_message());
    model_free(&m);
}

static void what_has_no_numerics_is_named(void **state)
{
    (void)state;
    struct attention_shape a = {
        .tokens = 4, .heads = 2, .kv_heads = 2, .head = 4, .value = 4, .causal = true};
    struct experts_shape e = {
        .tokens = 4, .channels = 8, .inner = 8, .experts = 4, .top_k = 2, .group = 1};
    struct graph g = begin();
    a.learned = 2;
    layer_attention(&g, "op", source(&g, 4, 24), MODEL_NO_OP, &a);
    refused(&g, "op 'op': no numerics for kind 'attention' with parameters of its own");
    g = begin();
    a.learned = 0;
    a.head = 6;
    layer_attention(&g, "op", source(&g, 4, 32), MODEL_NO_OP, &a);
    refused(&g, "of another width than keys");
    g = begin();
    uint32_t x = source(&g, 4, 8), gate = layer_gate(&g, "gate", x, &e);
    layer_experts(&g, "op", x, gate, &e);
    refused(&g, "with biases");
    g = begin();
    e.unbiased = e.einsum = true;
    x = source(&g, 4, 8);
    layer_experts(&g, "op", x, layer_gate(&g, "gate", x, &e), &e);
    refused(&g, "by products with masks");
    g = begin();
    layer_rmsnorm(&g, "op", source(&g, 4, 12),
                  &(struct rms_shape){.tokens = 4, .width = 12, .channels = 8});
    refused(&g, "no numerics for kind 'rmsnorm' of a latent");
    g = begin();
    e.scoring = 4;
    layer_gate(&g, "op", source(&g, 4, 8), &e);
    refused(&g, "with more parameters than its product");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_groups_and_windows),
        cmocka_unit_test(rope_turns_queries_and_keys),
        cmocka_unit_test(rmsnorm_of_rows_parts_and_heads),
        cmocka_unit_test(gated_by_silu_and_gelu),
        cmocka_unit_test(routers_choose_and_weigh),
        cmocka_unit_test(experts_take_what_they_are_given),
        cmocka_unit_test(scaled_embedding),
        cmocka_unit_test(what_has_no_numerics_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
