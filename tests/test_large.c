/* Scores of large plans, 257 to 2,048 devices: what a search's quick evaluator says of a plan is
 * what the simulation of all its ranks says, contention included, wherever it claims to be exact;
 * and the few plans of a platform that it likes best have the best one among them. Random models
 * and plans. */
#include <math.h>
#include <stdlib.h>

#include "core/lower/lower.h"
#include "study/evaluate.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { FINALISTS = 3 };
static uint32_t plans = 6;          /* of each platform; "test_large 40": as many */
static const double far_off = 0.05; /* a plan that missed the finalists is not better by more */

static const char *const platform[] = {
    "rail:nodes=64,gpus=8,type=H100",
    "leaf-spine:nodes=96,gpus=8,type=H100,nic=100Gbps",
    "leaf-spine:nodes=64,gpus=8,type=A100,rack=8,oversubscription=4",
    "fat-tree:nodes=48,gpus=8,nics=2,edge=4,pod=3,type=A100",
    "torus:x=8,y=8,z=8,type=A100,link=50GBps",
    "nvl:domains=8,gpus=64,oversubscription=2",
    "leaf-spine:nodes=256,gpus=8,type=H100,oversubscription=2",
};

static uint32_t power(uint64_t *seed, uint32_t most)
{
    uint32_t n = 1u << random_below(seed, most + 1);
    return n;
}

/* A plan on all devices, as they are numbered: a stage's side by side or a replica's. */
static struct plan next_plan(uint64_t *seed, const struct model *m, uint32_t devices)
{
    uint32_t stages = power(seed, 3), shards = power(seed, 3), replicas = devices / stages / shards;
    bool by_stage = random_below(seed, 2);
    struct plan p = sample_plan(m, stages, replicas, replicas * stages * power(seed, 2), "1f1b");
    p.zero = random_below(seed, 3);
    p.bucket_bytes = random_below(seed, 2) ? 16000000 : 0;
    for (uint32_t s = 0; s < stages; s++) {
        struct plan_stage *stage = &p.stage[s];
        stage->tensor_parallel = shards;
        stage->devices = (size_t)replicas * shards;
        free(stage->device);
        stage->device = calloc(stage->devices, sizeof *stage->device);
        assert_non_null(stage->device);
        for (uint32_t r = 0; r < replicas; r++)
            for (uint32_t k = 0; k < shards; k++)
                stage->device[r * shards + k] =
                    (by_stage ? s * replicas + r : r * stages + s) * shards + k;
    }
    return p;
}

/* Samples per second when all ranks are simulated. */
static double whole(const struct evaluation_context *context, const struct plan *p)
{
    struct evaluation_context c = *context;
    struct measurement m = {0};
    c.fold_from = SIZE_MAX;
    if (evaluate_plan(p, &c, &engine_analytic, &m, NULL, NULL) != STATUS_OK)
        fail_msg("%s", error_message());
    double samples = m.samples_per_s;
    measurement_free(&m);
    return samples;
}

/* What is said of the plans of a platform. */
struct tally {
    size_t exact;
    double worst;          /* of those that are not: score / truth, the farthest from 1 */
    double *quick, *truth; /* [plans] samples per second */
};

static void score(const struct evaluation_context *context, const struct plan *p, size_t k,
                  struct tally *out)
{
    struct evaluation_context c = *context;
    struct evaluator e = evaluator_make(&c);
    struct evaluation quick;
    char text[RANDOM_PLAN_TEXT];
    if (e.quick(e.context, p, &quick) != STATUS_OK)
        fail_msg("%s", error_message());
    out->quick[k] = quick.samples_per_s;
    out->truth[k] = whole(context, p);
    double ratio = out->quick[k] / out->truth[k];
    out->exact += quick.exact;
    if (quick.exact && !(fabs(ratio - 1) <= 1e-9))
        fail_msg("%s: %.12g samples/s instead of %.12g", random_plan_print(p, text), out->quick[k],
                 out->truth[k]);
    if (fabs(log(ratio)) > fabs(log(out->worst)))
        out->worst = ratio;
}

/* By how much the best plan is better than the best of the few with the best scores. */
static double regret(const struct tally *t)
{
    double best = 0, found = 0;
    for (uint32_t k = 0; k < plans; k++) {
        size_t better = 0;
        for (uint32_t j = 0; j < plans; j++)
            better += t->quick[j] > t->quick[k];
        best = fmax(best, t->truth[k]);
        if (better < FINALISTS)
            found = fmax(found, t->truth[k]);
    }
    return best / found - 1;
}

static void quick_scores_of_large_plans_see_who_shares_links(void **state)
{
    uint64_t seed = 17;
    size_t exact = 0, all = 0;
    for (size_t k = 0; k < sizeof platform / sizeof *platform; k++) {
        struct topology t = generated(platform[k]);
        struct model m = random_model(&seed);
        struct tally tally = {.worst = 1};
        const struct evaluation_context context = {
            .model = &m, .topology = &t, .platform = generated_path};
        tally.quick = calloc(plans, sizeof *tally.quick);
        tally.truth = calloc(plans, sizeof *tally.truth);
        assert_true(tally.quick && tally.truth && t.n >= 257 && t.n <= 2048);
        for (uint32_t i = 0; i < plans; i++) {
            struct plan p = next_plan(&seed, &m, (uint32_t)t.n);
            score(&context, &p, i, &tally);
            plan_free(&p);
        }
        print_message("%s: %zu of %u exact, the farthest off %+.1f %%, regret %.2f %%\n",
                      platform[k], tally.exact, plans, 100 * (tally.worst - 1),
                      100 * regret(&tally));
        assert_true(regret(&tally) <= far_off);
        exact += tally.exact;
        all += plans;
        free(tally.quick);
        free(tally.truth);
        model_free(&m);
        topology_free(&t);
    }
    print_message("%zu of %zu exact\n", exact, all);
    assert_true(2 * exact > all);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        plans = (uint32_t)strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_scores_of_large_plans_see_who_shares_links),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
