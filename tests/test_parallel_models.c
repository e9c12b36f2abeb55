/* Models of today, experts on other ranks and sequences that replicas share: trained to the
 * parameters of one process, however they are spread. */
#include <string.h>

#include "tests/cmocka.h"
#include "tests/trained.h"

static const char *const configurations[] = {
    "llama.json:tokens=16",          "mixtral.json:tokens=16",
    "qwen3_moe.json:tokens=16",      "gemma2.json:tokens=16",
    "gemma2.json:tokens=16,flash=0", "deepseek.json:tokens=16",
    "deepseek_v3.json:tokens=16",    "deepseek_v2.json:tokens=16,flash=0",
    "gpt_oss.json:tokens=16",        "qwen2_moe.json:tokens=16"};
enum { CONFIGURATIONS = sizeof configurations / sizeof *configurations };

/* Models of today: cut into stages, and what is made again, to the bit; spread over replicas. */
static void configurations_match_one_process(void **state)
{
    static const char *const same[] = {
        "pp=2",           "pp=4 gpipe", "pp=2 full",
        "pp=2 selective", "pp=2 zb-h1", "pp=2 core_attn,layernorm",
    };
    static const char *const close[] = {
        "dp=4", "pp=2 dp=2", "dp=2 zero=1 bucket=10000", "dp=2 zero=2", "dp=4 zero=3",
    };
    for (size_t k = 0; k < CONFIGURATIONS; k++) {
        COMPARE(configurations[k], same, 0);
        COMPARE(configurations[k], close, 1e-5);
    }
    static const char *const up[] = {"pp=2 mla_up_proj", "mla_up_proj,shared_experts"};
    COMPARE("deepseek_v3.json:tokens=16", up, 0);
}

/* By heads, of which there are fewer for keys, by inner width of MLPs and of experts. */
static void configurations_over_shards_match_one_process(void **state)
{
    static const char *const how[] = {
        "tp=2",           "pp=2 dp=2 tp=2",   "tp=2 full",
        "tp=2 selective", "dp=2 tp=2 zero=3", "tp=2 core_attn,layernorm",
    };
    for (size_t k = 0; k < CONFIGURATIONS; k++)
        if (strncmp(configurations[k], "qwen3_moe", 9) != 0) /* norms of heads are not divided */
            COMPARE(configurations[k], how, 1e-5);
}

/* What shards leave whole, by tokens; experts gather them. */
static void configurations_by_tokens_match_one_process(void **state)
{
    static const char *const how[] = {
        "tp=2 sequence",
        "pp=2 tp=2 sequence full",
        "dp=2 tp=2 sequence zero=3",
        "pp=2 dp=2 tp=2 sequence bucket=10000 selective",
        "pp=2 tp=2 sequence zb-h1",
        "pp=2 dp=2 tp=2 sequence zb-h1 zero=1",
        "dp=2 tp=2 cp=2 sequence zero=2",
        "pp=2 dp=2 tp=2 sequence zb-h1 zero=2", /* not of weights that stages share */
    };
    for (size_t k = 0; k < CONFIGURATIONS; k++) {
        size_t fewer = strncmp(configurations[k], "llama", 5) == 0   ? 0
                       : strncmp(configurations[k], "gemma", 5) == 0 ? 1
                                                                     : 2;
        if (strncmp(configurations[k], "qwen3_moe", 9) != 0)
            compare(configurations[k], how, sizeof how / sizeof *how - fewer, 1e-5);
    }
    static const char *const bent[] = {"pp=4 tp=2 sequence chunks=2 zb-v",
                                       "pp=4 tp=2 sequence chunks=2 dualpipe-v",
                                       "pp=4 dp=2 tp=2 sequence chunks=2 dualpipe"};
    COMPARE("llama.json:tokens=16,layers=4", bent, 1e-5);
    COMPARE("deepseek_v3.json:tokens=16,layers=4", bent, 1e-5);
    compare("deepseek_v3.json:tokens=16", how + 7, 1, 1e-5);
    static const char *const other[] = {"tp=4 sequence", "dp=2 tp=2 sequence selective zero=3",
                                        "tp=2 sequence moe"};
    COMPARE("deepseek_v3.json:tokens=16", other, 1e-5);
    compare("gpt_oss.json:tokens=16", other + 1, 2, 1e-5);
}

static void experts_over_replicas_match_one_process(void **state)
{
    static const char *const how[] = {
        "dp=2 ep=2",
        "dp=4 ep=4",
        "dp=4 ep=2",
        "pp=2 dp=2 ep=2",
        "dp=2 tp=2 ep=2",
        "dp=4 ep=2 zero=1",
        "dp=2 ep=2 zero=1",
        "dp=4 ep=2 zero=1 bucket=5000 kept",
        "dp=4 ep=2 bucket=10000",
        "dp=2 ep=2 zero=2",
        "dp=4 ep=2 zero=2",
        "dp=2 ep=2 zero=3",
        "dp=4 ep=2 zero=3",
        "dp=4 ep=2 zero=3 kept",
        "dp=4 ep=2 zero=3 bucket=2000",
        "dp=4 ep=2 zero=2 bucket=2000",
        "dp=4 ep=2 zero=3 bucket=1073741824",
        "dp=4 ep=2 zero=3 full",
        "dp=2 ep=2 zero=3 kept full",
        "pp=2 dp=4 ep=2 zero=3 selective",
        "dp=4 tp=2 ep=2 zero=3",
        "pp=2 dp=4 ep=2 zero=2 zb-h1",
        "pp=2 dp=2 ep=2 zero=3 zb-h1",
        "dp=2 ep=2 full",
        "dp=2 ep=2 selective",
        "dp=2 ep=2 moe",
        "pp=2 dp=2 ep=2 zb-h1",
        "pp=4 dp=2 ep=2 chunks=2 dualpipe-v",
        "pp=4 dp=2 ep=2 chunks=2 dualpipe",
        "pp=4 dp=2 tp=2 ep=2 chunks=2 dualpipe",
    };
    COMPARE("mixtral.json:tokens=16", how, 1e-5);
    compare("qwen3_moe.json:tokens=16", how, 1, 1e-5);
    compare("qwen3_moe.json:tokens=16", how + 2, 2, 1e-5);
    compare("qwen3_moe.json:tokens=16", how + 10, 2, 1e-5);
    compare("deepseek.json:tokens=16", how + 8, 6, 1e-5);
    compare("deepseek_v3.json:tokens=16", how, 4, 1e-5);
    compare("deepseek_v3.json:tokens=16", how + 11, 2, 1e-5);
    compare("deepseek_v2.json:tokens=16", how + 4, 2, 1e-5);
    compare("gpt_oss.json:tokens=16", how, 6, 1e-5);
    compare("qwen2_moe.json:tokens=16", how + 2, 4, 1e-5);
}

/* Replicas that share sequences: causal and bidirectional attention, fixed and rotary positions,
 * grouped queries, windows, flash; every part of a pass exchanges what its attention needs. */
static void context_parallel_runs_match_one_process(void **state)
{
    static const char *const how[] = {
        "dp=2 cp=2",
        "dp=4 cp=4",
        "dp=2 cp=2 allgather",
        "dp=2 cp=2 alltoall",
        "pp=2 dp=4 cp=2",
        "pp=2 dp=2 tp=2 cp=2 zero=3 full",
        "dp=4 cp=2 bucket=20000 selective",
        "dp=2 tp=2 cp=2 zero=3 alltoall full",
        "pp=2 dp=2 cp=2 zero=2 zb-h1",
        "pp=4 dp=2 cp=2 chunks=2 zero=1 interleaved",
    };
    COMPARE(gpt, how, 1e-5);
    compare(bert, how, 5, 1e-5);
}

/* Routers and experts see the tokens of their replica only, and experts may be elsewhere. */
static void mixtures_share_sequences_too(void **state)
{
    static const char *const how[] = {
        "dp=2 cp=2",
        "dp=4 cp=4",
        "dp=2 cp=2 alltoall zero=3 full",
        "pp=2 dp=2 cp=2 allgather zb-h1",
        "dp=2 tp=2 cp=2 zero=1",
        "dp=2 cp=2 ep=2",
        "pp=2 dp=4 cp=2 ep=2 zero=2",
        "dp=4 cp=2 ep=4 alltoall selective",
        "dp=2 tp=2 ep=2 sequence",
        "pp=2 dp=2 tp=2 cp=2 ep=2 sequence zero=1",
    };
    COMPARE("mixtral.json:tokens=16", how, 1e-5);
    COMPARE("qwen2_moe.json:tokens=16", how, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_match_one_process),
        cmocka_unit_test(configurations_over_shards_match_one_process),
        cmocka_unit_test(configurations_by_tokens_match_one_process),
        cmocka_unit_test(experts_over_replicas_match_one_process),
        cmocka_unit_test(context_parallel_runs_match_one_process),
        cmocka_unit_test(mixtures_share_sequences_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
