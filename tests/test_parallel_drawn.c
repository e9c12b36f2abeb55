/* Mixtures of today of seeded random sizes, spread over ranks in seeded random ways: trained to the
 * parameters of one process. */
#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "model/import.h"
#include "tests/cmocka.h"
#include "tests/put.h"
#include "tests/trained.h"

enum { FAMILIES = 5, DRAWN = 30, WAYS = 4 };

struct draw {
    uint64_t key, n;
};

static int64_t from_to(struct draw *d, int64_t low, int64_t high)
{
    return low + (int64_t)(random_at(d->key, d->n++) % (uint64_t)(high - low + 1));
}

/* ---- models: heads, experts and widths that four shards and ranks divide, or not */

static void draw_config(struct draw *d, size_t family, char *text, size_t room)
{
    static const char *const names[FAMILIES] = {"deepseek_v3", "deepseek_v2", "gpt_oss",
                                                "qwen2_moe", "mixtral"};
    int64_t heads = 2 * from_to(d, 1, 2), groups = from_to(d, 1, 2);
    int64_t experts = 4 * from_to(d, 1, 2), top = from_to(d, 1, experts / groups);
    int64_t head = 2 * from_to(d, 2, 4), shared = family == 3 ? 8 * from_to(d, 1, 3) : 0;
    int n = snprintf(
        text, room,
        "{\"model_type\": \"%s\", \"vocab_size\": 256, \"num_hidden_layers\": 2, "
        "\"max_position_embeddings\": 64, \"hidden_size\": %d, \"num_attention_heads\": %d, "
        "\"num_key_value_heads\": %d, \"intermediate_size\": %d, \"moe_intermediate_size\": %d, "
        "\"num_experts_per_tok\": %d, \"shared_expert_intermediate_size\": %d, "
        "\"sliding_window\": %d, \"norm_topk_prob\": %s, ",
        names[family], (int)(heads * head), (int)heads,
        (int)(family == 2 || family == 4 ? 2 : heads), (int)(4 * from_to(d, 4, 10)),
        (int)(4 * from_to(d, 2, 5)), (int)top, (int)shared, (int)from_to(d, 2, 20),
        from_to(d, 0, 1) ? "true" : "false");
    snprintf(text + n, room - (size_t)n,
             "\"%s\": %d, \"n_group\": %d, \"topk_group\": %d, \"first_k_dense_replace\": %d, "
             "\"q_lora_rank\": %d, \"kv_lora_rank\": %d, \"qk_nope_head_dim\": %d, "
             "\"qk_rope_head_dim\": %d, \"v_head_dim\": %d, \"n_shared_experts\": %d, "
             "\"routed_scaling_factor\": %d.5%s}",
             family < 2    ? "n_routed_experts"
             : family == 3 ? "num_experts"
                           : "num_local_experts",
             (int)experts, (int)groups, (int)from_to(d, 1, groups),
             family < 2 ? (int)from_to(d, 0, 1) : 0, from_to(d, 0, 1) ? (int)from_to(d, 8, 24) : 0,
             (int)from_to(d, 8, 24), (int)from_to(d, 2, 8), 2 * (int)from_to(d, 1, 4),
             (int)from_to(d, 2, 9), family < 2 ? (int)from_to(d, 1, 2) : 0, (int)from_to(d, 0, 2),
             family == 2 ? ", \"head_dim\": 8, \"attention_bias\": true" : "");
}

static void build(struct draw *d, size_t family, char *text, size_t room, struct model *m)
{
    static const char path[] = BINARY_DIR "/test_parallel_drawn.json";
    char choices[64];
    snprintf(choices, sizeof choices, ":tokens=%d,flash=%d", (int)(8 * from_to(d, 1, 2)),
             (int)from_to(d, 0, 1));
    const struct import_options o = {.minibatch_size = 1, .choices = choices};
    draw_config(d, family, text, room);
    put_text(path, text);
    if (model_import(path, &o, m) != STATUS_OK)
        fail_msg("%s: %s", text, error_message());
}

/* ---- ways: at most eight ranks */

static struct partition_request draw_way(struct draw *d, char *text, size_t room)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    struct partition_request r = request_of("");
    r.tensor_parallel = 1u << from_to(d, 0, 1);
    /* four replicas add up in an order that depends on where a number is, which biases of one shard
     * only move: the copies that two shards have of a norm would differ in the last bit */
    r.replicas = 1u << from_to(d, 0, r.tensor_parallel > 1 ? 1 : 2);
    r.stages = r.tensor_parallel * r.replicas > 4 ? 1 : (size_t)from_to(d, 1, 2);
    r.expert_parallel = r.replicas > 1 && from_to(d, 0, 1) ? 2 : 1;
    r.sequence_parallel = r.tensor_parallel > 1 && from_to(d, 0, 2) > 0;
    r.schedule = schedules[r.stages > 1 ? from_to(d, 0, 2) : 0];
    bool whole = strcmp(r.schedule, "zb-h1") != 0;
    r.zero = r.replicas > 1 ? (uint32_t)from_to(d, 0, 3) : 0;
    r.recompute = whole ? (enum plan_recompute)from_to(d, 0, RECOMPUTE_KINDS - 1) : RECOMPUTE_NONE;
    snprintf(text, room, "pp=%zu dp=%u tp=%u ep=%u zero=%u %s %s%s", r.stages, r.replicas,
             r.tensor_parallel, r.expert_parallel, r.zero, plan_recompute_names[r.recompute],
             r.schedule, r.sequence_parallel ? " sequence" : "");
    return r;
}

static void drawn_mixtures_match_one_process(void **state)
{
    size_t rows = 0, spread = 0, both = 0, halves = 0;
    for (uint64_t k = 0; k < DRAWN; k++) {
        struct draw d = {900 + k, 0};
        struct model m = {0};
        struct trained one, other;
        char text[1200], way[160];
        const struct partition_request alone = request_of("");
        build(&d, k % FAMILIES, text, sizeof text, &m);
        train(&m, text, &alone, STEPS, &one);
        for (int i = 0; i < WAYS; i++) {
            struct partition_request r = draw_way(&d, way, sizeof way);
            rows += r.sequence_parallel;
            spread += r.expert_parallel > 1;
            both += r.expert_parallel > 1 && r.sequence_parallel;
            halves += strcmp(r.schedule, "zb-h1") == 0;
            train(&m, way, &r, STEPS, &other);
            double apart = distance(&one, &other);
            if (!(apart <= 1e-5))
                fail_msg("%s, %s: parameters %.2g apart", text, way, apart);
            trained_free(&other);
        }
        trained_free(&one);
        model_free(&m);
    }
    assert_true(rows > 10 && spread > 10 && both > 5 && halves > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_mixtures_match_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
