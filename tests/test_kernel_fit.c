/* Tables of measured kernels, and constants fitted to them: what was put into made-up rows comes
 * out. */
#include "lab/kernels/kernel_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/fabric.h"
#include "core/cost/kernel.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"
#include "tests/sample.h"
#include "topologies/catalogue.h"

static double uniform(uint64_t *state)
{
    return (1 + (double)random_below(state, 1000000)) / 1000001;
}

static struct kernel_rows parsed(const char *text, enum data_type dtype)
{
    struct kernel_rows rows = {0};
    if (kernel_rows_parse("t.csv", text, dtype, &rows) != STATUS_OK)
        fail_msg("%s", error_message());
    return rows;
}

/* ---- tables */

static void reads_four_kinds_of_tables(void **state)
{
    struct kernel_rows r =
        parsed("gpu,x,M_tokens,N,K,time_ms_median\n\"a100, one\",\"a \"\"b\"\", c\",512,"
               "1024,2048,0.5\r\nNVIDIA H100 80GB HBM3,,1,2,3,4\n\nzx81,,1,2,3,4\n",
               DATA_bf16);
    assert_int_equal(r.kind, ROW_PRODUCT);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.unknown, 1);
    assert_string_equal(gpus[r.row[0].gpu].name, "A100");
    assert_string_equal(gpus[r.row[1].gpu].name, "H100");
    assert_near(r.row[0].seconds, 0.5e-3, 1e-18);
    assert_near(r.row[0].kernel.k, 2048, 0);
    kernel_rows_free(&r);
    r = parsed("op,gpu,rows,width,latency_ms,dtype\nadd,Tesla T4,10,20,1,bf16\nln,L4,10,20,1,\n",
               DATA_fp32);
    assert_int_equal(r.kind, ROW_PASS);
    assert_near(r.row[0].kernel.bytes, 3 * 200 * 2, 0);
    assert_near(r.row[1].kernel.bytes, 2 * 200 * 4, 0);
    kernel_rows_free(&r);
    r = parsed("gpu,batch,tokens,heads,kv_heads,head_dim,window,time_us\nH100,2,100,8,2,64,0,9\n"
               "H100,2,100,8,2,64,10,9\n",
               DATA_bf16);
    assert_int_equal(r.kind, ROW_ATTENTION);
    assert_near(r.row[0].kernel.flop, 2 * 8 * 4 * 64 * 100 * 100 / 2, 0);
    assert_near(r.row[1].kernel.flop, 2 * 8 * 4 * 64 * (10 * 100 - 10 * 10 / 2), 0);
    assert_near(r.row[0].kernel.bytes, 2 * 100 * 64 * 2 * (8 + 2) * 2, 0);
    kernel_rows_free(&r);
    r = parsed(
        "system,collective,ranks,nodes,bytes,busbw_GBps\n4x8xH200 NVLS,all_reduce,32,4,1e9,100\n"
        "H100,send_recv,2,1,1e6,10\nH100,juggle,2,1,1e6,10\n",
        DATA_fp32);
    assert_int_equal(r.kind, ROW_COLLECTIVE);
    assert_int_equal(r.n, 2);
    assert_near(r.row[0].seconds, 1e9 * 2 * 31 / 32 / 100e9, 1e-12);
    assert_true(r.row[0].where.switched && r.row[0].where.per_node == 8);
    assert_int_equal(r.row[1].collective, FABRIC_SEND);
    kernel_rows_free(&r);
}

static void tells_gpus_by_their_words(void **state)
{
    static const char *const names[][2] = {{"NVIDIA A100-PCIE-40GB", "A100-PCIE"},
                                           {"NVIDIA A100 80GB PCIe", "A100-PCIE"},
                                           {"a100_pairwise_nvlink", NULL},
                                           {"8xB200 single node", "B200"},
                                           {"GB200", "GB200"},
                                           {"Tesla V100-PCIE-32GB", "V100"},
                                           {"NVIDIA L40", NULL},
                                           {"", NULL}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const struct gpu *g = gpu_named(names[k][0]);
        if (k == 2) /* a word ends at "_" */
            assert_string_equal(g->name, "A100");
        else if (!names[k][1])
            assert_null(g);
        else
            assert_string_equal(g->name, names[k][1]);
    }
}

static void says_which_line_is_wrong(void **state)
{
    static const char *const texts[] = {
        "",
        "gpu,M,N\n",
        "gpu,M,N,K\n",
        "gpu,M,N,K,time_ms\nA100,1,2,3\n",
        "gpu,M,N,K,time_ms\nA100,1,2,3,x\n",
        "gpu,M,N,K,time_ms\nA100,0,2,3,1\n",
        "gpu,M,N,K,time_ms\nA100,nan,2,3,1\n",
        "gpu,M,N,K,time_ms\nA100,1,2,3,1e400\n",
        "gpu,M,N,K,time_ms\n\"A100,1,2,3,1\n",
        "gpu,M,N,K,time_ms\n\"A100\"x,1,2,3,1\n",
        "gpu,M,N,K,time_ms,dtype\nA100,1,2,3,1,int3\n",
        "gpu,collective,ranks,nodes,bytes,time_ms\nA100,all_reduce,1,1,1,1\n",
        "gpu,collective,ranks,nodes,bytes,time_ms\nA100,all_reduce,4,5,1,1\n"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct kernel_rows rows;
        assert_int_equal(kernel_rows_parse("t.csv", texts[k], DATA_fp32, &rows), STATUS_PARSE);
        assert_memory_equal(error_message(), "t.csv:", 6);
        assert_null(strchr(error_message(), '\n'));
    }
}

static enum status parse_and_free(const char *text)
{
    struct kernel_rows rows = {0};
    enum status st = kernel_rows_parse("t.csv", text, DATA_fp32, &rows);
    kernel_rows_free(&rows);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    char text[16384];
    size_t n = (size_t)sprintf(text, "gpu,M,N,K,time_us\n");
    for (size_t i = 1; i <= 300; i++)
        n += (size_t)sprintf(text + n, "a100,%zu,64,64,%zu\n", i, i);
    FOR_EACH_ALLOC_FAILURE(parse_and_free(text));
}

/* ---- fits */

static const struct gpu *gpu_of(const char *name)
{
    return gpu_named(name);
}

/* n products on two GPUs by known constants, each off by up to `noise`. */
static struct kernel_rows made_up(struct kernel_constants *c, size_t n, double noise)
{
    static const uint32_t most[][3] = {{64, 16384, 16384}, {2048, 2048, 512}, {8192, 16384, 4096}};
    static struct kernel_row row[600];
    uint64_t seed = 99;
    *c = (struct kernel_constants){
        .kind = ROW_PRODUCT, .n = 8, .value = {0.8, 24, 60, 0.4, 1e-9, 3e7, 0.7, 12e-6}};
    for (size_t i = 0; i < n; i++) {
        row[i] =
            (struct kernel_row){.gpu = (uint32_t)(gpu_of(i % 2 ? "A100" : "H100") - gpus),
                                .shape = random_below(&seed, 50),
                                .kernel = {.kind = KERNEL_PRODUCT,
                                           .dtype = DATA_bf16,
                                           .launches = 1,
                                           .batch = 1,
                                           .m = 1 + random_below(&seed, most[i % 3][0]),
                                           .n = 64 + 8 * random_below(&seed, most[i % 3][1] / 8),
                                           .k = 32 + 8 * random_below(&seed, most[i % 3][2] / 8)}};
        row[i].seconds = kernel_fit_seconds(c, &row[i]) * (1 + noise * (2 * uniform(&seed) - 1));
        if (noise > 0 && i % 20 == 0)
            row[i].seconds *= 5; /* and some that are no measurement at all */
    }
    return (struct kernel_rows){.kind = ROW_PRODUCT, .n = n, .row = row};
}

static void finds_the_constants_that_rows_were_made_with(void **state)
{
    struct kernel_constants truth;
    struct kernel_rows rows = made_up(&truth, 600, 0);
    struct kernel_fit fit;
    assert_int_equal(kernel_fit(&rows, true, &fit), STATUS_OK);
    for (size_t k = 0; k < truth.n; k++) /* the guess draws the cache, thirty times as large */
        assert_near(fit.constants.value[k], truth.value[k],
                    (k == 5 ? 0.15 : 0.03) * truth.value[k]);
    assert_true(fit.all.p95 < 0.01 && fit.all.crossed < 0.005 && fit.all.left_out < 0.005);
    kernel_fit_free(&fit);
    rows = made_up(&truth, 600, 0.1); /* outliers do not draw them */
    assert_int_equal(kernel_fit(&rows, true, &fit), STATUS_OK);
    double off = 0; /* of what the noise was added to */
    for (size_t i = 0; i < rows.n; i++)
        off += fabs(kernel_fit_seconds(&fit.constants, &rows.row[i]) /
                        kernel_fit_seconds(&truth, &rows.row[i]) -
                    1);
    assert_true(off < 0.015 * (double)rows.n);
    assert_true(fit.all.median < 0.07 && fit.all.own < 0.08);
    kernel_fit_free(&fit);
}

static void finds_constants_of_attention(void **state)
{
    static struct kernel_row row[300];
    const struct kernel_constants truth = {
        .kind = ROW_ATTENTION, .n = 5, .value = {0.4, 1500, 0.7, 0.6, 2e-5}};
    uint64_t seed = 12;
    for (size_t i = 0; i < 300; i++) {
        double tokens = floor(exp(5 + 5 * uniform(&seed))), head = i % 3 ? 128 : 64;
        row[i] = (struct kernel_row){.gpu = (uint32_t)(gpu_of("H100") - gpus),
                                     .shape = i,
                                     .kernel = {.kind = KERNEL_ATTENTION,
                                                .dtype = DATA_bf16,
                                                .launches = 1,
                                                .tokens = tokens,
                                                .k = head,
                                                .flop = 64 * tokens * tokens * head,
                                                .bytes = (i % 2 ? 1 : 1e3) * 256 * tokens * head,
                                                .flash = FLASH_VENDOR}};
        row[i].seconds = kernel_fit_seconds(&truth, &row[i]);
    }
    struct kernel_rows rows = {.kind = ROW_ATTENTION, .n = 300, .row = row};
    struct kernel_fit fit;
    assert_int_equal(kernel_fit(&rows, false, &fit), STATUS_OK);
    for (size_t k = 0; k < truth.n; k++)
        assert_near(fit.constants.value[k], truth.value[k], 0.03 * truth.value[k]);
    kernel_fit_free(&fit);
}

static void finds_constants_of_collectives(void **state)
{
    static struct kernel_row row[200];
    const struct fabric_model m = {.start_s = 30e-6,
                                   .share = 0.8,
                                   .half_bytes = 12e6,
                                   .exponent = 0.7,
                                   .nic = 0.6,
                                   .hop_s = 9e-6,
                                   .reduce = 0.5};
    uint64_t seed = 4;
    for (size_t i = 0; i < 200; i++) {
        uint32_t nodes = 1 + random_below(&seed, 3), per_node = 2 << random_below(&seed, 3);
        row[i] = (struct kernel_row){.gpu = (uint32_t)(gpu_of("H100") - gpus),
                                     .shape = nodes * 16 + per_node,
                                     .collective = (enum fabric_kind)random_below(&seed, 3),
                                     .where = {nodes * per_node, per_node, 400e9, 50e9, i % 2},
                                     .bytes = exp(8 + 14 * uniform(&seed))};
        row[i].seconds = fabric_model_seconds(&m, row[i].collective, &row[i].where, row[i].bytes);
    }
    struct kernel_rows rows = {.kind = ROW_COLLECTIVE, .n = 200, .row = row};
    struct kernel_fit fit;
    assert_int_equal(kernel_fit(&rows, false, &fit), STATUS_OK);
    const double truth[] = {m.start_s, m.share, m.half_bytes, m.exponent, m.nic, m.hop_s, m.reduce};
    assert_int_equal(fit.constants.n, 7);
    for (size_t k = 0; k < 7; k++)
        assert_near(fit.constants.value[k], truth[k], 0.05 * truth[k]);
    assert_true(fit.all.p95 < 0.02);
    kernel_fit_free(&fit);
}

static void refuses_more_constants_than_rows_bear(void **state)
{
    struct kernel_constants truth;
    struct kernel_rows rows = made_up(&truth, 24, 0);
    struct kernel_fit fit;
    assert_int_equal(kernel_fit(&rows, false, &fit), STATUS_INVALID);
    assert_message(error_message(),
                   "24 rows are too few to fit 8 constants: at least 5 rows per constant");
}

static void curves_are_tested_on_the_other_sizes(void **state)
{
    static struct kernel_row row[9];
    size_t tested;
    double error;
    for (size_t i = 0; i < 9; i++) /* a power law is a line in the logarithms */
        row[i] = (struct kernel_row){.where = {.members = 2, .per_node = 2},
                                     .bytes = pow(2, 20 + (double)i),
                                     .seconds = 1e-9 * pow(pow(2, 20 + (double)i), 0.8)};
    row[7].seconds *= 2; /* one of the four that are tested */
    struct kernel_rows rows = {.kind = ROW_COLLECTIVE, .n = 9, .row = row};
    assert_int_equal(kernel_fit_curves(&rows, 1 << 20, &tested, &error), STATUS_OK);
    assert_int_equal(tested, 4);
    assert_near(error, 0, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_four_kinds_of_tables),
        cmocka_unit_test(tells_gpus_by_their_words),
        cmocka_unit_test(says_which_line_is_wrong),
        cmocka_unit_test(survives_every_failing_allocation),
        cmocka_unit_test(finds_the_constants_that_rows_were_made_with),
        cmocka_unit_test(finds_constants_of_attention),
        cmocka_unit_test(finds_constants_of_collectives),
        cmocka_unit_test(refuses_more_constants_than_rows_bear),
        cmocka_unit_test(curves_are_tested_on_the_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
