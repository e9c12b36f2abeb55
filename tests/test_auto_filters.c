/* The filters of auto: switched off, the search finds nothing better on small platforms. Plans are
 * scored by the analytic engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/quick_evaluator.h"
#include "tests/sample.h"

enum { TRIALS = 30 };

struct input {
    char model[96], platform[96];
    size_t batch;
    int64_t memory_bytes; /* of every device; 0: the platform's */
};

static struct input random_input(void)
{
    static const char *const platform[] = {
        "laptop",
        "leaf-spine:nodes=2,gpus=4,nic=25Gbps",
        "leaf-spine:nodes=4,gpus=2,nic=100Gbps",
        "leaf-spine:nodes=1,gpus=6",
    };
    struct input x = {.batch = (size_t)12 << rand() % 3};
    snprintf(x.platform, sizeof x.platform, "%s", platform[rand() % 4]);
    snprintf(x.model, sizeof x.model, "gpt-tiny:layers=%d,hidden=%d,tokens=%d,tied=%d",
             2 + rand() % 6, 64 << rand() % 3, 64 << rand() % 2, rand() % 2);
    if (rand() % 3 > 0)
        x.memory_bytes = (int64_t)4 << (20 + rand() % 6);
    return x;
}

static struct auto_result search(const struct input *x, const char *framework, uint32_t without)
{
    struct model m = {0};
    struct topology t = {0};
    char *path = NULL;
    struct auto_result result = {0};
    if (load_model(x->model, &m) != STATUS_OK || load_topology(x->platform, &t, &path) != STATUS_OK)
        fail_msg("%s on %s: %s", x->model, x->platform, error_message());
    for (size_t k = 0; k < t.types && x->memory_bytes > 0; k++)
        t.type[k].memory_bytes = x->memory_bytes;
    struct evaluation_context context = {.model = &m, .topology = &t, .platform = path};
    struct evaluator e = quick_evaluator(&context);
    struct framework issue = {0};
    if (framework && framework_parse(framework, &issue) != STATUS_OK)
        fail_msg("%s", error_message());
    const struct auto_request r = {
        .fixed = {.optimizer = "adam",
                  .model = x->model,
                  .platform = x->platform,
                  .framework = framework,
                  .issue = issue},
        .samples = x->batch,
        .finalists = 4,
        .even = true, /* moves from plan to plan, tests/test_auto_uneven.c, are not the filters' */
        .without = without};
    if (auto_search(&m, &t, &r, &e, &result) != STATUS_OK)
        fail_msg("%s on %s: %s", x->model, x->platform, error_message());
    free(path);
    topology_free(&t);
    model_free(&m);
    return result;
}

static double best_s(const struct auto_result *r)
{
    return r->candidate[0].fits ? r->candidate[0].thorough.iteration_s : INFINITY;
}

/* Each of them alone, and all of them together. */
static void compare(const struct input *x, const char *framework,
                    size_t left_out[AUTO_MOST_FILTERS])
{
    struct auto_result with = search(x, framework, 0);
    for (size_t k = 0; k <= auto_filters_n; k++) {
        bool all = k == auto_filters_n;
        if (!all && with.left_out[k] == 0)
            continue;
        struct auto_result off = search(x, framework, all ? UINT32_MAX : 1u << k);
        if (best_s(&off) < best_s(&with) * (1 - 1e-9))
            fail_msg("%s on %s, batch %zu, %lld B, %s: without %s %g s, with it %g s", x->model,
                     x->platform, x->batch, (long long)x->memory_bytes,
                     framework ? framework : "foreline", all ? "all filters" : auto_filters[k].name,
                     best_s(&off), best_s(&with));
        if (!all) {
            assert_int_equal(off.left_out[k], 0);
            left_out[k] += with.left_out[k];
        }
        auto_result_free(&off);
    }
    auto_result_free(&with);
}

static void no_filter_leaves_out_the_best_plan(void **state)
{
    /* a layer more evenly over 4 stages than over 2; what fits in chunks only; more devices than
     * all replicas and shards are tried on, and more than deep pipelines have, with memory and
     * without: few samples keep the space small that is searched without any filter */
    static const struct input fixed[] = {
        {"gpt-tiny:layers=2,hidden=256,tokens=64,tied=1", "laptop", 24, 0},
        {"gpt-tiny:layers=4,hidden=256", "laptop", 12, 16 << 20},
        {"gpt-tiny:layers=4", "leaf-spine:nodes=3,gpus=6,nic=25Gbps", 12, 0},
        {"gpt-tiny:layers=6,hidden=256", "leaf-spine:nodes=5,gpus=4,nic=25Gbps", 8, 16 << 20},
        {"gpt-tiny:layers=4,hidden=256,tokens=32768,flash=1",
         "leaf-spine:nodes=2,gpus=4,nic=100Gbps", 2, 0},
        {"gpt-tiny:layers=2,hidden=256,tokens=65536,flash=1", "laptop", 4, (int64_t)3 << 30},
        {"gpt-tiny:layers=12", "leaf-spine:nodes=9,gpus=8", 3, 0},
        {"gpt-tiny:layers=12,hidden=256", "leaf-spine:nodes=9,gpus=8", 3, 8 << 20},
        {"gpt-tiny:layers=3,hidden=256", "leaf-spine:nodes=2,gpus=4,nic=25Gbps", 12, 8 << 20},
        {"rmoe:layers=2,experts=4,hidden=128,heads=4", "leaf-spine:nodes=2,gpus=2,nic=25Gbps", 8,
         0},
        {"rmoe:layers=4,experts=2,hidden=128,heads=4", "leaf-spine:nodes=2,gpus=2,nic=25Gbps", 16,
         0},
    };
    size_t left_out[AUTO_MOST_FILTERS] = {0};
    for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++)
        compare(&fixed[k], NULL, left_out);
    srand(7);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct input x = random_input();
        compare(&x, NULL, left_out);
    }
    for (size_t k = 0; k < auto_filters_n; k++) {
        print_message("%-9s left out %zu %s\n", auto_filters[k].name, left_out[k],
                      auto_level_names[auto_filters[k].level]);
        assert_true(left_out[k] > 0 || !strcmp(auto_filters[k].name, "uneven"));
    }
}

/* Where the host is slow, sums of shards hide behind it; some frameworks hide exchanges of
 * experts. */
static void nor_under_a_framework(void **state)
{
    static const char *const framework[] = {"megatron:step_s=0", "eager:step_s=0",
                                            "megatron:step_s=0,kernel_s=1e-4",
                                            "megatron:step_s=0,kernel_s=1e-6,exchange_hidden=0.9"};
    static const struct input fixed[] = {
        {"gpt-tiny:layers=4,hidden=512,tokens=512,dtype=bf16", "node:gpus=4,type=A100", 8, 0},
        {"gpt-tiny:layers=4,hidden=512,tokens=512,dtype=bf16", "node:gpus=4,type=RTX3090", 8, 0},
        {"rmoe:layers=2,experts=4,hidden=128,heads=4,dtype=bf16",
         "leaf-spine:nodes=2,gpus=2,nic=25Gbps", 8, 0},
    };
    size_t left_out[AUTO_MOST_FILTERS] = {0};
    for (size_t f = 0; f < sizeof framework / sizeof *framework; f++) {
        for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++) {
            compare(&fixed[k], framework[f], left_out);
        }
        srand(11);
        for (int trial = 0; trial < TRIALS / 5; trial++) {
            struct input x = random_input();
            compare(&x, framework[f], left_out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_filter_leaves_out_the_best_plan),
        cmocka_unit_test(nor_under_a_framework),
    };
    return cmocka_run_group_tests_name("auto filters", tests, NULL, NULL);
}
