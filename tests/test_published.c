/* Runs that others published: what is read of files, how little stops it, what is made of a row,
 * and the figures, against ones computed by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "lab/scoreboard/published.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "topologies/catalogue.h"

/* ---- reading */

static const char small[] =
    "{\"source\": {\"repo\": \"NVIDIA/Megatron-LM\", \"what\": 3}, \"else\": [], \"rows\": ["
    "{\"id\": \"a\", \"model\": {\"name\": \"m\", \"layers\": 4, \"hidden\": 256, \"heads\": 4,"
    " \"kv_heads\": null, \"ffn\": 1024, \"vocab\": 1000, \"seq\": 128, \"gated_mlp\": false},"
    " \"gpu\": \"A100-SXM-80GB\", \"gpus\": 8, \"gpus_per_node\": 8, \"network\": \"x\","
    " \"dtype\": \"bf16\", \"tp\": 2, \"pp\": 2, \"vp\": null, \"zero\": \"none\","
    " \"micro_batch\": 1, \"global_batch\": 8, \"recompute\": null, \"novel\": {\"x\": [1]},"
    " \"metrics\": {\"tokens_per_s_per_gpu\": 1000, \"step_time_s_derived\": 9},"
    " \"other_args\": {\"--swiglu\": false, \"--num-query-groups\": 2}, \"flags\": []},"
    "{\"id\": \"b\", \"flags\": [\"does not add up\"]}, {\"id\": \"c\", \"tp\": \"two\"},"
    "{\"id\": \"d\", \"gpus\": 1e30}, {\"id\": \"e\", \"micro_batch\": 1.5},"
    "{\"id\": \"f\", \"micro_batch\": -1, \"tp\": 1}, 7, {}, {\"flags\": null, \"zero\": 1,"
    " \"sequence_parallel\": \"True\", \"recompute\": true}]}";

static struct published parsed(const char *text)
{
    struct published p = {0};
    assert_int_equal(published_parse("some/set.json", text, strlen(text), &p), STATUS_OK);
    return p;
}

static void reads_what_is_said_and_leaves_the_rest_at_nothing(void **state)
{
    struct published p = parsed(small);
    const struct published_config *c = &p.row[0].config;
    assert_int_equal(p.rows, 9);
    assert_int_equal(p.sets, 1);
    assert_string_equal(p.set[0], "set");
    assert_string_equal(p.row[0].id, "a");
    assert_null(p.row[0].left_out);
    assert_int_equal(c->layers, 4);
    assert_int_equal(c->kv_heads, 0);
    assert_int_equal(c->vp, 0);
    assert_int_equal(c->gated, SAID_NO);
    assert_int_equal(c->tied, SAID_NOTHING);
    assert_null(c->recompute);
    assert_int_equal(c->arguments, 1);
    assert_string_equal(c->argument[0].value, "2");
    assert_string_equal(published_source(c)->framework, "megatron");
    /* 8 samples of 128 tokens at 1000 tokens a second on each of 8 GPUs */
    assert_true(fabs(published_step_s(&p.row[0]) - 0.128) < 1e-12);
    assert_string_equal(p.row[8].config.zero, "1");
    assert_int_equal(p.row[8].config.sequence_parallel, SAID_YES);
    published_free(&p);
}

static void leaves_out_rows_that_are_wrong_and_says_why(void **state)
{
    static const char *const reason[] = {"flagged by who collected it",
                                         "tp is no whole number from 0 to 65536",
                                         "gpus is no whole number from 0 to 65536",
                                         "micro_batch is no whole number from 0 to 10000000",
                                         "micro_batch is no whole number from 0 to 10000000",
                                         "the row is no object"};
    struct published p = parsed(small);
    for (size_t i = 0; i < sizeof reason / sizeof *reason; i++)
        assert_string_equal(p.row[i + 1].left_out, reason[i]);
    published_free(&p);
}

/* What a row says of itself comes before its set's, a text that begins with a number is one where
 * that is let pass, and of several figures for an iteration the one that was measured counts. */
static void rows_say_who_trained_and_what_is_a_number(void **state)
{
    struct published p = parsed(
        "{\"source\": {\"repo\": \"somebody/plots\", \"framework\": \"nanotron\"}, \"rows\": ["
        "{\"vp\": \"6 (interleaved)\", \"gpus\": 2, \"model\": {\"seq\": 10},"
        " \"global_batch\": 4, \"metrics\": {\"step_time_s_if_causal\": 3,"
        " \"tokens_per_s_per_gpu_if_causal\": 5, \"samples_per_s\": 2}},"
        "{\"framework\": \"MaxText (JAX)\", \"vp\": \"not stated\","
        " \"metrics\": {\"step_time_s_if_causal\": 3}},"
        "{\"framework\": \"a new one\"}]}");
    assert_string_equal(published_source(&p.row[0].config)->word, "nanotron");
    assert_string_equal(published_source(&p.row[1].config)->word, "jax");
    assert_string_equal(published_source(&p.row[2].config)->word, "");
    assert_int_equal(p.row[0].config.vp, 6);
    assert_int_equal(p.row[1].config.vp, 0);
    assert_true(published_step_s(&p.row[0]) == 2);
    assert_true(published_step_s(&p.row[1]) == 3);
    published_free(&p);
}

/* "ZeRO-2 (A); not stated in the baseline" is of A's rows alone. */
static void sharding_is_that_of_the_rows_own_system(void **state)
{
    static const struct {
        const char *system, *zero;
        int64_t is; /* below 0: refused */
    } all[] = {{NULL, "fsdp_full_shard (ZeRO-3)", 3},
               {NULL, "distributed optimizer (ZeRO-1) assumed; FSDP column absent", 1},
               {"MegaScale", "ZeRO-2 (MegaScale); not stated in the baseline", 2},
               {"Megatron-LM", "ZeRO-2 (MegaScale); not stated in the baseline", 0},
               {"Megatron-LM", "ZeRO-2 (MegaScale); ZeRO-1 in the baseline", 1},
               {NULL, "2", 2},
               {NULL, "4", -1},
               {NULL, "quarters", -1},
               {NULL, "not stated", 0},
               {NULL, NULL, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct published_config c = {.system = all[i].system, .zero = all[i].zero};
        int64_t zero = -2;
        enum status st = published_zero(&c, &zero);
        assert_int_equal(st, all[i].is < 0 ? STATUS_UNSUPPORTED : STATUS_OK);
        if (st == STATUS_OK)
            assert_int_equal(zero, all[i].is);
    }
}

/* Nothing is taken off a prediction that fits, of a row that says what it recomputed, or of another
 * framework; else as much as stands elsewhere, and no more than there is. */
static void what_is_spared_costs_no_time(void **state)
{
    uint64_t seed = 6;
    for (int i = 0; i < 2000; i++) {
        bool unsaid = random_next(&seed) & 1, grace = random_next(&seed) & 1;
        bool megatron = random_next(&seed) & 1;
        const struct published_config c = {.framework = megatron ? "NeMo" : "FSDP",
                                           .gpu = grace ? "GB200" : "H100",
                                           .recompute = unsaid ? "not stated" : "full"};
        struct published_prediction p = {.device_bytes = 1000,
                                         .step_s = 1,
                                         .state_bytes = (int64_t)(random_next(&seed) % 900),
                                         .stash_bytes = (int64_t)(random_next(&seed) % 900)};
        p.peak_bytes = p.last_bytes = p.state_bytes + p.stash_bytes;
        const struct published_prediction before = p;
        int64_t over = p.peak_bytes - p.device_bytes;
        bool state_does = over <= p.state_bytes / 6, stash_does = grace && over <= p.stash_bytes;
        bool spared = over > 0 && unsaid && megatron && (state_does || stash_does);
        assert_int_equal(published_spare(&c, &p) != NULL, spared);
        assert_true(p.step_s == before.step_s && (!spared || p.peak_bytes <= p.device_bytes));
        assert_int_equal(before.peak_bytes - p.peak_bytes,
                         before.state_bytes - p.state_bytes + before.stash_bytes - p.stash_bytes);
    }
}

/* A row of which everything is said that a framework may do is left out or predicted, no more. */
static void a_row_may_say_everything_of_its_framework(void **state)
{
    const struct constants shipped = constants_shipped();
    char text[PUBLISHED_PLATFORM];
    struct published_config c = {.framework = "sailor",
                                 .experts = 8,
                                 .graph = "full_iteration",
                                 .dispatcher = "hybridep",
                                 .exchange_overlap = SAID_YES,
                                 .dtype = "mxfp8 rowwise",
                                 .name = "cross_entropy_loss_fusion"};
    published_framework(&c, &shipped, text);
    assert_true(strlen(text) > 128 && strlen(text) < PUBLISHED_PLATFORM);
}

static void refuses_what_is_no_such_file(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{\"rows\": 3}",
                                      "{\"rows\": [}",
                                      "{}",
                                      "# GPUs,global batch,micro batch,hidden size,attention "
                                      "heads,# layers\n1,2,3\n",
                                      "{\"pipeline_list\": []}",
                                      "{\"pipeline_list\": 1, \"N\": 1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct published p = {0};
        assert_int_equal(published_parse("f.json", bad[i], strlen(bad[i]), &p), STATUS_PARSE);
        assert_non_null(strstr(error_message(), "f.json"));
        assert_null(strchr(error_message(), '\n'));
        published_free(&p);
    }
}

static void reads_the_table_of_vtrain_and_the_plans_of_sailor(void **state)
{
    struct published p =
        parsed("\xef\xbb\xbf# GPUs,global batch,micro batch,hidden size,attention heads,# layers,"
               "sequence length,tensor parallelism,data parallelism,pipeline parallelism,iteration "
               "time (ms)\r\n2,16,8,1024,16,24,1024,1,1,2,372.16\r\n\n");
    assert_int_equal(p.rows, 1);
    assert_int_equal(p.row[0].config.pp, 2);
    assert_int_equal(p.row[0].config.global_batch, 16);
    assert_true(fabs(p.row[0].measured.step_s - 0.37216) < 1e-12);
    published_free(&p);
    p = parsed("{\"real\": 2, \"max_mem\": 1073741824, \"gbs\": 8, \"mbs\": 2, \"N\": 2, "
               "\"pipeline_list\": [{\"layers_per_stage\": [[0,1,2,3,4,5,6,7,8,9,10,11],"
               "[12,13,14,15,16,17,18,19,20,21,22,23,24,25]]}]}");
    assert_int_equal(p.row[0].config.cuts, 2);
    assert_int_equal(p.row[0].config.cut[0], 11);
    assert_int_equal(p.row[0].config.cut[1], 13);
    assert_true(fabs(p.row[0].measured.memory_gib - 1) < 1e-12);
    published_free(&p);
}

static void add_text(struct published *p, const char *text)
{
    assert_int_equal(published_parse("f.json", text, strlen(text), p), STATUS_OK);
}

/* A profile of 26 layers, layer i of which takes i + 1, 2 (i + 1) and i / 2 ms. */
static void profile_of_layers(size_t layers, char text[4096])
{
    size_t n = (size_t)snprintf(text, 4096, "{\"OPT-350\": {\"GH-96\": {\"2\": {\"4\": {");
    for (size_t i = 0; i < layers; i++)
        n += (size_t)snprintf(text + n, 4096 - n, "%s\"%zu\": [%g, %g, %g]", i ? ", " : "", i,
                              1e-3 * (double)(i + 1), 2e-3 * (double)(i + 1), 5e-4 * (double)i);
    snprintf(text + n, 4096 - n, "}}}}}");
}

static void takes_times_of_layers_from_a_profile(void **state)
{
    static const char row[] = "{\"real\": 2, \"max_mem\": 1, \"gbs\": 8, \"mbs\": 2, \"N\": 1, "
                              "\"pipeline_list\": [{\"layers_per_stage\": [[0,1,2,3,4,5,6,7,8,9,10,"
                              "11,12,13,14,15,16,17,18,19,20,21,22,23,24,25]]}]}";
    char text[4096];
    struct published_prediction q = {0};
    struct published p = {0};
    profile_of_layers(26, text);
    add_text(&p, row);
    add_text(&p, text); /* files come in any order */
    assert_int_equal(p.profiles, 1);
    assert_int_equal(published_predict(&p, "foreline", &q), STATUS_OK);
    double sum = 26 * 27 / 2.0;
    assert_true(fabs(q.step_s - (4 * 3e-3 * sum + 5e-4 * (sum - 26))) < 1e-9);
    published_free(&p);

    p = (struct published){0}; /* other layers are no layers of this model */
    profile_of_layers(20, text);
    add_text(&p, row);
    add_text(&p, text);
    assert_int_equal(published_predict(&p, "foreline", &q), STATUS_OK);
    assert_string_equal(q.reason, "the measured profile has 18 layers, but the row's model has 24");
    published_free(&p);
}

static void refuses_profiles_by_line(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"m\": {\"abacus\": {\"1\": {\"1\": {\"0\": [1, 2, 3]}}}}}", "no GPU of the catalogue"},
        {"{\"m\": {\"GH-96\": {\"x\": {\"1\": {\"0\": [1, 2, 3]}}}}}", "whole number"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"0\": {\"0\": [1, 2, 3]}}}}}", "whole number"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"1\": {\"0\": [1, 2, 3]}}}}}", "a head"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"1\": {\"0\": [1, 2], \"1\": [], \"2\": []}}}}}", "update"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"1\": {\"7\": [1, 2, 3], \"1\": [], \"2\": []}}}}}",
         "whole number"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"1\": {\"0\": [1, -2, 3], \"1\": [], \"2\": []}}}}}",
         "f.json:1"},
        {"{\"m\": {\"GH-96\": {\"1\": {\"1\": {\"0\": [1, 2, 3]}}, \"2\": 1}}}", "a head"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct published p = {0};
        assert_int_equal(published_parse("f.json", bad[i].text, strlen(bad[i].text), &p),
                         STATUS_PARSE);
        assert_non_null(strstr(error_message(), bad[i].says));
        published_free(&p);
    }
}

static enum status parse_and_free(void)
{
    struct published p = {0};
    enum status st = published_parse("s.json", small, sizeof small - 1, &p);
    published_free(&p);
    return st;
}

static void survives_every_allocation_that_fails(void **state)
{
    FOR_EACH_ALLOC_FAILURE(parse_and_free());
}

/* ---- facts */

static void finds_gpus_by_the_words_of_their_names(void **state)
{
    static const char *const names[][2] = {{"H100-SXM-80GB", "H100"},
                                           {"NVIDIA_H100_80GB_HBM3", "H100"},
                                           {"A100-SXM-40GB", "A100-40"},
                                           {"A100-SXM-80GB", "A100"},
                                           {"NVIDIA_A100_80GB_PCIe", "A100-PCIE"},
                                           {"NVIDIA_A100-SXM4-40GB", "A100-40"},
                                           {"B200-SXM-180GB (preview)", "B200"},
                                           {"AMD_Instinct_MI210", "MI210"},
                                           {"Tesla_V100-PCIE-32GB", "V100"},
                                           {"GB300", "GB300"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct gpu *gpu = gpu_named(names[i][0]);
        assert_non_null(gpu);
        assert_string_equal(gpu->name, names[i][1]);
    }
    assert_null(gpu_named("TPU v5"));
    assert_null(gpu_named(""));
    assert_null(gpu_named("H1000"));
}

static void makes_platforms_of_what_is_said(void **state)
{
    char text[PUBLISHED_PLATFORM];
    const struct {
        const char *gpu, *network;
        int64_t gpus, node;
        const char *platform;
    } all[] = {
        {"A100-SXM-80GB", "8x HDR InfiniBand 200 Gbit/s per node", 16, 8,
         "rail:nodes=2,gpus=8,type=A100,nic=200Gbps"},
        {"A100-SXM-80GB", "RoCE 1600 Gbit/s per node (200 Gbit/s per GPU)", 8, 8,
         "rail:nodes=1,gpus=8,type=A100,nic=200Gbps,fabric=roce"},
        {"H100", "1600 Gbit/s per node", 12, 8, "rail:nodes=2,gpus=6,type=H100,nic=266.667Gbps"},
        {"GB200", NULL, 256, 4, "nvl:domains=4,gpus=64,type=GB200"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct published_config c = {.gpu = all[i].gpu,
                                     .network = all[i].network,
                                     .gpus = all[i].gpus,
                                     .gpus_per_node = all[i].node};
        assert_int_equal(published_platform(&c, text), STATUS_OK);
        assert_string_equal(text, all[i].platform);
    }
    struct published_config unknown = {.gpu = "TPU v5", .gpus = 8};
    assert_int_equal(published_platform(&unknown, text), STATUS_UNSUPPORTED);
}

static void reads_sharding_out_of_sentences(void **state)
{
    static const struct {
        const char *text;
        int64_t zero;
    } all[] = {{"distributed optimizer (ZeRO-1) assumed; FSDP column absent", 1},
               {"Megatron-FSDP (ZeRO-3)", 3},
               {"fsdp_shard_grad_op (ZeRO-2)", 2},
               {"none (DDP)", 0},
               {"distributed optimizer", 1},
               {"2", 2},
               {NULL, 0}};
    int64_t zero;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct published_config c = {.zero = all[i].text};
        assert_int_equal(published_zero(&c, &zero), STATUS_OK);
        assert_int_equal(zero, all[i].zero);
    }
    const struct published_config strange = {.zero = "by moonlight"};
    assert_int_equal(published_zero(&strange, &zero), STATUS_UNSUPPORTED);
}

/* ---- predictions and figures */

/* What was measured is multiplied by 3, and times are taken away altogether. */
static void predicts_without_looking_at_what_was_measured(void **state)
{
    struct published p = parsed(small), q = parsed(small);
    struct published_prediction *a = calloc(p.rows, sizeof *a), *b = calloc(p.rows, sizeof *b);
    assert_true(a && b);
    for (size_t i = 0; i < q.rows; i++) {
        q.row[i].measured.tokens_per_s *= 3;
        q.row[i].measured.derived_s = 0;
        q.row[i].measured.memory_gib = 17;
    }
    assert_int_equal(published_predict(&p, NULL, a), STATUS_OK);
    assert_int_equal(published_predict(&q, NULL, b), STATUS_OK);
    assert_true(a[0].step_s > 0 && a[0].peak_bytes > 0);
    assert_memory_equal(a, b, p.rows * sizeof *a);
    assert_string_equal(b[7].reason, "the row does not give which GPU");
    free(a);
    free(b);
    published_free(&p);
    published_free(&q);
}

/* Four runs of one set: measured 1, 2, 4 and 10 s; a fifth was measured twice, as 3 and 5 s. */
static void figures_are_those_computed_by_hand(void **state)
{
    static const double measured[] = {1, 2, 4, 10, 3, 5};
    static const double predicted[] = {1.1, 1.6, 4, 15, 3.6, 3.6};
    struct published p = {0};
    struct published_table t = {0};
    struct published_prediction q[6] = {{0}};
    for (size_t i = 0; i < 6; i++) {
        struct published_row *row = published_add(&p, "s");
        assert_non_null(row);
        row->config.gpus = i < 2 ? 1 : 8; /* two choices: of two plans, and of three */
        row->measured.step_s = measured[i];
        q[i].step_s = predicted[i];
        q[i].peak_bytes = INT64_C(3) << 30;
        q[i].device_bytes = INT64_C(2) << 30;
    }
    p.row[0].measured.memory_gib = 4;
    assert_int_equal(published_tabulate(&p, q, NULL, &t), STATUS_OK);
    const struct published_score *s = &t.kind[0].score[0];
    assert_int_equal(s->rows, 6);
    assert_int_equal(s->used, 6);
    /* errors .1, -.2, 0, .5, .2, -.28 */
    assert_true(fabs(s->mean - 1.28 / 6) < 1e-12);
    assert_true(fabs(s->bias - 0.32 / 6) < 1e-12);
    assert_true(fabs(s->median - 0.2) < 1e-12);
    assert_true(fabs(s->max - 0.5) < 1e-12);
    assert_true(fabs(s->p95 - (0.28 + 0.75 * 0.22)) < 1e-12); /* at 4.75 of 0 to 5 */
    assert_int_equal(s->groups, 2);
    /* 1.1 before 1.6 is right; 3.6, which took (3 + 5) / 2 = 4 s, is as good as the 4 s */
    assert_int_equal(s->best, 2);
    assert_true(fabs(s->regret) < 1e-12 && fabs(s->regret_first) < 1e-12);
    /* of 15 pairs 13 are in order, one is not (5 before 4), and one is tied in predictions */
    assert_true(fabs(s->tau - 12 / sqrt(15.0 * 14.0)) < 1e-9);
    assert_int_equal(s->memories, 1);
    assert_true(fabs(s->memory_median - 0.25) < 1e-12);
    assert_int_equal(s->false_oom, 6);
    assert_int_equal(t.worst[0], 3);
    published_table_free(&t);
    published_free(&p);
}

enum { EVERY = 23 };

/* Skipped where they are not: every set is read, and rows of all have a prediction or a reason. */
static void has_a_prediction_or_a_reason_for_every_row_of_the_sets(void **state)
{
    struct published p = {0};
    if (published_read(WORKLOADS_DIR "/measured/published", &p) != STATUS_OK) {
        published_free(&p);
        print_message("no sets of published runs beside the repository\n");
        skip();
    }
    struct published_prediction *q = calloc(p.rows, sizeof *q);
    assert_non_null(q);
    for (size_t i = 0; i < p.rows; i++) /* all of them take too long */
        if (i % EVERY > 0)
            p.row[i].left_out = "not asked";
    assert_int_equal(published_predict(&p, NULL, q), STATUS_OK);
    for (size_t i = 0; i < p.rows; i++)
        assert_true(p.row[i].left_out || q[i].reason[0] ||
                    (q[i].step_s > 0 && q[i].peak_bytes > 0));
    free(q);
    published_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_said_and_leaves_the_rest_at_nothing),
        cmocka_unit_test(leaves_out_rows_that_are_wrong_and_says_why),
        cmocka_unit_test(rows_say_who_trained_and_what_is_a_number),
        cmocka_unit_test(sharding_is_that_of_the_rows_own_system),
        cmocka_unit_test(what_is_spared_costs_no_time),
        cmocka_unit_test(a_row_may_say_everything_of_its_framework),
        cmocka_unit_test(refuses_what_is_no_such_file),
        cmocka_unit_test(reads_the_table_of_vtrain_and_the_plans_of_sailor),
        cmocka_unit_test(takes_times_of_layers_from_a_profile),
        cmocka_unit_test(refuses_profiles_by_line),
        cmocka_unit_test(survives_every_allocation_that_fails),
        cmocka_unit_test(finds_gpus_by_the_words_of_their_names),
        cmocka_unit_test(makes_platforms_of_what_is_said),
        cmocka_unit_test(reads_sharding_out_of_sentences),
        cmocka_unit_test(predicts_without_looking_at_what_was_measured),
        cmocka_unit_test(has_a_prediction_or_a_reason_for_every_row_of_the_sets),
        cmocka_unit_test(figures_are_those_computed_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
