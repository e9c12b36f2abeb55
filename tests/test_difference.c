/* Plans and measurements side by side: rows that add up, mirrors, and no difference that is not
 * said. Random plans, random times, from seeds. */
#include "study/difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { TRIALS = 1000, DEVICES = 64, RANKS = 8 };

static double drawn(uint64_t *state)
{
    return random_below(state, 3) ? random_below(state, 1000000) * 1e-7 : 0;
}

/* Times of ranks that add up to one iteration, as engines measure it, or to a little more, as the
 * median step of a run is. */
static struct measurement random_times(uint64_t *state)
{
    struct measurement m = {.engine = sample_text("analytic"), .ranks = 1};
    double sum_s = 0;
    m.ranks += random_below(state, RANKS);
    m.rank = calloc(m.ranks, sizeof *m.rank);
    assert_non_null(m.rank);
    for (struct measured_rank *r = m.rank; r < m.rank + m.ranks; r++) {
        r->name = sample_text("h0");
        r->update_s = drawn(state);
        r->busy_s = r->update_s + 1e-3 + drawn(state);
        for (int k = 0; k < OP_PURPOSES; k++)
            r->exposed_comm_s += r->exposed_s[k] = drawn(state);
        r->idle_s = drawn(state);
        sum_s += r->busy_s + r->exposed_comm_s + r->idle_s;
    }
    m.iteration_s = sum_s / (double)m.ranks * (1 + (random_below(state, 2) ? 0 : drawn(state)));
    m.samples_per_s = (1 + random_below(state, 2)) * 8 / m.iteration_s;
    m.tokens_per_s = random_below(state, 2) ? 64 * m.samples_per_s : 0;
    return m;
}

struct pair {
    struct model model;
    struct measurement m[2];
    struct loaded_plan plan[2];
    bool known[2];
    double units[2];
    struct difference d;
};

static const char *const names[] = {"a.json", "b.json"};

static void pair_open(uint64_t *state, struct pair *p)
{
    memset(p, 0, sizeof *p);
    p->model = random_model(state);
    for (int k = 0; k < 2; k++) {
        p->m[k] = random_times(state);
        p->plan[k].plan = random_plan(state, &p->model, DEVICES);
        p->known[k] = true;
    }
    p->d = (struct difference){
        .n = 2, .path = names, .m = p->m, .plan = p->plan, .known = p->known, .units = p->units};
    assert_int_equal(difference_settle(&p->d), STATUS_OK);
}

static void pair_close(struct pair *p)
{
    for (int k = 0; k < 2; k++) {
        measurement_free(&p->m[k]);
        loaded_plan_free(&p->plan[k]);
    }
    model_free(&p->model);
}

/* The same two, `first` and `second` of them. */
static struct difference pair_of(struct pair *p, int first, int second, struct measurement m[2],
                                 struct loaded_plan plan[2], double units[2])
{
    struct difference d = p->d;
    int which[2] = {first, second};
    for (int k = 0; k < 2; k++) {
        m[k] = p->m[which[k]];
        plan[k] = p->plan[which[k]];
    }
    d.m = m;
    d.plan = plan;
    d.units = units;
    d.warnings = 0;
    assert_int_equal(difference_settle(&d), STATUS_OK);
    return d;
}

static void rows_add_up_to_the_difference_largest_first(void **state)
{
    uint64_t seed = 1;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pair p;
        struct difference_row row[BREAKDOWN_PARTS];
        pair_open(&seed, &p);
        size_t n = difference_rows(&p.d, row);
        double a_s = 0, b_s = 0, whole_s = p.m[1].iteration_s / p.units[1];
        for (size_t k = 0; k < n; k++) {
            a_s += row[k].a_s;
            b_s += row[k].b_s;
            if (k > 0)
                assert_true(fabs(row[k - 1].b_s - row[k - 1].a_s) >= fabs(row[k].b_s - row[k].a_s));
        }
        whole_s -= p.m[0].iteration_s / p.units[0];
        assert_near(b_s - a_s, whole_s, 1e-9 * (a_s + b_s));
        assert_true(p.d.per[0] != 'i' || p.units[0] + p.units[1] == 2);
        pair_close(&p);
    }
}

static void a_plan_beside_itself_has_nothing_different(void **state)
{
    uint64_t seed = 2;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pair p;
        struct measurement m[2];
        struct loaded_plan plan[2];
        struct difference_row row[BREAKDOWN_PARTS];
        struct plan_change change[DIFFERENCE_CHANGES];
        double units[2];
        size_t changes;
        pair_open(&seed, &p);
        struct difference d = pair_of(&p, 0, 0, m, plan, units);
        assert_true(difference_changes(&d, change, &changes));
        assert_int_equal(changes, 0);
        assert_int_equal(d.warnings, 0);
        for (size_t n = difference_rows(&d, row), k = 0; k < n; k++)
            assert_true(row[k].a_s <= row[k].b_s && row[k].a_s >= row[k].b_s);
        pair_close(&p);
    }
}

static void the_other_order_is_the_mirror(void **state)
{
    uint64_t seed = 3;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pair p;
        struct measurement m[2];
        struct loaded_plan plan[2];
        struct difference_row row[BREAKDOWN_PARTS], other[BREAKDOWN_PARTS];
        struct plan_change change[DIFFERENCE_CHANGES], back[DIFFERENCE_CHANGES];
        double units[2];
        size_t n, changes;
        pair_open(&seed, &p);
        struct difference d = pair_of(&p, 1, 0, m, plan, units);
        n = difference_rows(&p.d, row);
        assert_int_equal(difference_rows(&d, other), n);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(row[k].part, other[k].part);
            assert_near(row[k].a_s, other[k].b_s, 0);
            assert_near(row[k].b_s, other[k].a_s, 0);
        }
        assert_true(difference_changes(&p.d, change, &n));
        assert_true(difference_changes(&d, back, &changes));
        assert_int_equal(n, changes);
        for (size_t k = 0; k < n; k++) {
            assert_string_equal(change[k].what, back[k].what);
            assert_string_equal(change[k].from, back[k].to);
            assert_string_equal(change[k].to, back[k].from);
        }
        pair_close(&p);
    }
}

/* The last op of the first stage becomes the first of the second. */
static void move_op(struct plan *p)
{
    struct plan_stage *x = &p->stage[0], *y = &p->stage[1];
    if (p->stages < 2 || x->ops < 2)
        return;
    uint32_t *op = calloc(y->ops + 1, sizeof *op);
    assert_non_null(op);
    op[0] = x->op[--x->ops];
    memcpy(op + 1, y->op, y->ops++ * sizeof *op);
    free(y->op);
    y->op = op;
}

/* Of a stage or the plan: a knob, the batch, the ops or the devices. */
static void change_something(uint64_t *state, struct plan *p)
{
    struct plan_stage *s = &p->stage[random_below(state, (uint32_t)p->stages)];
    const struct strategy_knob *k = &strategy_knobs[random_below(state, STRATEGY_KNOBS)];
    double value = k->word ? random_below(state, (uint32_t)k->words)
                           : k->least + random_below(state, k->most > 0 && k->most < 4 ? 3 : 4);
    uint32_t other = random_below(state, (uint32_t)s->devices), device = s->device[0];
    switch (random_below(state, 8)) {
    case 0:
        p->microbatches *= 2;
        break;
    case 1:
        p->microbatch_size *= 2;
        break;
    case 2:
        s->device[0] = s->device[other];
        s->device[other] = device;
        break;
    case 3:
        move_op(p);
        break;
    default:
        strategy_put(k, k->kind == FIELD_BOOL ? random_below(state, 2) : value,
                     k->scope == STRATEGY_PLAN ? (void *)&p->shared : &s->own);
    }
}

/* Seconds and bytes of the ops of a kind and stage. */
static void add_up(const struct program *p, size_t kind, uint32_t stage, double sum[2])
{
    sum[0] = sum[1] = 0;
    for (const struct program_op *o = p->op; o < p->op + p->ops; o++) {
        bool is = o->kind == kind && o->stage == stage;
        sum[0] += is ? o->seconds : 0;
        sum[1] += is ? (double)o->bytes * o->count : 0;
    }
}

/* Are both made of the same ops, at the same cost? Also where neither can be lowered. The order may
 * be another: parameters that are kept are gathered all at the iteration's begin instead of its
 * end. */
static bool lower_alike(const struct pair *p, const struct topology *t)
{
    struct program a = {0}, b = {0};
    enum status first = plan_lower(&p->plan[0].plan, &p->model, t, &a),
                second = plan_lower(&p->plan[1].plan, &p->model, t, &b);
    bool alike = first == second && a.ops == b.ops && a.ranks == b.ranks;
    for (size_t kind = 0; alike && kind < OP_KINDS; kind++)
        for (uint32_t s = 0; alike && s < p->plan[0].plan.stages; s++) {
            double x[2], y[2];
            add_up(&a, kind, s, x);
            add_up(&b, kind, s, y);
            alike = fabs(x[0] - y[0]) <= 1e-9 * x[0] && fabs(x[1] - y[1]) <= 1e-9 * x[1];
        }
    program_free(&a);
    program_free(&b);
    return alike;
}

/* The slower truth is the program: plans of which it is another differ in something. */
static void plans_without_changes_are_the_same_program(void **state)
{
    struct topology t = sample_clique(DEVICES, 1e-6, 1e10);
    uint64_t seed = 4;
    size_t silent = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pair p;
        struct plan_change change[DIFFERENCE_CHANGES];
        size_t n;
        char text[RANDOM_PLAN_TEXT];
        pair_open(&seed, &p);
        plan_free(&p.plan[1].plan);
        assert_int_equal(plan_copy(&p.plan[0].plan, &p.plan[1].plan), STATUS_OK);
        change_something(&seed, &p.plan[1].plan);
        bool is_plan = plan_check(&p.plan[1].plan, &p.model, &t) == STATUS_OK;
        assert_true(difference_changes(&p.d, change, &n));
        silent += is_plan && n == 0;
        if (is_plan && n == 0 && !lower_alike(&p, &t))
            fail_msg("no change, another program: %s", random_plan_print(&p.plan[1].plan, text));
        pair_close(&p);
    }
    assert_in_range(silent, TRIALS / 20, TRIALS / 2);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_add_up_to_the_difference_largest_first),
        cmocka_unit_test(a_plan_beside_itself_has_nothing_different),
        cmocka_unit_test(the_other_order_is_the_mirror),
        cmocka_unit_test(plans_without_changes_are_the_same_program),
    };
    return cmocka_run_group_tests_name("difference", tests, NULL, NULL);
}
