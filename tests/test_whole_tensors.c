/* A plan is refused where it is made, or the device takes every rank of it: stages exchange whole
 * tensors, and shards share heads evenly. The CPU device itself is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "exec/device.h"
#include "exec/executor.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { RANKS = 64, LIST = 1024, TRIALS = 300 };

struct tally {
    size_t planned, refused;
};

static void assert_runs(const struct model *m, const struct topology *t, const struct plan *plan,
                        const char *what)
{
    struct program program = {0};
    if (plan_lower(plan, m, t, &program) != STATUS_OK || executor_supports(&program) != STATUS_OK)
        fail_msg("%s: %s", what, error_message());
    for (uint32_t rank = 0; rank < program.ranks; rank++) {
        void *self = NULL;
        const struct device_options options = {.learning_rate = 1e-3};
        if (device_cpu.open(m, &program, rank, &options, &self) != STATUS_OK)
            fail_msg("%s, rank %u: %s", what, rank, error_message());
        device_cpu.close(self);
    }
    program_free(&program);
}

static struct partition_request request(size_t stages, uint32_t shards, const char *list)
{
    return (struct partition_request){.stages = stages,
                                      .replicas = 1,
                                      .tensor_parallel = shards,
                                      .microbatches = 2,
                                      .microbatch_size = 1,
                                      .schedule = "1f1b",
                                      .optimizer = "adam",
                                      .model = "m",
                                      .platform = "p",
                                      .split_at = list};
}

/* Some ops in the middle, as many as make the stages, in the form of --split-at. */
static void random_list(const struct model *m, size_t stages, char list[LIST])
{
    size_t at = 1, used = 0;
    for (size_t s = 1; s < stages; s++) {
        size_t left = stages - s;
        at += (size_t)rand() % ((m->n - at - left) / left + 1);
        used +=
            (size_t)snprintf(list + used, LIST - used, "%s%s", s > 1 ? "," : "", m->op[at].name);
        at++;
    }
}

/* By every algorithm that cuts. */
static void try_all(const char *spec, const struct model *m, const struct topology *t,
                    size_t stages, uint32_t shards, struct tally *tally)
{
    char list[LIST] = "", what[256];
    random_list(m, stages, list);
    for (size_t k = 0; k < partition_algorithms_n; k++) {
        const struct partition_algorithm *a = partition_algorithms[k];
        bool split = a->takes >> PARTITION_SPLIT_AT & 1;
        struct partition_request r = request(stages, shards, split ? list : NULL);
        struct plan plan = {0};
        if (!a->cut || (split && stages == 1))
            continue;
        if (!strcmp(a->name, "graph") && tally->planned % 16 > 0)
            continue; /* it takes longer than all others together */
        enum status st = partition_run(a, m, t, &r, &plan);
        snprintf(what, sizeof what, "%s by %s, %zu stages, %u shards", spec, a->name, stages,
                 shards);
        if (st == STATUS_OK)
            assert_runs(m, t, &plan, what);
        else if (st == STATUS_UNSUPPORTED && (a->needs_metis || a->recut))
            continue;
        else if (st != STATUS_INVALID || strchr(error_message(), '\n') || !*error_message())
            fail_msg("%s: status %d, %s", what, st, error_message());
        tally->planned += st == STATUS_OK;
        tally->refused += st != STATUS_OK;
        plan_free(&plan);
    }
}

static struct model build(const char *spec)
{
    struct model m = {0};
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    return m;
}

/* There are enough ops at which stages may begin: only lists by hand are refused. */
static void every_algorithm_makes_plans_of_gpt_tiny_that_run(void **state)
{
    srand(11);
    struct model m = build("gpt-tiny");
    struct topology t = sample_clique(RANKS, 1e-6, 1e9);
    struct tally tally = {0};
    for (uint32_t shards = 1; shards <= 4; shards *= 2)
        for (size_t stages = 2; stages <= 8; stages++) {
            size_t refused = tally.refused;
            try_all("gpt-tiny", &m, &t, stages, shards, &tally);
            assert_true(tally.refused <= refused + (shards > 1));
        }
    print_message("%zu plans run, %zu refused\n", tally.planned, tally.refused);
    topology_free(&t);
    model_free(&m);
}

static void random_models_are_refused_or_run(void **state)
{
    srand(12);
    struct topology t = sample_clique(RANKS, 1e-6, 1e9);
    struct tally tally = {0};
    for (int trial = 0; trial < TRIALS; trial++) {
        static const char *const family[] = {"gpt-tiny", "bert-base", "rtransformer", "mlp"};
        char spec[128];
        size_t k = (size_t)rand() % 4;
        int layers = 1 + rand() % 5, heads = 1 + rand() % 6;
        if (k == 3)
            snprintf(spec, sizeof spec, "mlp:layers=%d,hidden=%d,channels=8", layers, 8 * heads);
        else
            snprintf(spec, sizeof spec, "%s:layers=%d,heads=%d,hidden=%d,tokens=8,vocabulary=%d%s",
                     family[k], layers, heads, 8 * heads, 257 + rand() % 9,
                     k == 0 && rand() % 2 ? ",tied=1" : "");
        struct model m = build(spec);
        size_t stages = 1 + (size_t)rand() % (m.n < 12 ? m.n : 12);
        try_all(spec, &m, &t, stages, 1 + (uint32_t)rand() % 4, &tally);
        model_free(&m);
    }
    print_message("%zu plans run, %zu refused\n", tally.planned, tally.refused);
    assert_true(tally.planned > TRIALS && tally.refused > 0);
    topology_free(&t);
}

static void what_stands_in_the_way_is_one_clear_line(void **state)
{
    struct model m = build("gpt-tiny");
    struct topology t = sample_clique(RANKS, 1e-6, 1e9);
    static const struct {
        size_t stages;
        uint32_t shards;
        const char *list, *message;
    } cases[] = {
        {2, 2, "h1.attn", "'h1.attn' inside 2 'h1.attn.qkv'"},
        {2, 3, "h1.ln1", "'h0.attn' 4 divided 3 --tensor-parallel 1 2 4"},
        {30, 2, NULL, "30 2 27 inside"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct partition_request r = request(cases[k].stages, cases[k].shards, cases[k].list);
        struct plan p = {0};
        assert_int_equal(partition_run(&partition_manual, &m, &t, &r, &p), STATUS_INVALID);
        assert_message(error_message(), cases[k].message);
    }
    assert_int_equal(partition_most_stages(&m, 1, false), m.n);
    assert_int_equal(partition_most_stages(&m, 2, false), 27);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_makes_plans_of_gpt_tiny_that_run),
        cmocka_unit_test(random_models_are_refused_or_run),
        cmocka_unit_test(what_stands_in_the_way_is_one_clear_line),
    };
    return cmocka_run_group_tests_name("whole tensors", tests, NULL, NULL);
}
