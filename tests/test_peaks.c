/* What ranks need of memory, without lists (plan_lower_peaks()): by hand, and against the lists. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/op_costs.h"
#include "core/data/program_check.h"
#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { TRIALS = 400, DEVICES = 64, MEGA = 1000000 };

/* Two stages of two ops; those of the first have a stash of 2 MB each, and its slot has room for the
 * gradient of the 1 MB that it sends. gpipe keeps all microbatches, 1f1b as many as there are
 * ranks. */
static int64_t peak_of_two(const char *schedule, uint32_t microbatches)
{
    int64_t peak;
    double work;
    struct lowered s = {.model = sample_chain(4, 1e-3, 2e-3, 8 * MEGA, MEGA),
                        .topology = sample_clique(2, 0, 1e9)};
    s.model.op[0].stash_bytes = s.model.op[1].stash_bytes = 2 * MEGA;
    s.model.op[2].stash_bytes = s.model.op[3].stash_bytes = 0;
    s.model.op[2].parameter_bytes = s.model.op[3].parameter_bytes = 0;
    s.plan = sample_plan(&s.model, 2, 1, microbatches, schedule);
    assert_int_equal(plan_lower_peaks(&s.plan, &s.model, &s.topology, NULL, &peak, &work), 0);
    assert_near(work, 2 * 2 * microbatches, 0); /* two ranks, two passes */
    lowered_free(&s);
    return peak;
}

static void ranks_keep_as_many_microbatches_as_their_schedule_says(void **state)
{
    (void)state;
    assert_int_equal(peak_of_two("gpipe", 4) - peak_of_two("gpipe", 1), 3 * 5 * MEGA);
    assert_int_equal(peak_of_two("1f1b", 4), peak_of_two("gpipe", 2));
    assert_int_equal(peak_of_two("1f1b", 40), peak_of_two("gpipe", 2));
    /* weights and gradients, and scratch of no more than an op's output and its gradient */
    assert_in_range(peak_of_two("gpipe", 1), (32 + 5) * MEGA, (32 + 5 + 2) * MEGA);
}

/* Every other device of a type that has more of everything. */
static void add_type(struct topology *t)
{
    struct device_type *two = realloc(t->type, 2 * sizeof *two);
    assert_non_null(two);
    t->type = two;
    two[1] = two[0];
    two[1].name = sample_text("other");
    two[1].memory_bytes *= 2;
    t->types = 2;
    for (size_t i = 0; i < t->n; i++)
        t->type_of[i] = i % 2;
}

static void expect_same(const struct lowered *s, struct op_costs *costs, const char *text)
{
    int64_t peak[2], wanted[2] = {0};
    struct program p = {0};
    double work;
    if (plan_lower_folded(&s->plan, &s->model, &s->topology, NULL, &p) != STATUS_OK)
        return;
    for (uint32_t r = 0; r < p.ranks; r++) {
        int64_t *at = &wanted[s->topology.type_of[p.rank[r].device]],
                is = program_peak(&p, r, NULL);
        *at = is > *at ? is : *at;
    }
    if (plan_lower_peaks(&s->plan, &s->model, &s->topology, costs, peak, &work) != STATUS_OK)
        fail_msg("%s: %s", text, error_message());
    for (size_t k = 0; k < s->topology.types; k++)
        if (peak[k] != wanted[k])
            fail_msg("%s: type %zu: %lld bytes, the lists say %lld", text, k, (long long)peak[k],
                     (long long)wanted[k]);
    program_free(&p);
}

/* With costs that are remembered, and shared by stages that are alike, lists are the same. */
static void expect_same_lists(const struct lowered *s, struct op_costs *costs, const char *text)
{
    struct program p = {0}, q = {0};
    const struct plan_lower_options how = {.costs = costs};
    if (plan_lower(&s->plan, &s->model, &s->topology, &p) != STATUS_OK)
        return;
    assert_int_equal(plan_lower_with(&s->plan, &s->model, &s->topology, &how, &q), STATUS_OK);
    assert_int_equal(p.ops, q.ops);
    assert_int_equal(p.deps, q.deps);
    bool same = memcmp(p.dep, q.dep, p.deps * sizeof *p.dep) == 0;
    for (size_t i = 0; i < p.ops && same; i++) {
        const struct program_op *a = &p.op[i], *b = &q.op[i];
        same = a->kind == b->kind && a->seconds == b->seconds && a->bytes == b->bytes &&
               a->count == b->count && a->part == b->part && a->peer == b->peer;
    }
    for (size_t r = 0; r < p.ranks && same; r++)
        same = program_static_bytes(&p.rank[r]) == program_static_bytes(&q.rank[r]) &&
               p.rank[r].scratch_bytes == q.rank[r].scratch_bytes &&
               p.rank[r].host_bytes == q.rank[r].host_bytes;
    if (!same)
        fail_msg("%s: lists differ", text);
    program_free(&p);
    program_free(&q);
}

/* Some plans of different replicas, too. */
static void make_uneven(struct plan *p, uint64_t *seed)
{
    if (p->stages < 2 || plan_chunks(p) > 1 || p->stage[0].replicas < 2)
        return;
    struct plan_stage *s = &p->stage[random_below(seed, (uint32_t)p->stages)];
    s->replicas /= 2;
    s->devices /= 2;
}

static void peaks_are_those_of_the_lists(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        uint64_t seed = trial;
        char text[RANDOM_PLAN_TEXT];
        struct op_costs *costs = NULL;
        struct lowered s = {.model = random_model(&seed),
                            .topology = sample_clique(DEVICES, 0, 1e9)};
        if (trial % 5 == 0)
            add_type(&s.topology);
        s.plan = random_plan(&seed, &s.model, DEVICES);
        if (trial % 7 == 0)
            make_uneven(&s.plan, &seed);
        if (trial % 2 == 1)
            assert_int_equal(plan_set_framework(&s.plan, "megatron"), STATUS_OK);
        random_plan_print(&s.plan, text);
        assert_int_equal(op_costs_open(&s.model, &costs), STATUS_OK);
        expect_same(&s, NULL, text);
        expect_same(&s, costs, text);
        expect_same(&s, costs, text); /* all of it remembered */
        expect_same_lists(&s, costs, text);
        op_costs_close(costs);
        lowered_free(&s);
    }
}

static void impossible_plans_are_refused(void **state)
{
    int64_t peak;
    double work;
    (void)state;
    struct lowered s = {.model = sample_chain(4, 1e-3, 2e-3, 8, 8),
                        .topology = sample_clique(2, 0, 1e9)};
    s.plan = sample_plan(&s.model, 2, 1, 4, "1f1b");
    s.plan.stage[1].device[0] = 0; /* a device of two teams */
    s.plan.stage[1].tensor_parallel = 2;
    assert_int_equal(plan_lower_peaks(&s.plan, &s.model, &s.topology, NULL, &peak, &work),
                     STATUS_INVALID);
    lowered_free(&s);
}

static enum status peaks(const struct lowered *s)
{
    int64_t peak;
    double work;
    return plan_lower_peaks(&s->plan, &s->model, &s->topology, NULL, &peak, &work);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct lowered s = {.model = sample_chain(4, 1e-3, 2e-3, 8, 8),
                        .topology = sample_clique(4, 0, 1e9)};
    s.plan = sample_plan(&s.model, 2, 2, 4, "1f1b");
    s.plan.zero = 3;
    FOR_EACH_ALLOC_FAILURE(peaks(&s));
    s.plan.offload = OFFLOAD_ACTIVATIONS;
    FOR_EACH_ALLOC_FAILURE(peaks(&s));
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_keep_as_many_microbatches_as_their_schedule_says),
        cmocka_unit_test(peaks_are_those_of_the_lists),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
