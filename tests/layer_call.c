/* Calls of layers with random operands, and central differences. */
#include "tests/layer_call.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "exec/device/cpu/gemm.h"
#include "tests/cmocka.h"

static void randomise(real *x, uint64_t key, double spread)
{
    for (size_t i = 0; i < CALL_ROOM; i++)
        x[i] = (real)(spread * (2 * random_unit(key, i) - 1));
}

double error_of(double found, double expected)
{
    double size = fmax(fabs(found), fabs(expected));
    return fabs(found - expected) / fmax(size, 1e-3);
}

/* What a router makes: different experts for a token, and weights. The numbers of experts are cut
 * off by the layer, so a small step changes nothing. */
static void route(struct call *c, uint64_t key)
{
    const struct layer *l = &c->layer;
    for (size_t row = 0; row < CALL_B * l->tokens; row++) {
        real *x = c->x[1] + row * 2 * l->moe.top_k;
        size_t first = (size_t)(random_at(key, row) % l->moe.experts);
        for (size_t k = 0; k < l->moe.top_k; k++)
            x[k] = (real)((first + k) % l->moe.experts) + (real)0.25;
    }
}

struct call *new_call(const struct model *m, uint32_t op)
{
    struct call *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_int_equal(gemm_single_thread(), STATUS_OK);
    if (layer_shape(m, op, CALL_B, &c->layer) != STATUS_OK)
        fail_msg("%s: %s", m->op[op].name, error_message());
    const struct layer *l = &c->layer;
    const size_t sizes[] = {CALL_B * l->input, CALL_B * l->output,        CALL_B * l->saved,
                            l->work,           l->parameters + l->shared, CALL_B * l->second};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_true(sizes[i] <= CALL_ROOM);
    for (size_t i = 0; i < LAYER_INPUTS; i++) {
        randomise(c->x[i], random_key(op, i), 3);
        c->io.x[i] = c->x[i];
        c->io.dx[i] = c->dx[i];
    }
    if (l->second > 0 && l->moe.experts > 0)
        route(c, random_key(op, 6));
    randomise(c->parameter, random_key(op, 7), 1);
    randomise(c->shared, random_key(op, 8), 1);
    randomise(c->dy, random_key(op, 9), 1);
    for (size_t i = 0; i < CALL_ROOM; i++) {
        c->token[i] = (int32_t)(random_at(op, i) % 256);
        c->target[i] = i % 5 == 3 ? -1 : (int32_t)(random_at(op + 1, i) % 256);
        c->dx[0][i] = c->dx[1][i] = c->work[i] = (real)NAN; /* overwritten, not added to */
        c->y[i] = c->saved[i] = (real)NAN; /* whatever is used must be written first */
    }
    c->io.batch = CALL_B;
    c->io.y = c->y;
    c->io.saved = c->saved;
    c->io.work = c->work;
    c->io.parameter = c->parameter;
    c->io.shared = c->shared;
    c->io.token = c->token;
    c->io.target = c->target;
    c->io.dy = c->dy;
    c->io.d_parameter = c->d_parameter;
    c->io.d_shared = c->d_shared;
    c->io.scale = 0.25;
    layer_borrow(l, &c->io);
    return c;
}

double call_loss(struct call *c)
{
    double sum = 0;
    c->io.loss = 0;
    c->layer.kind->forward(&c->layer, &c->io);
    for (size_t i = 0; i < CALL_B * c->layer.output; i++)
        sum += (double)(c->dy[i] * c->y[i]);
    return sum + c->io.loss * (double)c->io.scale;
}

/* Worst error of gradient[n] with respect to x[n]; at most 200 of them. */
static double worst_of(struct call *c, real *x, const real *gradient, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i += 1 + n / 200) {
        real kept = x[i];
        x[i] = kept + (real)step_width;
        double above = call_loss(c);
        x[i] = kept - (real)step_width;
        double below = call_loss(c);
        x[i] = kept;
        double error = error_of((double)gradient[i], (above - below) / (2 * step_width));
        worst = isnan(error) ? (double)INFINITY : fmax(worst, error);
    }
    return worst;
}

double worst_of_call(struct call *c)
{
    const struct layer *l = &c->layer;
    call_loss(c);
    layer_backward(l, &c->io);
    double worst = worst_of(c, c->parameter, c->d_parameter, l->parameters);
    worst = fmax(worst, worst_of(c, c->shared, c->d_shared, l->shared));
    for (size_t i = 0; i < l->inputs; i++)
        worst = fmax(worst, worst_of(c, c->x[i], c->dx[i], CALL_B * layer_input(l, i)));
    return worst;
}
