/* Every collective with its conjugate, and every operator, against finite differences: strategies
 * drawn at random, on four ranks that go through their lists side by side, in double. */
#include <math.h>
#include <string.h>

#include "core/base/random.h"
#include "exec/device.h"
#include "exec/device/sharded/sharded.h"
#include "tests/cmocka.h"
#include "tests/strategy.h"

enum { RANKS = 4, PROBES = 6, STEPS_TRAINED = 300 };

static const char *const models[] = {
    "tmlp:layers=2,batch=4,seq=3,hidden=6",
    "tmlp2:layers=1,batch=6,seq=5,hidden=8,inner=10",
    "ttransformer:layers=1,batch=4,seq=4,hidden=8,inner=12,heads=4",
    "tmoe:layers=2,batch=4,seq=6,hidden=8,inner=10,heads=4,experts=4",
    "tmoe:layers=2,batch=6,seq=5,hidden=8,inner=6,heads=4,experts=3,top=1",
    "rmoe:ops=1,layers=2,batch=4,seq=5,hidden=8,inner=10,heads=4,experts=4,classes=256",
    "rswitch:ops=1,layers=2,batch=6,seq=4,hidden=8,inner=6,heads=4,experts=3,classes=257",
    "vmoe:ops=1,layers=2,batch=4,seq=4,hidden=8,inner=10,heads=4,experts=4",
    "vswitch:ops=1,layers=2,batch=6,seq=4,hidden=8,inner=6,heads=4,experts=3,classes=5",
};
enum { MODELS = sizeof models / sizeof *models };

static enum status open_rank(const struct program *p, uint32_t rank, double learning_rate,
                             struct sharded **out)
{
    return sharded_open(&engine_cpu, p, rank,
                        &(struct device_options){.learning_rate = learning_rate}, out);
}

/* What a collective does, member m's array being data[m], as exec/transport.h says. */
static void collective(enum op_kind kind, double *const *data, size_t n)
{
    size_t part = n / RANKS, half = n / 2, small = half / RANKS;
    for (size_t i = 0; i < n && (kind == OP_ALLREDUCE || kind == OP_REDUCESCATTER); i++) {
        double sum = 0;
        for (size_t m = 0; m < RANKS; m++)
            sum += data[m][i];
        for (size_t m = 0; m < RANKS; m++)
            if (kind == OP_ALLREDUCE || i / part == ring_owned(RANKS, m))
                data[m][i] = sum;
            else
                data[m][i] = NAN; /* of no use */
    }
    for (size_t m = 0; m < RANKS && kind == OP_ALLGATHER; m++)
        for (size_t to = 0; to < RANKS; to++)
            if (to != m)
                memcpy(data[to] + ring_owned(RANKS, m) * part,
                       data[m] + ring_owned(RANKS, m) * part, part * sizeof **data);
    for (size_t m = 0; m < RANKS && kind == OP_ALLTOALL; m++)
        for (size_t to = 0; to < RANKS; to++)
            if (to != m)
                memcpy(data[to] + half + m * small, data[m] + to * small, small * sizeof **data);
}

/* One collective on all ranks; *seen counts what they do. */
static void exchange(struct sharded *const *s, const struct program_op *o, size_t *seen)
{
    real *data[RANKS];
    size_t n = 0;
    uint32_t step = s[0]->all->tensor[o->tag].step;
    for (size_t m = 0; m < RANKS; m++) {
        if (o->backward)
            sharded_backward(s[m], step, o->microbatch);
        else
            sharded_forward(s[m], step - 1, o->microbatch);
        sharded_pack(s[m], o->tag, o->microbatch, o->backward, &data[m], &n);
    }
    collective((enum op_kind)o->kind, data, n);
    for (size_t m = 0; m < RANKS; m++)
        sharded_unpack(s[m], o->tag, o->microbatch, o->backward);
    seen[sharded_step(s[0], o->tag, false)]++;
}

/* An iteration up to its update, whose loss is the sum over the ranks. */
static double iterate(struct sharded *const *s, const struct program *p, size_t *seen)
{
    double loss = 0;
    for (size_t m = 0; m < p->ranks; m++) {
        s[m]->begun = false;
        s[m]->loss = 0;
    }
    for (const struct program_op *o = p->op; o < p->op + p->op_start[1]; o++)
        for (size_t m = 0; m < p->ranks; m++)
            if (o->kind == OP_FORWARD)
                sharded_forward(s[m], o->tag, o->microbatch);
            else if (o->kind == OP_BACKWARD)
                sharded_backward(s[m], o->tag, o->microbatch);
            else if (o->kind != OP_UPDATE && m == 0)
                exchange(s, o, seen);
    for (size_t m = 0; m < p->ranks; m++)
        loss += s[m]->loss;
    return loss;
}

/* Where number `at` of a whole parameter is on a rank; NULL: elsewhere. */
static real *find(const struct operand *own, size_t at, bool gradient)
{
    for (size_t i = 0; i < own->view.n; i++)
        if (view_index(&own->view, i) == at)
            return (gradient ? own->gradient : own->value) + i;
    return NULL;
}

static void shift(struct sharded *const *s, uint32_t tensor, size_t at, double by)
{
    for (size_t m = 0; m < RANKS; m++) {
        real *number = find(&s[m]->slot[0][tensor].own, at, false);
        if (number)
            *number += by;
    }
}

/* The gradients of one number on all ranks that have it. */
static void check_number(const char *model, struct sharded *const *s, const struct program *p,
                         uint32_t tensor, size_t at)
{
    const double by = 1e-5;
    size_t unseen[STEPS] = {0};
    double loss[2], gradient[RANKS];
    bool has[RANKS];
    iterate(s, p, unseen);
    for (size_t m = 0; m < RANKS; m++) {
        const real *g = find(&s[m]->slot[0][tensor].own, at, true);
        has[m] = g != NULL;
        gradient[m] = g ? *g : 0;
    }
    for (int k = 0; k < 2; k++) {
        shift(s, tensor, at, k ? by : -by);
        loss[k] = iterate(s, p, unseen);
        shift(s, tensor, at, k ? -by : by);
    }
    double wanted = (loss[1] - loss[0]) / (2 * by);
    for (size_t m = 0; m < RANKS; m++)
        if (has[m] && fabs(gradient[m] - wanted) > 1e-6 + 1e-5 * fabs(wanted))
            fail_msg("%s: tensor %u, number %zu, rank %zu: gradient %g, not %g", model, tensor, at,
                     m, gradient[m], wanted);
}

static void check_strategy(const char *model, bool two, uint64_t *dice, size_t *seen)
{
    struct drawn d;
    struct sharded *s[RANKS];
    strategy_draw(model, RANKS, two, NULL, dice, &d);
    for (uint32_t m = 0; m < RANKS; m++)
        assert_int_equal(open_rank(&d.program, m, 1e-3, &s[m]), STATUS_OK);
    iterate(s, &d.program, seen);
    for (uint32_t t = 0; t < d.program.operators.tensors; t++)
        if (sharded_step(s[0], t, false) == STEP_SLICE)
            seen[STEP_SLICE]++;
    for (size_t probe = 0; probe < PROBES; probe++) {
        uint32_t tensor;
        do
            tensor = (uint32_t)(random_next(dice) % d.program.operators.tensors);
        while (!spmd_is_weight(&d.g, tensor));
        size_t n = view_of(&d.program.operators.tensor[tensor], FORM_FULL, 1, 0).n;
        check_number(model, s, &d.program, tensor, random_next(dice) % n);
    }
    for (size_t m = 0; m < RANKS; m++)
        sharded_close(s[m]);
    strategy_free(&d);
}

static void gradients_are_finite_differences(void **state)
{
    uint64_t dice = 11;
    size_t seen[STEPS] = {0};
    for (size_t round = 0; round < 30; round++)
        for (size_t m = 0; m < MODELS; m++)
            check_strategy(models[m], round % 2, &dice, seen);
    for (size_t step = STEP_NONE + 1; step < STEPS; step++)
        if (seen[step] < 10)
            fail_msg("%s: only %zu in all strategies", form_step_names[step], seen[step]);
}

/* The losses of a strategy drawn for so many ranks. */
static void train(const char *model, size_t ranks, bool two, uint64_t *dice,
                  double loss[STEPS_TRAINED])
{
    struct drawn d;
    struct sharded *s[RANKS];
    size_t seen[STEPS] = {0};
    strategy_draw(model, ranks, two, NULL, dice, &d);
    for (uint32_t m = 0; m < ranks; m++)
        assert_int_equal(open_rank(&d.program, m, 1e-2, &s[m]), STATUS_OK);
    for (size_t k = 0; k < STEPS_TRAINED; k++) {
        loss[k] = iterate(s, &d.program, seen);
        for (size_t m = 0; m < ranks; m++)
            sharded_update(s[m], 1);
    }
    for (size_t m = 0; m < ranks; m++)
        sharded_close(s[m]);
    strategy_free(&d);
}

/* In fp32 a token whose experts are equally probable but for rounding takes another one under
 * another strategy, and a curve leaves the others; here no curve does. */
static void but_for_rounding_every_strategy_is_one_training(void **state)
{
    (void)state;
    uint64_t dice = 17;
    for (size_t m = 0; m < MODELS; m++) {
        static double one[STEPS_TRAINED], loss[STEPS_TRAINED];
        if (!strstr(models[m], "experts="))
            continue;
        train(models[m], 1, false, &dice, one);
        assert_true(one[STEPS_TRAINED - 1] < 0.9 * one[0]);
        for (int two = 0; two < 2; two++) {
            train(models[m], RANKS, two, &dice, loss);
            for (size_t k = 0; k < STEPS_TRAINED; k++)
                if (fabs(loss[k] - one[k]) > 1e-9 * fabs(one[0]))
                    fail_msg("%s, step %zu: loss %.15g, of one process %.15g", models[m], k,
                             loss[k], one[k]);
        }
    }
}

/* One field of the operators becomes another: sizes, what is read and how, arguments. */
static void spoil(struct operators *o, uint64_t *dice)
{
    struct operators_node *n = &o->node[random_next(dice) % o->nodes];
    struct operators_tensor *t = &o->tensor[random_next(dice) % o->tensors];
    size_t k = n->reads > 0 ? random_next(dice) % n->reads : 0;
    switch (random_next(dice) % 6) {
    case 0:
        t->size[random_next(dice) % OPERATORS_RANK] = (int64_t)(1 + random_next(dice) % 12);
        break;
    case 1:
        t->rank = random_next(dice) % OPERATORS_RANK;
        for (size_t d = 0; d < t->rank; d++)
            t->size[d] = t->size[d] > 0 ? t->size[d] : 2;
        break;
    case 2:
        n->read[k] = (uint32_t)(random_next(dice) % o->tensors);
        n->form[k] = o->tensor[n->read[k]].form;
        break;
    case 3:
        n->argument[random_next(dice) % OPERATORS_ARGUMENTS] = (int64_t)(random_next(dice) % 7);
        break;
    case 4:
        n->reads = random_next(dice) % (n->reads + 1);
        break;
    default:
        t->form = (uint8_t)(random_next(dice) % FORMS);
    }
}

/* Files are not trusted: what cannot be computed is refused when it is opened. (What is wrong
 * without being out of bounds is for sanitizers to see.) */
static void what_opens_can_be_computed(void **state)
{
    uint64_t dice = 5;
    size_t computed = 0, refused = 0;
    for (size_t round = 0; round < 600; round++) {
        struct drawn d;
        struct sharded *s[RANKS] = {0};
        size_t seen[STEPS] = {0};
        bool opens = true;
        strategy_draw(models[round % MODELS], RANKS, round % 2, NULL, &dice, &d);
        for (size_t k = 0; k < 1 + round % 3; k++)
            spoil(&d.program.operators, &dice);
        opens = operators_check(&d.program.operators) == STATUS_OK;
        for (uint32_t m = 0; m < RANKS; m++)
            opens = opens && open_rank(&d.program, m, 1e-3, &s[m]) == STATUS_OK;
        if (opens) {
            iterate(s, &d.program, seen);
            for (size_t m = 0; m < RANKS; m++)
                sharded_update(s[m], 1);
        }
        *(opens ? &computed : &refused) += 1;
        for (size_t m = 0; m < RANKS; m++)
            sharded_close(s[m]);
        strategy_free(&d);
    }
    assert_true(computed > 20 && refused > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_finite_differences),
        cmocka_unit_test(but_for_rounding_every_strategy_is_one_training),
        cmocka_unit_test(what_opens_can_be_computed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
