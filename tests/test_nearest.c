/* When nothing fits: the plan that `auto` ranks first lacks least memory of all plans that it has
 * scored, and no plan of a search without filters, which scores its whole space, lacks less. With
 * only_fits a plan is found exactly where such a search finds one. Scored by the analytic engine.
 * Argument: how many inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/quick_evaluator.h"

static int trials = 2; /* unit.nearest_more: 12 */
enum { ALL_FILTERS = (1 << AUTO_MOST_FILTERS) - 1 };

struct input {
    struct model m;
    struct topology t;
    char *path;
    size_t batch;
    struct partition_request fixed;
};

static struct input random_input(void)
{
    static const char *const platform[] = {"leaf-spine:nodes=2,gpus=2,nic=25Gbps",
                                           "leaf-spine:nodes=3,gpus=1", "leaf-spine:nodes=1,gpus=6",
                                           "leaf-spine:nodes=2,gpus=4,nic=25Gbps"};
    struct input x = {.batch = (size_t)4 << rand() % 2,
                      .fixed = {.optimizer = "adam", .model = "m", .platform = "t"}};
    char model[96];
    if (rand() % 3 == 0)
        snprintf(model, sizeof model,
                 "rmoe:layers=2,hidden=64,heads=4,experts=4,tokens=%d,vocabulary=256",
                 64 << rand() % 2);
    else
        snprintf(model, sizeof model, "gpt-tiny:layers=%d,hidden=%d,tokens=%d,tied=%d",
                 2 + rand() % 3, 64 << rand() % 3, 64 << rand() % 2, rand() % 2);
    const char *name = platform[rand() % 4];
    if (load_model(model, &x.m) != STATUS_OK || load_topology(name, &x.t, &x.path) != STATUS_OK)
        fail_msg("%s on %s: %s", model, name, error_message());
    return x;
}

static void release(struct input *x)
{
    free(x->path);
    topology_free(&x->t);
    model_free(&x->m);
}

static void set_memory(struct input *x, int64_t bytes)
{
    for (size_t k = 0; k < x->t.types; k++)
        x->t.type[k].memory_bytes = bytes;
}

/* An evaluator that remembers the most that any plan leaves free. */
struct recorder {
    struct evaluator of;
    int64_t most_bytes;
    size_t plans;
};

static enum status record(void *context, const struct plan *p, struct evaluation *out)
{
    struct recorder *r = context;
    enum status st = r->of.quick(r->of.context, p, out);
    if (st == STATUS_OK) {
        r->plans++;
        r->most_bytes = out->headroom_bytes > r->most_bytes ? out->headroom_bytes : r->most_bytes;
    }
    return st;
}

static enum status pass_on(void *context, const struct plan *const *p, size_t n,
                           struct evaluation *out)
{
    const struct recorder *r = context;
    return r->of.thorough(r->of.context, p, n, out);
}

/* Of the candidates that are baselines, or that are not, the most that one leaves free. */
static int64_t most_of(const struct auto_result *r, bool baselines)
{
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < r->n; i++) {
        int64_t bytes = r->candidate[i].quick.headroom_bytes;
        if (!r->candidate[i].baseline == !baselines)
            most = bytes > most ? bytes : most;
    }
    return most;
}

/* What the request leaves open is searched; false: there is no plan. *first: free memory of the
 * plan that is ranked first. A baseline of the whole space, which is cut otherwise, is not seen. */
static bool search(const struct input *x, struct auto_request r, struct recorder *seen,
                   int64_t *first)
{
    struct auto_result found = {0};
    struct evaluation_context context = {.model = &x->m, .topology = &x->t, .platform = x->path};
    *seen = (struct recorder){.of = quick_evaluator(&context), .most_bytes = INT64_MIN};
    const struct evaluator e = {.context = seen, .quick = record, .thorough = pass_on};
    r.fixed = x->fixed;
    r.samples = x->batch;
    r.finalists = 2;
    r.in_order = true;
    enum status st = auto_search(&x->m, &x->t, &r, &e, &found);
    assert_true(st == STATUS_OK || st == STATUS_INFEASIBLE);
    if (st == STATUS_OK && r.without && most_of(&found, true) == seen->most_bytes)
        seen->most_bytes = most_of(&found, false);
    if (st == STATUS_OK)
        *first = auto_evaluation(&found.candidate[0])->headroom_bytes;
    auto_result_free(&found);
    return st == STATUS_OK;
}

/* The most that any plan of the whole space leaves free, with and without offloading. */
static int64_t enumerate(struct input *x)
{
    int64_t most = INT64_MIN, first;
    for (int offload = 0; offload <= OFFLOAD_OPTIMIZER; offload++) {
        struct recorder seen;
        x->fixed.offload = (enum plan_offload)offload;
        x->fixed.chosen |= KNOB_BIT(offload);
        (void)search(x, (struct auto_request){.without = ALL_FILTERS, .even = true}, &seen, &first);
        most = seen.most_bytes > most ? seen.most_bytes : most;
    }
    x->fixed.offload = OFFLOAD_NONE;
    x->fixed.chosen &= ~KNOB_BIT(offload);
    return most;
}

static void the_first_plan_lacks_least_of_all(void **state)
{
    size_t scored = 0;
    (void)state;
    srand(1);
    for (int i = 0; i < trials; i++) {
        struct input x = random_input();
        struct recorder seen;
        int64_t first = 0;
        set_memory(&x, 4096);
        int64_t least = enumerate(&x);
        assert_true(least < 0);
        assert_true(search(&x, (struct auto_request){.even = rand() % 2}, &seen, &first));
        assert_int_equal(first, seen.most_bytes);
        assert_true(first >= least);
        scored += seen.plans;
        release(&x);
    }
    print_message("%zu plans scored\n", scored);
}

static void a_plan_that_fits_is_found_where_there_is_one(void **state)
{
    (void)state;
    srand(2);
    for (int i = 0; i < trials; i++) {
        struct input x = random_input();
        struct recorder seen;
        int64_t first = 0;
        set_memory(&x, 4096);
        int64_t need = 4096 - enumerate(&x); /* of the plan that needs least */
        set_memory(&x, need);
        assert_true(search(&x, (struct auto_request){.only_fits = true}, &seen, &first));
        assert_true(first >= 0);
        set_memory(&x, need - 1);
        assert_false(search(&x, (struct auto_request){.only_fits = true}, &seen, &first));
        release(&x);
    }
}

int main(int argc, char **argv)
{
    trials = argc > 1 ? atoi(argv[1]) : trials;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_plan_lacks_least_of_all),
        cmocka_unit_test(a_plan_that_fits_is_found_where_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
