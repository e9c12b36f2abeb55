/* The gradient of a whole model, one stage in double, against central differences of its loss. */
#include "tests/whole_gradient.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "tests/layer_call.h"
#include "tests/tiny.h"

enum { SAMPLES_PER_OP = 24 };

double model_loss(struct stage *s, bool backward)
{
    s->pass.loss = 0;
    for (uint32_t m = 0; m < WHOLE_MICROBATCHES; m++)
        assert_int_equal(stage_forward(s, 0, m, 0), STATUS_OK);
    for (uint32_t m = 0; m < WHOLE_MICROBATCHES; m++) {
        if (backward)
            assert_int_equal(stage_backward(s, m, 0), STATUS_OK);
        else
            stage_release_slot(s, &s->stash.slot[s->stash.slot_of[m] - 1]);
    }
    return s->pass.loss;
}

/* Derivatives of the loss by a few parameters of op k: the first, and others at random until half
 * of them belong to what the data touched. */
static double worst_of_op(struct stage *s, size_t k, double step, const real *gradient,
                          size_t *samples)
{
    const struct stage_op *o = &s->layout.op[k];
    size_t n = o->layer.parameters, nonzero = 0;
    double worst = 0;
    for (uint64_t i = 0; n > 0 && i < 400 && nonzero < SAMPLES_PER_OP; i++) {
        size_t at = o->parameter + (i == 0 ? 0 : (size_t)(random_at(k, i) % n));
        if (i > SAMPLES_PER_OP && gradient[at] == 0)
            continue;
        double kept = s->state.parameter[at];
        s->state.parameter[at] = kept + step;
        double above = model_loss(s, false);
        s->state.parameter[at] = kept - step;
        double below = model_loss(s, false);
        s->state.parameter[at] = kept;
        worst = fmax(worst, error_of(gradient[at], (above - below) / (2 * step)));
        nonzero += gradient[at] != 0;
        ++*samples;
    }
    assert_true(n == 0 || nonzero > 0);
    return worst;
}

/* The stage with the whole model, after a backward; its gradient. */
static real *open_whole(struct model *m, struct program *p, struct stage *s)
{
    enum element of;
    void *array;
    size_t n;
    assert_int_equal(tiny_whole(m, WHOLE_MICROBATCHES, "adam", p), STATUS_OK);
    assert_int_equal(stage_open(m, p, 0, corpus_shipped(), 1e-3, s), STATUS_OK);
    for (size_t i = 0; i < s->layout.parameters;
         i++) /* larger than at the start: no gradient vanishes */
        s->state.parameter[i] += 0.6 * (random_unit(99, i) - 0.5);
    model_loss(s, true);
    const struct program_op sum = {.kind = OP_ALLREDUCE, .purpose = FOR_DATA};
    assert_int_equal(stage_array(s, &sum, 0, &of, &array, &n), STATUS_OK);
    return array;
}

void check_whole_model_by(double step, struct model *m)
{
    struct program p;
    struct stage s;
    size_t samples = 0;
    double worst = 0;
    const real *gradient = open_whole(m, &p, &s);
    for (size_t k = 0; k < s.layout.n; k++)
        worst = fmax(worst, worst_of_op(&s, k, step, gradient, &samples));
    print_message("%s: %zu parameters, worst relative error %.2g\n", m->name, samples, worst);
    assert_true(samples >= 100);
    assert_true(worst < 1e-5);
    stage_close(&s);
    program_free(&p);
    model_free(m);
}

/* Move the parameters of every ops-th op from `first` on along a drawn direction, `by` of it;
 * returns the derivative in that direction by the gradient. */
static double move(struct stage *s, size_t first, size_t ops, double by, const real *gradient)
{
    double along = 0;
    for (size_t k = first; k < s->layout.n; k += ops) {
        const struct stage_op *o = &s->layout.op[k];
        for (size_t i = o->parameter; i < o->parameter + o->layer.parameters; i++) {
            double direction = random_unit(first + 7, i) - 0.5;
            s->state.parameter[i] += by * direction;
            along += gradient[i] * direction;
        }
    }
    return along;
}

void check_directions(double step, size_t directions, struct model *m)
{
    struct program p;
    struct stage s;
    double worst = 0;
    const real *gradient = open_whole(m, &p, &s);
    for (size_t k = 0; k < directions; k++) {
        double along = move(&s, k, directions, step, gradient);
        double above = model_loss(&s, false);
        move(&s, k, directions, -2 * step, gradient);
        double below = model_loss(&s, false);
        move(&s, k, directions, step, gradient);
        worst = fmax(worst, error_of(along, (above - below) / (2 * step)));
    }
    print_message("%s: %zu directions, worst relative error %.2g\n", m->name, directions, worst);
    assert_true(worst < 1e-5);
    stage_close(&s);
    program_free(&p);
    model_free(m);
}
