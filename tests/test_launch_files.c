/* Launch files of other people: Megatron-LM, NeMo, torchtitan, DeepSpeed, GPT-NeoX, LLM Foundry.
 * Each imports to the degrees that a reader finds in it, or says why it does not. Skipped, with a
 * message, where the files are not at hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "study/frameworks/port.h"
#include "study/frameworks/setup.h"
#include "study/load.h"
#include "tests/cmocka.h"

#define FOLDER WORKLOADS_DIR "/real/launch/"
enum { SETS = 8 };

/* What is given beside the file, and what must come out: the numbers as they stand in the file, or
 * a part of the message. */
struct launch {
    const char *file, *second;
    int64_t gpus;
    const char *set[SETS], *model;
    const char *refusal; /* NULL: it imports */
    int64_t tensor, pipeline, chunks, context, replicas, experts, microbatches, size, zero,
        recompute;
};

#define GIVEN(...) .set = {__VA_ARGS__}
#define MEGATRON   "megatron_academic_paper_scripts__sc21__"
/* tensor, pipeline, chunks, context, replicas, experts; microbatches of so many, ZeRO,
 * recomputation */
#define IS(t, p, v, c, r, e, m, s, z, re)                                                          \
    .tensor = (t), .pipeline = (p), .chunks = (v), .context = (c), .replicas = (r),                \
    .experts = (e), .microbatches = (m), .size = (s), .zero = (z), .recompute = (re)
enum { NONE = RECOMPUTE_NONE, SOME = RECOMPUTE_SELECTIVE, ALL = RECOMPUTE_FULL };

static const struct launch launches[] = {
    {"bigscience_tr1-13B-round1.slurm", IS(2, 4, 1, 1, 64, 1, 1024, 1, 1, ALL)},
    {"bigscience_tr11-176B-ml.slurm", IS(4, 12, 1, 1, 4, 1, 1024, 2, 0, ALL)},
    {"foundry_hf-llama-3.1-8B.yaml", .refusal = "number of GPUs"},
    {"foundry_hf-llama-3.1-8B.yaml", .gpus = 8, IS(1, 1, 1, 1, 8, 1, 8, 1, 3, NONE)},
    {"foundry_mpt-70b.yaml", .gpus = 64, IS(1, 1, 1, 1, 64, 1, 512, 4, 3, ALL)},
    {"mds_ds_config_gpt_TEMPLATE.json", .gpus = 16, .refusal = "CONFIG_BATCH_SIZE"},
    {"mds_ds_config_gpt_TEMPLATE.json", .gpus = 16,
     GIVEN("CONFIG_BATCH_SIZE=256", "CONFIG_MBSIZE=4", "ZERO_STAGE=1", "CONFIG_FP16_ENABLED=true",
           "CONFIG_BF16_ENABLED=false", "CONFIG_CL_ENABLED=false"),
     .refusal = "--model M"},
    {"mds_ds_config_gpt_TEMPLATE.json", .gpus = 16, .model = "gpt2-small:bits=16",
     GIVEN("CONFIG_BATCH_SIZE=256", "CONFIG_MBSIZE=4", "ZERO_STAGE=1", "CONFIG_FP16_ENABLED=true",
           "CONFIG_BF16_ENABLED=false", "CONFIG_CL_ENABLED=false"),
     IS(1, 1, 1, 1, 16, 1, 64, 4, 1, NONE)},
    {"mds_ds_config_gpt_Zero2_TEMPLATE.json", .gpus = 16, .model = "gpt2-small:bits=16",
     GIVEN("CONFIG_BATCH_SIZE=128", "CONFIG_MBSIZE=8", "CONFIG_FP16_ENABLED=true",
           "CONFIG_BF16_ENABLED=false", "CONFIG_CL_ENABLED=true"),
     IS(1, 1, 1, 1, 16, 1, 16, 8, 2, NONE)},
    {"mds_ds_pretrain_gpt_1.3B_MoE128.sh", IS(1, 1, 1, 1, 64, 64, 64, 8, 0, ALL)},
    {"mds_pretrain_gpt3_175B.sh", IS(8, 16, 1, 1, 8, 1, 1536, 1, 0, ALL)},
    {MEGATRON "CONFIG.sh", .refusal = "'NLS'"},
    {MEGATRON "SBATCH.sh", .refusal = "no arguments of a framework"},
    {MEGATRON "SRUN.sh", .refusal = "no arguments of a framework"},
    {MEGATRON "run_figure_13.sh", .refusal = "no arguments of a framework"},
    {MEGATRON "run_figure_13.sh", MEGATRON "CONFIG.sh", IS(32, 2, 1, 1, 1, 1, 32, 1, 0, ALL)},
    {MEGATRON "run_figure_13.sh", MEGATRON "CONFIG.sh", GIVEN("PP=8", "GBS=128"),
     IS(8, 8, 1, 1, 1, 1, 128, 1, 0, ALL)},
    {MEGATRON "run_table_1.sh", .refusal = "no arguments of a framework"},
    {MEGATRON "run_table_1.sh", MEGATRON "CONFIG.sh", IS(1, 1, 1, 1, 32, 1, 32, 16, 0, ALL)},
    {MEGATRON "run_table_1.sh", MEGATRON "CONFIG.sh", GIVEN("MODEL_SIZE=145B"),
     IS(8, 8, 2, 1, 24, 1, 1152, 2, 0, ALL)},
    {MEGATRON "run_table_1.sh", MEGATRON "CONFIG.sh", GIVEN("MODEL_SIZE=1T"),
     IS(8, 64, 1, 1, 6, 1, 3072, 1, 0, ALL)},
    {"megatron_bert__train_bert_340m_distributed.sh", .refusal = "8 GPUs are multiple"},
    {"megatron_bert__train_bert_340m_distributed.sh", .gpus = 128,
     .refusal = "24 layers are multiple of 16 stages"},
    {"megatron_gpt-nemo__mixtral-nemo_8x7b_mr_mbs1_gbs8_mcore_te_tp2_pp1_ep2_1N8G__model_config."
     "yaml",
     IS(2, 1, 1, 1, 4, 1, 8, 1, 0, NONE)},
    {"megatron_gpt3__train_gpt3_175b_distributed.sh", .refusal = "8 GPUs are multiple"},
    {"megatron_gpt3__train_gpt3_175b_distributed.sh", .gpus = 1024,
     IS(8, 16, 1, 1, 8, 1, 1536, 1, 0, NONE)},
    {"megatron_gpt__gpt3_15b_8t_release__model_config.yaml", .refusal = "number of GPUs"},
    {"megatron_gpt__gpt3_15b_8t_release__model_config.yaml", .gpus = 64,
     IS(8, 1, 1, 1, 8, 1, 288, 4, 1, NONE)},
    {"megatron_llama__train_llama3_8b_h100_fp8.sh", IS(1, 1, 1, 1, 8, 1, 128, 1, 1, NONE)},
    {"megatron_megatron_fsdp__sbatch_mfsdp_deepseek_v3.sh", .refusal = "number of GPUs"},
    {"megatron_megatron_fsdp__sbatch_mfsdp_deepseek_v3.sh", .gpus = 256,
     IS(1, 1, 1, 1, 256, 8, 512, 4, 3, SOME)},
    {"megatron_mixtral__train_mixtral_8x7b_distributed.sh", .refusal = "expert parallelism 8"},
    {"megatron_mixtral__train_mixtral_8x7b_distributed.sh", .gpus = 32,
     IS(1, 4, 1, 1, 8, 8, 256, 1, 1, NONE)},
    {"nemo_bert_4b.yaml", IS(1, 1, 1, 1, 128, 1, 256, 8, 1, NONE)},
    {"nemo_gpt3_175b.yaml", IS(4, 8, 6, 1, 32, 1, 2048, 1, 1, NONE)},
    {"nemo_gpt3_175b_mlperf.yaml", IS(4, 8, 6, 1, 16, 1, 1024, 2, 1, NONE)},
    {"nemo_llama_llama2_70b.yaml", IS(4, 4, 5, 1, 64, 1, 2048, 1, 1, NONE)},
    {"nemo_llama_llama3_1_405b.yaml", IS(8, 9, 7, 2, 32, 1, 2016, 1, 1, NONE)},
    {"nemo_mixtral_mixtral_8x22b.yaml", .refusal = "batch of 1 samples"},
    {"nemo_mixtral_mixtral_8x22b.yaml", GIVEN("model.global_batch_size=384"),
     IS(8, 2, 1, 1, 24, 1, 384, 1, 1, NONE)},
    {"nemo_t5_11b.yaml", IS(4, 1, 1, 1, 40, 1, 80, 24, 1, NONE)},
    {"neox_125M-dmoe.yml", .refusal = "number of GPUs"},
    {"neox_125M-dmoe.yml", .gpus = 8, IS(1, 1, 1, 1, 8, 1, 8, 4, 1, ALL)},
    {"neox_175B.yml", .gpus = 64, IS(1, 1, 1, 1, 64, 1, 64, 4, 1, ALL)},
    {"neox_20B.yml", .gpus = 96, IS(2, 4, 1, 1, 12, 1, 384, 4, 1, ALL)},
    {"neox_llama2_70B.yml", .gpus = 64, IS(1, 1, 1, 1, 64, 1, 64, 1, 0, NONE)},
    {"neox_mistral_7B.yml", .gpus = 8, IS(1, 1, 1, 1, 8, 1, 8, 1, 0, NONE)},
    {"neox_pythia_12B.yml", .gpus = 256, IS(4, 1, 1, 1, 64, 1, 128, 8, 1, ALL)},
    {"torchtitan_deepseek_v3_671b.toml", .gpus = 512, IS(1, 1, 1, 1, 512, 1, 512, 4, 3, SOME)},
    {"torchtitan_llama3_405b.toml", .gpus = 128, IS(8, 1, 1, 1, 16, 1, 16, 2, 3, ALL)},
    {"torchtitan_llama3_70b.toml", .gpus = 64, IS(8, 1, 1, 1, 8, 1, 8, 8, 3, ALL)},
    {"torchtitan_llama3_8b.toml", .gpus = 64, IS(1, 1, 1, 1, 64, 1, 64, 1, 3, SOME)},
    {"torchtitan_llama4_17bx128e.toml", .gpus = 64, .refusal = "llama4-17bx128e"},
    {"torchtitan_deepseek_v3_config_registry.py", .gpus = 64, .refusal = "several configurations"},
    {"torchtitan_deepseek_v3_config_registry.py", .gpus = 64, GIVEN("config=deepseek_v3_16b"),
     IS(1, 1, 1, 1, 64, 8, 64, 4, 3, SOME)},
    {"torchtitan_deepseek_v3_config_registry.py", .gpus = 512, GIVEN("config=deepseek_v3_671b"),
     IS(1, 1, 1, 1, 512, 2, 512, 4, 3, SOME)},
    {"torchtitan_llama3_config_registry.py", .gpus = 64, .refusal = "several configurations"},
    {"torchtitan_llama3_config_registry.py", .gpus = 64, GIVEN("config=llama3_70b"),
     IS(8, 1, 1, 1, 8, 1, 8, 8, 3, ALL)},
    {"torchtitan_llama3_config_registry.py", .gpus = 128, GIVEN("config=llama3_405b"),
     IS(8, 1, 1, 1, 16, 1, 16, 2, 3, ALL)},
    {"torchtitan_llama3_config_registry.py", .gpus = 8, GIVEN("config=llama3_8b_mxfp8"),
     IS(1, 1, 1, 1, 8, 1, 8, 1, 3, SOME)},
};
enum { LAUNCHES = sizeof launches / sizeof *launches };

/* The import into a file, and the plan that simulate and run would load from it. */
static enum status import(const struct launch *l, struct loaded_plan *out, char **said)
{
    char first[512], second[512];
    size_t n, m;
    char *line = NULL;
    struct arguments a = {.devices = (size_t)l->gpus, .model = l->model, .output = "launch.json"};
    const char *const files[] = {first, second};
    const struct provenance by = {.version = "test", .command = "test"};
    FILE *notes = open_memstream(said, &n), *summary = open_memstream(&line, &m);
    assert_non_null(notes);
    assert_non_null(summary);
    snprintf(first, sizeof first, "%s%s", FOLDER, l->file);
    snprintf(second, sizeof second, "%s%s", FOLDER, l->second ? l->second : "");
    while (a.port.sets.n < SETS && l->set[a.port.sets.n]) {
        a.port.sets.item[a.port.sets.n] = l->set[a.port.sets.n];
        a.port.sets.n++;
    }
    enum status st = port_import(&a, files, l->second ? 2 : 1, &by, summary, notes);
    fclose(summary);
    fclose(notes);
    if (st == STATUS_OK)
        print_message("%s: %s", l->file, line);
    else
        print_message("%s: refused: %s\n", l->file, error_message() + strlen(FOLDER));
    free(line);
    return st == STATUS_OK ? load_plan_only("launch.json", out) : st;
}

static void assert_degrees(const struct launch *l, const struct plan *p)
{
    const struct plan_stage *s = &p->stage[0];
    assert_int_equal(s->tensor_parallel, l->tensor);
    assert_int_equal(p->stages, l->pipeline * l->chunks);
    assert_int_equal(s->context_parallel, l->context);
    assert_int_equal(s->replicas, l->replicas * l->context);
    assert_int_equal(s->expert_parallel, l->experts);
    assert_int_equal(p->microbatches, l->microbatches);
    assert_int_equal(p->microbatch_size, l->size);
    assert_int_equal(p->zero, l->zero);
    assert_int_equal(s->recompute, l->recompute);
    uint32_t *team = calloc(p->stages, sizeof *team);
    assert_non_null(team);
    assert_int_equal(plan_teams(p, team), l->pipeline);
    free(team);
}

static void files_import_as_they_are_read_or_say_why_not(void **state)
{
    if (access(FOLDER, R_OK) != 0) {
        print_message("no launch files at hand: %s\n", FOLDER);
        skip();
    }
    for (size_t i = 0; i < LAUNCHES; i++) {
        const struct launch *l = &launches[i];
        struct loaded_plan p = {0};
        char *said = NULL;
        enum status st = import(l, &p, &said);
        if (l->refusal) {
            assert_int_not_equal(st, STATUS_OK);
            if (!message_says(error_message(), l->refusal))
                fail_msg("%s: '%s' does not say '%s'", l->file, error_message(), l->refusal);
        } else {
            if (st != STATUS_OK)
                fail_msg("%s: %s", l->file, error_message());
            assert_degrees(l, &p.plan);
        }
        free(said);
        loaded_plan_free(&p);
    }
}

/* BLOOM's first and last stage have a layer less, for the embedding and the head. */
static void ends_that_count_as_layers_have_fewer(void **state)
{
    struct loaded_plan p = {0};
    char *said = NULL;
    if (access(FOLDER, R_OK) != 0)
        skip();
    assert_int_equal(import(&launches[1], &p, &said), STATUS_OK);
    assert_true(p.plan.stage[1].ops > p.plan.stage[0].ops);
    assert_true(fabs((double)model_parameters(&p.model) / 176247271424.0 - 1) < 1e-3);
    free(said);
    loaded_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_import_as_they_are_read_or_say_why_not),
        cmocka_unit_test(ends_that_count_as_layers_have_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
