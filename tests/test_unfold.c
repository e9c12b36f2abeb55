/* Measurements of folded plans: what evaluate_plan() says of a plan whose ranks that are alike were
 * simulated once is what it says when all of them were, field by field, its steady middle and the
 * loads of all links included. Random plans on generated platforms with links that are shared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/warn.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/random_plan.h"

enum { LONGER = 64 };
static size_t plans = 10; /* of each platform; "test_unfold 50": as many */

static const char *const platform[] = {
    "rail:nodes=8,gpus=4,type=H100",
    "leaf-spine:nodes=8,gpus=4,nic=25Gbps",
    "leaf-spine:nodes=8,gpus=4,nic=100Gbps,rack=2,oversubscription=4",
    "fat-tree:nodes=8,gpus=4,nics=1,edge=2,pod=2,nic=100Gbps,type=A100",
    "mesh:gpus=8,type=A100,link=50GBps",
    "nvl:domains=2,gpus=16,oversubscription=2",
};

struct setup {
    struct topology topology;
    struct model model;
    struct plan plan;
    char text[RANDOM_PLAN_TEXT];
    double tolerance; /* of times relative to the iteration, of the rest relative to itself */
};

static void expect_near(const struct setup *s, const char *what, double folded, double whole,
                        double scale)
{
    if (!(fabs(folded - whole) <= s->tolerance * scale))
        fail_msg("%s: %s: folded %.12g instead of %.12g", s->text, what, folded, whole);
}

static void expect_same_rank(const struct setup *s, const struct measured_rank *a,
                             const struct measured_rank *b, double all_s)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->stage, b->stage);
    expect_near(s, "busy", a->busy_s, b->busy_s, all_s);
    expect_near(s, "exposed", a->exposed_comm_s, b->exposed_comm_s, all_s);
    expect_near(s, "idle", a->idle_s, b->idle_s, all_s);
    expect_near(s, "update", a->update_s, b->update_s, all_s);
    for (size_t k = 0; k < OP_PURPOSES; k++)
        expect_near(s, op_purpose_names[k], a->exposed_s[k], b->exposed_s[k], all_s);
    assert_int_equal(a->peak_bytes, b->peak_bytes);
    assert_int_equal(!a->peak_at, !b->peak_at);
    if (a->peak_at && strcmp(a->peak_at, b->peak_at) != 0)
        fail_msg("%s: %s is fullest at %s instead of %s", s->text, b->name, a->peak_at, b->peak_at);
    assert_int_equal(a->weight_bytes, b->weight_bytes);
    assert_int_equal(a->gradient_bytes, b->gradient_bytes);
    assert_int_equal(a->state_bytes, b->state_bytes);
    assert_int_equal(a->stash_bytes, b->stash_bytes);
    assert_int_equal(a->scratch_bytes, b->scratch_bytes);
    assert_int_equal(a->memory_bytes, b->memory_bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct measured_link *)a)->name, ((const struct measured_link *)b)->name);
}

static void expect_same_links(const struct setup *s, struct measurement *a, struct measurement *b)
{
    if (a->links != b->links)
        fail_msg("%s: %zu links instead of %zu", s->text, a->links, b->links);
    if (a->links == 0)
        return;
    qsort(a->link, a->links, sizeof *a->link, by_name);
    qsort(b->link, b->links, sizeof *b->link, by_name);
    for (size_t k = 0; k < a->links; k++) {
        assert_string_equal(a->link[k].name, b->link[k].name);
        expect_near(s, a->link[k].name, a->link[k].bytes, b->link[k].bytes, b->link[k].bytes);
        expect_near(s, a->link[k].name, a->link[k].busy_fraction, b->link[k].busy_fraction,
                    b->link[k].busy_fraction);
    }
}

static void expect_same_calls(const struct setup *s, const struct measurement *a,
                              const struct measurement *b)
{
    assert_int_equal(a->calls, b->calls);
    for (size_t k = 0; k < b->calls; k++) {
        const struct measured_call *y = &b->call[k], *x = a->call;
        while (x < a->call + a->calls && !measured_calls_alike(x, y))
            x++;
        assert_true(x < a->call + a->calls);
        expect_near(s, measured_call_name(y), x->calls, y->calls, y->calls);
        expect_near(s, measured_call_name(y), x->seconds, y->seconds, b->iteration_s * y->calls);
        assert_int_equal(!x->algorithm, !y->algorithm);
        if (x->algorithm)
            assert_string_equal(x->algorithm, y->algorithm);
    }
}

static void expect_same(const struct setup *s, struct measurement *a, struct measurement *b)
{
    expect_near(s, "iteration", a->iteration_s, b->iteration_s, b->iteration_s);
    expect_near(s, "samples/s", a->samples_per_s, b->samples_per_s, b->samples_per_s);
    expect_near(s, "tokens/s", a->tokens_per_s, b->tokens_per_s, b->tokens_per_s);
    expect_near(s, "bubble", a->bubble_fraction, b->bubble_fraction, 1);
    expect_near(s, "flops", a->flops, b->flops, b->flops);
    expect_near(s, "MFU", a->mfu, b->mfu, b->mfu);
    expect_near(s, "HFU", a->hfu, b->hfu, b->hfu);
    assert_int_equal(a->microbatches, b->microbatches);
    assert_int_equal(measurement_overfull(a), measurement_overfull(b));
    assert_int_equal(a->ranks, b->ranks);
    for (size_t r = 0; r < b->ranks; r++)
        expect_same_rank(s, &a->rank[r], &b->rank[r], b->iteration_s);
    expect_same_links(s, a, b);
    expect_same_calls(s, a, b);
    assert_int_equal(a->warnings, b->warnings);
    for (size_t k = 0; k < b->warnings; k++)
        assert_string_equal(a->warning[k], b->warning[k]);
}

/* The next plan that can be lowered; every fifth is long, so that its middle may repeat. */
static void next_plan(struct setup *s, uint64_t *seed, size_t k)
{
    for (enum status st = STATUS_INVALID; st != STATUS_OK;) {
        struct program p = {0};
        plan_free(&s->plan);
        model_free(&s->model);
        s->model = random_model(seed);
        s->plan = random_plan(seed, &s->model, (uint32_t)s->topology.n);
        s->plan.microbatches *= k % 5 == 4 ? LONGER : 1;
        random_plan_print(&s->plan, s->text);
        st = plan_lower(&s->plan, &s->model, &s->topology, &p);
        program_free(&p);
    }
}

static void evaluate(const struct setup *s, const struct engine *engine, size_t from,
                     struct measurement *m)
{
    struct program program = {0};
    const struct evaluation_context context = {.model = &s->model,
                                               .topology = &s->topology,
                                               .platform = generated_path,
                                               .detailed = true,
                                               .fold_from = from};
    if (evaluate_plan(&s->plan, &context, engine, m, &program, NULL) != STATUS_OK ||
        warn_simulation(&s->plan, &program, &context, m) != STATUS_OK)
        fail_msg("%s: %s", s->text, error_message());
    program_free(&program);
}

static void check_platforms(const struct engine *engine, double tolerance, size_t n, size_t least)
{
    uint64_t seed = 11;
    size_t folded = 0, both = 0;
    for (size_t k = 0; k < sizeof platform / sizeof *platform; k++) {
        struct setup s = {.topology = generated(platform[k]), .tolerance = tolerance};
        s.topology.type[0].message_s =
            k % 2 ? 2e-6 : 0; /* every other takes messages from compute */
        s.topology.type[0].message_Bps = k % 2 ? 1e11 : 0;
        for (size_t i = 0; i < n; i++) {
            struct measurement a = {0}, b = {0};
            next_plan(&s, &seed, i);
            evaluate(&s, engine, 1, &a);
            evaluate(&s, engine, SIZE_MAX, &b);
            assert_int_equal(b.ranks_simulated, 0);
            assert_true((a.ranks_simulated > 0) != (a.ranks_not_folded != NULL));
            expect_same(&s, &a, &b);
            folded += a.ranks_simulated > 0;
            both += a.ranks_simulated > 0 && a.simulated < a.microbatches;
            measurement_free(&a);
            measurement_free(&b);
        }
        plan_free(&s.plan);
        model_free(&s.model);
        topology_free(&s.topology);
    }
    print_message("%s: %zu of %zu plans fold, %zu also by their middle\n", engine->name, folded,
                  n * sizeof platform / sizeof *platform, both);
    assert_true(folded >= least);
}

static void folded_is_whole_on_the_analytic_engine(void **state)
{
    check_platforms(&engine_analytic, 1e-9, plans, 3 * plans);
}

/* SimGrid ends flows that are nearer to their end than its precision. */
static void folded_is_whole_on_simgrid(void **state)
{
    check_platforms(&engine_simgrid, 1e-6, 2, 4);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        plans = strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_is_whole_on_the_analytic_engine),
        cmocka_unit_test(folded_is_whole_on_simgrid),
    };
    return cmocka_run_group_tests_name("unfold", tests, NULL, NULL);
}
