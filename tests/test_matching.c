/* Circuits of an optical network: a search against all matchings of small ones. */
#include "tests/cmocka.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engines.h"
#include "study/load.h"
#include "study/matching.h"
#include "tests/random_plan.h"
#include "topologies/ocs.h"

enum { PODS = 4, PORTS = 3, PAIRS = PODS * (PODS - 1) / 2, SIMULATIONS = 400 };
static const char spec[] = "ocs:pods=4,nodes=1,gpus=2,nics=2,circuits=3,nic=10Gbps,nvlink=50GBps";

static double iteration_on(const struct plan *p, const struct model *m, const char *description)
{
    struct topology t = {0};
    struct measurement measured = {0};
    char *path = NULL;
    double seconds = NAN;
    assert_int_equal(load_topology(description, &t, &path), STATUS_OK);
    const struct evaluation_context c = {.model = m, .topology = &t, .platform = path};
    if (evaluate_plan(p, &c, engine_quick(), &measured, NULL, NULL) == STATUS_OK)
        seconds = measured.iteration_s;
    measurement_free(&measured);
    topology_free(&t);
    free(path);
    return seconds;
}

/* The least over all matchings: every number of circuits from 0 to PORTS between every two pods. */
static double least_of_all(const struct plan *p, const struct model *m, size_t *matchings)
{
    double least = INFINITY;
    struct ocs_circuits c = {PODS, PORTS, (size_t[PODS * PODS]){0}};
    for (size_t code = 0; code < (size_t)pow(PORTS + 1, PAIRS); code++) {
        size_t left = code;
        char *description = NULL;
        for (size_t a = 0; a < PODS; a++)
            for (size_t b = a + 1; b < PODS; b++, left /= PORTS + 1)
                c.n[a * PODS + b] = c.n[b * PODS + a] = left % (PORTS + 1);
        if (ocs_describe_circuits(spec, &c, &description) != STATUS_OK)
            continue; /* too many at a pod, or not joined */
        least = fmin(least, iteration_on(p, m, description));
        ++*matchings;
        free(description);
    }
    return least;
}

static void is_the_best_of_all_matchings(void **state)
{
    uint64_t seed = 11;
    size_t cases = 0, best = 0, gained = 0;
    double worst = 1, sum = 0;
    (void)state;
    while (cases < 8) {
        struct model m = random_model(&seed);
        struct plan p = random_plan(&seed, &m, 2 * PODS);
        if (isfinite(iteration_on(&p, &m, spec))) {
            struct matching found = {0};
            size_t matchings = 0;
            const struct evaluation_context c = {.model = &m};
            double least = least_of_all(&p, &m, &matchings), by_name;
            assert_int_equal(matching_search(&p, &c, spec, SIMULATIONS, &found), STATUS_OK);
            assert_true(matchings > 100 && found.simulations <= SIMULATIONS);
            by_name = found.planned_s;
            for (size_t k = 0; k < MATCHING_WORDS; k++)
                by_name = fmin(by_name, found.word_s[k]);
            assert_true(found.iteration_s <= by_name && found.iteration_s >= least * (1 - 1e-9));
            assert_true(fabs(iteration_on(&p, &m, found.platform) / found.iteration_s - 1) < 1e-12);
            struct matching again = {0}; /* from there on: never worse */
            assert_int_equal(matching_search(&p, &c, found.platform, 5, &again), STATUS_OK);
            assert_true(again.iteration_s <= found.iteration_s * (1 + 1e-12));
            matching_free(&again);
            worst = fmax(worst, found.iteration_s / least);
            sum += found.iteration_s / least - 1;
            best += found.iteration_s <= least * (1 + 1e-9);
            gained += found.iteration_s < by_name * 0.999;
            cases++;
            matching_free(&found);
        }
        plan_free(&p);
        model_free(&m);
    }
    print_message("best of all in %zu of %zu, worst %.2f %% above, mean %.2f %%; shorter than by "
                  "name in %zu\n",
                  best, cases, 100 * (worst - 1), 100 * sum / (double)cases, gained);
    assert_true(best >= 7 && worst < 1.02);
}

/* The largest that a search changes: a circuit between every two pods. */
static void describes_circuits_of_32_pods(void **state)
{
    static const char all[] = "ocs:pods=32,nodes=4,gpus=8,nics=8,circuits=31";
    struct ocs_circuits c = {0}, again = {0};
    char *description = NULL;
    (void)state;
    assert_int_equal(ocs_circuits(all, &c), STATUS_OK);
    assert_int_equal(ocs_describe_circuits(all, &c, &description), STATUS_OK);
    assert_non_null(strstr(description, "matching=0-1x1+0-2x1+"));
    assert_int_equal(ocs_circuits(description, &again), STATUS_OK);
    assert_int_equal(again.pods, MATCHING_PODS);
    assert_memory_equal(c.n, again.n, c.pods * c.pods * sizeof *c.n);
    free(description);
    free(c.n);
    free(again.n);
}

static void refuses_what_is_no_optical_network(void **state)
{
    struct matching found = {0};
    const struct plan p = {0};
    const struct evaluation_context c = {0};
    (void)state;
    assert_int_equal(matching_search(&p, &c, "rail:nodes=2", 1, &found), STATUS_INVALID);
    assert_int_equal(matching_search(&p, &c, "two-racks", 1, &found), STATUS_INVALID);
    assert_int_equal(matching_search(&p, &c, "ocs:pods=1", 1, &found), STATUS_UNSUPPORTED);
    assert_int_equal(matching_search(&p, &c, "ocs:pods=33,circuits=64", 1, &found),
                     STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_best_of_all_matchings),
        cmocka_unit_test(describes_circuits_of_32_pods),
        cmocka_unit_test(refuses_what_is_no_optical_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
