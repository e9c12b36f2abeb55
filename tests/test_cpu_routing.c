/* Routers, experts and gates of shared experts of today's models: forward and backward
 * (kind_case.h). */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/kind_case.h"

/* ---- router and experts */

static double naive_score(const struct call *c, size_t row, size_t e)
{
    const struct layer *l = &c->layer;
    double sum = l->bias ? (double)c->parameter[l->moe.experts * l->in + e] : 0;
    for (size_t i = 0; i < l->in; i++)
        sum += (double)(c->x[0][row * l->in + i] * c->parameter[e * l->in + i]);
    return sum;
}

/* What experts are chosen by. */
static double naive_choice(const struct call *c, size_t row, size_t e)
{
    const struct layer *l = &c->layer;
    double score = naive_score(c, row, e);
    score = l->gate.sigmoid ? 1 / (1 + exp(-score)) : score;
    return score + (l->gate.correction ? (double)c->parameter[l->moe.experts * l->in + e] : 0);
}

/* How good the group of expert e is. */
static double naive_group(const struct call *c, size_t row, size_t e)
{
    size_t n = c->layer.moe.experts / c->layer.gate.groups, low = e / n * n;
    double best = -INFINITY, two = -INFINITY;
    for (size_t a = low; a < low + n; a++) {
        best = fmax(best, naive_choice(c, row, a));
        for (size_t b = low; b < a; b++)
            two = fmax(two, naive_choice(c, row, a) + naive_choice(c, row, b));
    }
    return c->layer.gate.sigmoid && n > 1 ? two : best;
}

/* May the token take expert e: are there not group_top groups that are better? */
static bool is_open(const struct call *c, size_t row, size_t e)
{
    const struct layer *l = &c->layer;
    size_t n = l->moe.experts / l->gate.groups, before = 0;
    for (size_t g = 0; g < l->gate.groups; g++)
        before += naive_group(c, row, g * n) > naive_group(c, row, e);
    return before < l->gate.group_top;
}

/* How many experts that the token may take are better. */
static size_t better(const struct call *c, size_t row, size_t e)
{
    size_t n = is_open(c, row, e) ? 0 : c->layer.moe.experts;
    for (size_t k = 0; k < c->layer.moe.experts; k++)
        n += is_open(c, row, k) && naive_choice(c, row, k) > naive_choice(c, row, e);
    return n;
}

static double naive_gate(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    double sum = 0, mine = 0;
    for (size_t e = 0; e < l->moe.experts; e++) {
        size_t rank = better(c, row, e);
        double weight =
            l->gate.sigmoid ? 1 / (1 + exp(-naive_score(c, row, e))) : exp(naive_score(c, row, e));
        if (rank == i && i < l->moe.top_k)
            return (double)e;
        if (rank + l->moe.top_k == i)
            mine = weight;
        sum += l->gate.over_all || rank < l->moe.top_k ? weight : 0;
    }
    return l->gate.scale * mine / (l->gate.sigmoid && l->gate.over_all ? 1 : sum);
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

/* Mixtral's, Qwen's, gpt-oss's, DeepSeek-V2's and DeepSeek-V3's routers, and what is between
 * them. */
static void draw_router(struct draw *d, struct experts_shape *s)
{
    s->sigmoid = from_to(d, 0, 1);
    s->correction = s->sigmoid && from_to(d, 0, 1);
    s->router_bias = !s->correction && from_to(d, 0, 1);
    s->scale = from_to(d, 0, 1) ? from_to(d, 500, 3000) : 0;
    if (from_to(d, 0, 1))
        return;
    int64_t n = from_to(d, 1, 4);
    s->groups = from_to(d, 2, 4);
    s->experts = n * s->groups;
    s->group_top = from_to(d, 1, s->groups);
    s->top_k = from_to(d, 1, s->group_top * n < 3 ? s->group_top * n : 3);
}

static void routers_choose_and_weigh(void **state)
{
    for (uint64_t k = 0; k < 90; k++) {
        struct draw d = {400 + k, 0};
        struct graph g = begin();
        struct experts_shape s = draw_experts(&d);
        if (k >= 30)
            draw_router(&d, &s);
        layer_gate(&g, "op", source(&g, s.tokens, s.channels), &s);
        check(&g, k, naive_gate);
    }
}

/* Is choice k of token t of the sample among those that its expert has room for? First choices of
 * all tokens come first. */
static bool is_taken(const struct layer *l, const real *chosen, size_t t, size_t k)
{
    size_t e = (size_t)chosen[t * 2 * l->moe.top_k + k], before = 0;
    if (l->moe.slots == l->tokens * l->moe.top_k)
        return true;
    for (size_t j = 0; j <= k; j++)
        for (size_t s = 0; s < (j < k ? l->tokens : t); s++)
            before += (size_t)chosen[s * 2 * l->moe.top_k + j] == e;
    return before < l->moe.slots / l->moe.experts;
}

static double naive_expert(const struct call *c, const real *x, size_t e, size_t i)
{
    const struct layer *l = &c->layer;
    size_t wide = l->moe.gated ? 2 * l->moe.inner : l->moe.inner;
    const real *w1 = c->parameter + e * wide * l->in;
    const real *w2 = c->parameter + l->moe.experts * wide * l->in + (e * l->in + i) * l->moe.inner;
    const real *b1 = c->parameter + l->moe.experts * (wide + l->moe.inner) * l->in + e * wide;
    double y = l->bias ? (double)(b1 - e * wide)[l->moe.experts * wide + e * l->in + i] : 0;
    for (size_t h = 0; h < l->moe.inner; h++) {
        double a = l->bias ? (double)b1[h] : 0;
        double b = l->bias && l->moe.gated ? (double)b1[l->moe.inner + h] : 0;
        for (size_t n = 0; n < l->in; n++) {
            a += (double)(x[n] * w1[h * l->in + n]);
            b += l->moe.gated ? (double)(x[n] * w1[(l->moe.inner + h) * l->in + n]) : 0;
        }
        double up = fmin(fmax(b, -7), 7), gate = fmin(a, 7);
        y += (double)w2[h] * (l->moe.clamped ? gate / (1 + exp(-1.702 * gate)) * (up + 1)
                              : l->moe.gated ? act(false, a) * b
                                             : act(true, a));
    }
    return y;
}

static double naive_experts(const struct call *c, size_t row, size_t i)
{
    const struct layer *l = &c->layer;
    const real *chosen = c->x[1] + row / l->tokens * l->second;
    size_t t = row % l->tokens;
    double y = 0;
    const real *own = chosen + t * 2 * l->moe.top_k;
    for (size_t k = 0; k < l->moe.top_k; k++)
        if (is_taken(l, chosen, t, k))
            y += (double)own[l->moe.top_k + k] *
                 naive_expert(c, c->x[0] + row * l->in, (size_t)own[k], i);
    return y;
}

static void experts_take_what_they_are_given(void **state)
{
    size_t limited = 0;
    for (uint64_t k = 0; k < 70; k++) {
        struct draw d = {500 + k, 0};
        struct graph g = begin();
        struct experts_shape s = draw_experts(&d);
        s.unbiased = k < 40 || k % 3 == 0;
        s.clamped = k >= 40 && s.gated && k % 2;
        uint32_t x = source(&g, s.tokens, s.channels), gate = layer_gate(&g, "gate", x, &s);
        limited += layer_slots(&s) < s.tokens * s.top_k;
        layer_experts(&g, "op", x, gate, &s);
        check(&g, k, naive_experts);
    }
    assert_true(limited >= 3);
}

static double naive_token_gate(const struct call *c, size_t row, size_t i)
{
    double score = 0;
    for (size_t n = 0; n < c->layer.in; n++)
        score += (double)(c->x[1][row * c->layer.in + n] * c->parameter[n]);
    return (double)c->x[0][row * c->layer.in + i] / (1 + exp(-score));
}

static void tokens_weigh_their_shared_experts(void **state)
{
    for (uint64_t k = 0; k < 10; k++) {
        struct draw d = {600 + k, 0};
        struct graph g = begin();
        int64_t tokens = from_to(&d, 1, 12), channels = from_to(&d, 1, 12);
        uint32_t branch = source(&g, tokens, channels), x = source(&g, tokens, channels);
        layer_token_gate(&g, "op", branch, x, tokens, channels);
        check(&g, k, naive_token_gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routers_choose_and_weigh),
        cmocka_unit_test(experts_take_what_they_are_given),
        cmocka_unit_test(tokens_weigh_their_shared_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
