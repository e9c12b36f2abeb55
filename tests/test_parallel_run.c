/* Every way to spread a model over ranks trains it to the parameters of one process: real devices
 * and transports, the ranks being threads. */
#include <math.h>

#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/trained.h"

static void tensor_parallel_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "tp=2",
        "tp=4",
        "pp=2 tp=2",
        "tp=2 full",
    };
    COMPARE(gpt, how, 1e-5);
    COMPARE(tied, how, 1e-5);
    COMPARE(bert, how, 1e-5);
}

/* What shards leave whole is divided by tokens: gathered for products, scattered behind them. */
static void sequence_parallel_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "tp=2 sequence",
        "tp=4 sequence",
        "pp=2 tp=2 sequence",
        "tp=2 sequence full",
        "tp=2 sequence selective",
        "pp=2 tp=2 sequence full unit=2 gpipe",
        "dp=2 tp=2 sequence",
        "dp=2 tp=2 sequence bucket=5000",
        "dp=2 tp=2 sequence zero=1 bucket=5000",
        "dp=2 tp=2 sequence zero=2",
        "dp=2 tp=2 sequence zero=3 full",
        "pp=2 dp=2 tp=2 sequence zero=3 kept",
        "pp=4 tp=2 sequence chunks=2 interleaved",
        "pp=2 tp=2 sequence zb-h1",
        "pp=2 tp=4 sequence zb-h1",
        "pp=2 dp=2 tp=2 sequence zb-h1 zero=3",
        "dp=2 tp=2 cp=2 sequence",
        "pp=2 dp=2 tp=2 cp=2 sequence zero=1 alltoall",
        "pp=2 dp=2 tp=2 cp=2 sequence zb-h1",
    };
    static const char *const bent[] = {"pp=4 tp=2 sequence chunks=2 zb-v",
                                       "pp=4 tp=2 sequence chunks=2 dualpipe-v",
                                       "pp=4 dp=2 tp=2 sequence chunks=2 dualpipe"};
    COMPARE(gpt, how, 1e-5);
    COMPARE("gpt-tiny:layers=4,hidden=32,tokens=16", bent, 1e-5);
    compare(tied, how, 11, 1e-5);
    compare(bert, how, 6, 1e-5);
}

static void data_parallel_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "dp=2",        "dp=4",        "pp=2 dp=2",   "dp=2 bucket=20000",
        "dp=2 zero=1", "dp=4 zero=2", "dp=4 zero=3", "pp=2 dp=2 zero=1",
    };
    COMPARE(gpt, how, 1e-5);
    COMPARE(tied, how, 1e-5);
}

/* FSDP as people use it: units that are layers, kept after the forward or not, and shards that are
 * spread over some of the replicas only, with and without recomputation. */
static void fsdp_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "dp=4 zero=3 kept",
        "dp=2 zero=3 bucket=1073741824 kept",
        "dp=4 zero=3 full",
        "dp=2 zero=3 full unit=2",
        "dp=2 zero=3 kept full unit=2",
        "dp=4 zero=1 group=2",
        "dp=4 zero=1 group=2 bucket=5000",
        "dp=4 zero=1 kept",
        "dp=4 zero=1 bucket=5000 kept",
        "dp=4 zero=1 group=2 bucket=5000 kept",
        "pp=2 dp=2 zero=1 bucket=10000 kept",
        "pp=2 dp=2 tp=2 sequence zero=1 bucket=10000 kept full",
        "pp=4 dp=2 chunks=2 zero=1 bucket=5000 kept interleaved",
        "pp=2 dp=2 zero=1 kept zb-h1",
        "dp=4 zero=2 group=2",
        "dp=4 zero=3 group=2",
        "dp=4 zero=3 group=2 kept full",
        "dp=4 tp=2 zero=3 group=2",
        "pp=2 dp=4 zero=3 group=2",
        "pp=2 dp=2 zero=3 kept",
        "pp=4 dp=2 chunks=2 zero=3 kept interleaved",
        "pp=2 dp=4 zero=3 group=2 zb-h1",
        "pp=2 dp=2 zero=3 kept zb-h1",
    };
    COMPARE(gpt, how, 1e-5);
    compare(tied, how, 10, 1e-5);
}

static void hybrid_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "pp=2 dp=2 tp=2",
        "pp=2 dp=2 tp=2 zero=3",
        "pp=2 dp=2 tp=2 zero=1 bucket=10000 selective",
        "pp=4 dp=2 chunks=2 zero=2 interleaved",
        "pp=2 dp=2 zero=3 zb-h1",
        "pp=4 dp=2 chunks=2 zero=3 zb-v",
        "pp=4 tp=2 chunks=2 dualpipe-v",
        "pp=4 dp=2 chunks=2 dualpipe",
        "pp=4 dp=2 tp=2 chunks=2 zero=2 dualpipe",
    };
    COMPARE(gpt, how, 1e-5);
}

/* Backwards of a stage stand in ascending order, whole or in halves. */
static void stages_in_a_v_have_the_same_bits(void **state)
{
    static const char *const how[] = {
        "pp=4 chunks=2 zb-v",
        "pp=8 chunks=2 zb-v",
        "pp=4 chunks=2 dualpipe-v",
        "pp=6 chunks=2 dualpipe-v",
    };
    COMPARE(gpt, how, 0);
    COMPARE("mlp:layers=8,hidden=32", how, 0);
    COMPARE(tied, how, 0); /* both copies are on one device */
    COMPARE(bert, how, 0);
}

static void what_is_made_again_has_the_same_bits(void **state)
{
    static const char *const how[] = {
        "pp=2 full",
        "pp=2 selective",
        "pp=2 full layers=1",
        "pp=2 full unit=100",
        "pp=3 full gpipe",
        "pp=2 core_attn",
        "pp=2 mlp",
        "pp=2 layernorm",
        "pp=3 layernorm,mlp gpipe",
        "pp=2 core_attn,layernorm",
    };
    COMPARE(gpt, how, 0);
    COMPARE(tied, how, 0);
}

/* Two ways each, of which the second does the same with less: bit for bit. */
static void compare_pairs(const char *spec, const char *const *how, size_t n)
{
    struct model m = {0};
    assert_int_equal(zoo_build(spec, &m), STATUS_OK);
    for (size_t k = 0; k < n; k += 2) {
        struct trained a, b;
        const struct partition_request less = request_of(how[k]), more = request_of(how[k + 1]);
        train(&m, how[k], &less, STEPS, &a);
        train(&m, how[k + 1], &more, STEPS, &b);
        if (distance(&a, &b) != 0)
            fail_msg("%s: '%s' is %g from '%s'", spec, how[k + 1], distance(&a, &b), how[k]);
        trained_free(&a);
        trained_free(&b);
    }
    model_free(&m);
}

/* ZeRO 1 divides the work of data parallelism, ZeRO 3 that of ZeRO 2. */
static void sharding_changes_no_bits(void **state)
{
    static const char *const how[] = {
        "pp=2 dp=2",        "pp=2 dp=2 zero=1",        "pp=2 dp=2 zero=2",
        "pp=2 dp=2 zero=3", "dp=4 zero=2 bucket=9000", "dp=4 zero=3 bucket=9000 kept",
    };
    compare_pairs(gpt, how, sizeof how / sizeof *how);
}

/* Tensors that shards send in parts and gather are those that they would send whole. */
static void messages_in_parts_have_the_same_bits(void **state)
{
    static const char *const how[] = {
        "pp=2 tp=2",
        "pp=2 tp=2 scatter",
        "pp=2 tp=4",
        "pp=2 tp=4 scatter",
        "pp=3 tp=2 gpipe full",
        "pp=3 tp=2 gpipe full scatter",
        "pp=2 dp=2 tp=2 zero=3",
        "pp=2 dp=2 tp=2 zero=3 scatter",
        "pp=4 tp=2 chunks=2 interleaved",
        "pp=4 tp=2 chunks=2 interleaved scatter",
        "pp=2 tp=2 zb-h1",
        "pp=2 tp=2 zb-h1 scatter",
        "pp=4 tp=2 chunks=2 dualpipe-v",
        "pp=4 tp=2 chunks=2 dualpipe-v scatter",
        "pp=2 dp=2 tp=2 cp=2",
        "pp=2 dp=2 tp=2 cp=2 scatter",
    };
    compare_pairs(gpt, how, sizeof how / sizeof *how);
    compare_pairs(tied, how, 2);
    compare_pairs(bert, how, 4);
}

/* Without flush: one stage updates after every microbatch like a stream of small steps. With two
 * stages the backward uses the weights of its forward: it learns, to other parameters. */
static void without_flush_it_learns(void **state)
{
    struct model m = {0};
    assert_int_equal(zoo_build(gpt, &m), STATUS_OK);
    for (size_t stages = 1; stages <= 3; stages++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            struct trained t;
            struct partition_request how = request_of("pipedream");
            how.stages = stages;
            how.replicas = replicas;
            train(&m, "pipedream", &how, STEPS, &t);
            assert_true(t.loss[STEPS - 1] < t.loss[0]);
            trained_free(&t);
        }
    model_free(&m);
}

/* ---- sums in bf16 */

/* Gradients and shards' activations are rounded on their way: losses stay near those of fp32 sums;
 * a reduce-scatter and a gather are still an all-reduce, to the bit. */
static void sums_in_bf16_change_little(void **state)
{
    struct model m = {0};
    struct trained wide, half, before = {0};
    static const char *const all[] = {
        "pp=2 dp=2 tp=2",          "dp=4 bucket=5000",
        "dp=4 zero=1 bucket=5000", "dp=4 zero=1 bucket=5000 kept",
        "pp=2 dp=2 zero=2",        "pp=2 dp=2 tp=2 zero=3",
        "pp=2 dp=2 zero=2 zb-h1",  "dp=4 zero=3 group=2",
        "dp=4 zero=1 group=2",     "dp=4 zero=3 kept",
    };
    assert_int_equal(zoo_build(gpt, &m), STATUS_OK);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct partition_request how = request_of(all[k]);
        train(&m, all[k], &how, STEPS, &wide);
        how.reduce_dtype = DATA_bf16;
        train(&m, all[k], &how, STEPS, &half);
        for (size_t s = 0; s < STEPS; s++)
            if (!(fabs(half.loss[s] - wide.loss[s]) < 2e-3 * wide.loss[s]))
                fail_msg("%s: loss %g, not %g", all[k], half.loss[s], wide.loss[s]);
        assert_true(half.loss[STEPS - 1] != wide.loss[STEPS - 1]);
        for (uint32_t i = 0; k == 2 && i < m.n; i++)
            assert_memory_equal(half.parameter[i], before.parameter[i],
                                parameters_of(&half, i) * sizeof(float));
        trained_free(&wide);
        if (k == 2)
            trained_free(&before);
        before = half;
        if (k != 1)
            trained_free(&half);
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallel_runs_match_one_process),
        cmocka_unit_test(sequence_parallel_runs_match_one_process),
        cmocka_unit_test(data_parallel_runs_match_one_process),
        cmocka_unit_test(fsdp_runs_match_one_process),
        cmocka_unit_test(hybrid_runs_match_one_process),
        cmocka_unit_test(stages_in_a_v_have_the_same_bits),
        cmocka_unit_test(what_is_made_again_has_the_same_bits),
        cmocka_unit_test(sharding_changes_no_bits),
        cmocka_unit_test(messages_in_parts_have_the_same_bits),
        cmocka_unit_test(without_flush_it_learns),
        cmocka_unit_test(sums_in_bf16_change_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
