/* A stage's rehearsal leaves nothing behind: parameters, optimizer, gradients and losses are those
 * of a stage that has not rehearsed, however the model is spread. */
#include <stdlib.h>

#include "core/lower/lower.h"
#include "exec/device.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/layer.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

struct spread {
    uint32_t stages, replicas, shards, zero;
    enum plan_recompute recompute;
    int64_t bucket_bytes;
    const char *schedule, *optimizer;
};

static void lower(const struct model *m, const struct spread *how, struct program *out)
{
    struct topology t = sample_clique(4, 1e-6, 1e9);
    struct plan plan = {0};
    const struct partition_algorithm *balanced;
    const struct partition_request request = {.stages = how->stages,
                                              .replicas = how->replicas,
                                              .tensor_parallel = how->shards,
                                              .zero = how->zero,
                                              .recompute = how->recompute,
                                              .bucket_bytes = how->bucket_bytes,
                                              .schedule = how->schedule,
                                              .model = "m",
                                              .platform = "p",
                                              .optimizer = how->optimizer,
                                              .microbatches = 4,
                                              .microbatch_size = 1};
    if (partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, m, &t, &request, &plan) != STATUS_OK ||
        plan_lower(&plan, m, &t, out) != STATUS_OK)
        fail_msg("%s", error_message());
    plan_free(&plan);
    topology_free(&t);
}

static struct stage_set *open_rank(const struct model *m, const struct program *p, uint32_t rank)
{
    const struct device_options o = {.learning_rate = 1e-3};
    void *self;
    assert_int_equal(device_cpu.open(m, p, rank, &o, &self), STATUS_OK);
    return self;
}

static void rehearse(struct stage_set *c)
{
    for (size_t k = 0; k < c->stages; k++)
        assert_int_equal(stage_rehearse(&c->stage[k]), STATUS_OK);
}

static void expect_zeros(const real *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        assert_true(x[i] == 0);
}

/* Every array that a checkpoint would keep, of two devices. */
static void expect_alike(struct stage_set *a, struct stage_set *b)
{
    struct device_state what;
    for (size_t i = 0; device_cpu.state(a, i, &what); i++) {
        void *x = malloc(what.bytes + 1), *y = malloc(what.bytes + 1);
        assert_int_equal(device_cpu.save(a, i, x), STATUS_OK);
        assert_int_equal(device_cpu.save(b, i, y), STATUS_OK);
        assert_memory_equal(x, y, what.bytes);
        free(x);
        free(y);
    }
    assert_true(device_cpu.take_loss(a) == device_cpu.take_loss(b));
}

static void leaves_no_trace(void **state)
{
    static const struct spread all[] = {
        {1, 1, 1, 0, RECOMPUTE_NONE, 0, "1f1b", "adam"},
        {2, 1, 1, 0, RECOMPUTE_FULL, 0, "1f1b", "sgd"},
        {2, 1, 1, 0, RECOMPUTE_NONE, 0, "zb-h1", "adam"},
        {2, 2, 1, 0, RECOMPUTE_SELECTIVE, 10000, "1f1b", "adam"},
        {1, 1, 4, 0, RECOMPUTE_NONE, 0, "1f1b", "adam"},
        {1, 4, 1, 1, RECOMPUTE_NONE, 0, "1f1b", "adam"},
        {2, 2, 1, 2, RECOMPUTE_NONE, 0, "1f1b", "adam"},
        {2, 2, 1, 2, RECOMPUTE_NONE, 0, "zb-h1", "adam"},
        {1, 4, 1, 3, RECOMPUTE_FULL, 0, "1f1b", "adam"},
        {2, 2, 1, 0, RECOMPUTE_NONE, 0, "pipedream", "sgd"},
        {1, 1, 1, 0, RECOMPUTE_NONE, 0, "1f1b", "sgd:momentum=0.9,decay=0.1"},
        {1, 4, 1, 3, RECOMPUTE_NONE, 0, "1f1b", "adam:decay=0.1"},
    };
    struct model m = {0};
    assert_int_equal(zoo_build("gpt-tiny:layers=2,hidden=32,heads=4,tokens=16", &m), STATUS_OK);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct program p;
        lower(&m, &all[k], &p);
        for (uint32_t r = 0; r < p.ranks; r++) {
            struct stage_set *untouched = open_rank(&m, &p, r), *c = open_rank(&m, &p, r);
            rehearse(c);
            expect_alike(untouched, c);
            for (size_t s = 0; s < c->stages; s++) {
                const struct stage *t = &c->stage[s];
                expect_zeros(t->state.gradient, t->layout.parameters);
                expect_zeros(t->state.halved.data[0], t->layout.parameters);
                expect_zeros(t->state.sum, t->layout.owned_n);
                expect_zeros(t->pass.tied, t->layout.tied_size);
            }
            device_cpu.close(untouched);
            device_cpu.close(c);
        }
        program_free(&p);
    }
    model_free(&m);
}

static void no_sum(void *self, enum element e, void *data, size_t n)
{
    (void)self, (void)e, (void)data, (void)n;
}

static void trains_to_the_same_bits(void **state)
{
    const struct spread alone = {1, 1, 1, 0, RECOMPUTE_NONE, 0, "1f1b", "adam"};
    const struct layer_reduction none = {.sum = no_sum};
    struct model m = {0};
    struct program p;
    assert_int_equal(zoo_build("gpt-tiny:layers=2,hidden=32,heads=4,tokens=16", &m), STATUS_OK);
    lower(&m, &alone, &p);
    struct stage_set *c[2] = {open_rank(&m, &p, 0), open_rank(&m, &p, 0)};
    rehearse(c[1]);
    for (uint32_t step = 0; step < 3; step++)
        for (size_t i = p.op_start[0]; i < p.op_start[1]; i++)
            for (size_t k = 0; k < 2; k++)
                assert_int_equal(device_cpu.compute(c[k], step, &p.op[i], &none), STATUS_OK);
    expect_alike(c[0], c[1]);
    device_cpu.close(c[0]);
    device_cpu.close(c[1]);
    program_free(&p);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_no_trace),
        cmocka_unit_test(trains_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
