/* Which single change of a plan needs less memory, against all of them lowered in full; and what is
 * said of how sure it is that a plan fits. */
#include "study/memory_answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/data/program_check.h"
#include "core/data/rules.h"
#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

/* In the order in which they are tried; false: no such change. */
enum { CHANGES = 9 };
static bool change(struct plan *p, int k)
{
    static const enum plan_offload offload[] = {OFFLOAD_OPTIMIZER, OFFLOAD_ACTIVATIONS};
    bool other = false;
    switch (k) {
    case 0:
        other = !p->sequence_parallel;
        p->sequence_parallel = true;
        return other;
    case 1:
    case 5:
    case 6:
        other = p->zero < (k == 1 ? 1u : (uint32_t)k - 3);
        p->zero = k == 1 ? 1 : (uint32_t)k - 3;
        p->zero_keep = false;
        return other;
    case 2:
    case 4:
        for (size_t s = 0; s < p->stages; s++) {
            enum plan_recompute to = k == 2 ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
            other |= p->stage[s].recompute < to ||
                     (p->stage[s].recompute == RECOMPUTE_FULL && p->stage[s].recompute_layers > 0);
            p->stage[s].recompute = to;
            p->stage[s].recompute_layers = p->stage[s].recompute_modules = 0;
        }
        return other;
    case 3:
        p->microbatches *= 2;
        p->microbatch_size /= 2;
        return p->microbatch_size > 0 && p->microbatch_size * 2 > 1;
    default:
        other = !((int)p->offload & (int)offload[k - 7]);
        p->offload = (enum plan_offload)((int)p->offload | (int)offload[k - 7]);
        return other;
    }
}

/* The part of the fullest rank's memory that is free, of a program that is made in full; -INFINITY:
 * there is no such program. */
static double spare_of(const struct plan *p, const struct model *m, const struct topology *t)
{
    struct program program = {0};
    double spare = 1;
    if (plan_lower(p, m, t, &program) != STATUS_OK)
        return -INFINITY;
    for (uint32_t r = 0; r < program.ranks; r++) {
        uint32_t op;
        double memory = (double)topology_type(t, program.rank[r].device)->memory_bytes;
        spare = fmin(spare, 1 - (double)program_peak(&program, r, &op) / memory);
    }
    program_free(&program);
    return spare;
}

/* What the changes come to, one by one; returns the free part after the one that is chosen. */
static double choose(const struct plan *p, const struct model *m, const struct topology *t,
                     double enough)
{
    const struct rule_model rules = rule_model_of(m);
    double best = spare_of(p, m, t);
    for (int k = 0; k < CHANGES && best < enough; k++) {
        struct plan with = {0};
        assert_int_equal(plan_copy(p, &with), STATUS_OK);
        bool is = (k != 3 || p->microbatch_size % 2 == 0) && change(&with, k);
        for (size_t s = 0; s < with.stages; s++)
            strategy_settle(&with.shared, &with.stage[s].own);
        const struct rule_view v = rule_view_of_plan(&with, &rules);
        if (is && !rules_broken(&v, RULES_OF_OPTIONS, NULL))
            best = fmax(best, spare_of(&with, m, t));
        plan_free(&with);
    }
    return best;
}

static void the_change_is_the_first_that_is_enough(void **state)
{
    enum { TRIALS = 300, DEVICES = 16 };
    uint64_t random = 1;
    size_t changed = 0, sufficient = 0;
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct memory_saving found;
        struct model m = random_model(&random);
        struct plan p = random_plan(&random, &m, DEVICES);
        struct topology t = sample_clique(DEVICES, 0, 1e9);
        const struct evaluation_context context = {.model = &m, .topology = &t};
        double now = spare_of(&p, &m, &t), enough = 0.05 * (double)random_below(&random, 6);
        t.type[0].memory_bytes = (int64_t)((1 - now) * (double)t.type[0].memory_bytes *
                                           (0.85 + 0.05 * (double)random_below(&random, 8)));
        if (isfinite(now) && t.type[0].memory_bytes > 0) {
            now = spare_of(&p, &m, &t);
            double best = choose(&p, &m, &t, enough);
            assert_int_equal(memory_saving_find(&p, &context, enough, &found), STATUS_OK);
            assert_true(fabs(found.spare - best) < 1e-9);
            assert_int_equal(*found.option != '\0', best > now);
            changed += best > now;
            sufficient += best > now && best >= enough;
        }
        topology_free(&t);
        plan_free(&p);
        model_free(&m);
    }
    print_message("%zu changes help, %zu are enough\n", changed, sufficient);
    assert_true(sufficient > 20 && changed > sufficient);
}

/* The line of a plan of Megatron that needs so many of 1000 bytes. */
static bool says(struct plan *p, const struct evaluation_context *c, int64_t need, const char *word)
{
    struct file_text text = {0};
    struct memory_need of = {"h0", need, 1000, 0, NULL};
    assert_int_equal(file_text_open(&text), STATUS_OK);
    enum status st = memory_answer_print(p, c, &of, text.stream);
    assert_int_equal(file_text_close(&text, st), STATUS_OK);
    bool is = !strncmp(text.text + strlen("memory      "), word, strlen(word));
    free(text.text);
    return is;
}

static void what_is_within_the_error_only_probably_fits(void **state)
{
    struct model m = sample_chain(4, 1, 1, 8, 8);
    struct topology t = sample_clique(4, 0, 1e9);
    struct plan p = sample_plan(&m, 1, 4, 4, "1f1b");
    const struct evaluation_context c = {.model = &m, .topology = &t};
    (void)state;
    assert_int_equal(memory_error_of(&p).runs, 0);
    assert_true(says(&p, &c, 999, "fits:"));
    assert_int_equal(plan_set_framework(&p, "megatron"), STATUS_OK);
    const struct memory_error dense = memory_error_of(&p);
    p.stage[0].expert_parallel = 2;
    const struct memory_error experts = memory_error_of(&p);
    assert_true(dense.runs > experts.runs && experts.runs > 0 && dense.median < experts.median);
    for (int64_t need = 850; need <= 1010; need++) {
        double spare = 1 - (double)need / 1000;
        for (int spread = 1; spread <= 2; spread++) {
            p.stage[0].expert_parallel = (uint32_t)spread;
            const struct memory_error e = memory_error_of(&p);
            assert_true(says(&p, &c, need,
                             spare < 0          ? "does not fit:"
                             : spare < e.median ? "probably fits:"
                                                : "fits:"));
        }
        assert_false(says(&p, NULL, need, "probably")); /* was measured */
    }
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_change_is_the_first_that_is_enough),
        cmocka_unit_test(what_is_within_the_error_only_probably_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
