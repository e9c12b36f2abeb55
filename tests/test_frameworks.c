/* Arguments of other frameworks: plans that are written and read again are equal, over seeded
 * random plans; scripts are followed as a shell would; what cannot be said is said. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/schedule/schedule.h"
#include "study/frameworks/setup.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"

/* ---- random models and plans */

enum { DEVICES = 64, PLANS = 400, MOST_LAYERS = 24 };

/* GPT-2's or Llama's architecture, with experts or not. */
static struct architecture random_architecture(uint64_t *state)
{
    bool llama = random_below(state, 2);
    struct architecture a = family_find(llama ? "llama" : "gpt2")->usual;
    a.layers = 4 + random_below(state, MOST_LAYERS - 3);
    a.heads = 8 << random_below(state, 2);
    a.hidden = a.heads * (32 << random_below(state, 2));
    a.vocabulary = 1000 + random_below(state, 1000);
    a.context = 1024;
    if (llama) {
        a.kv_heads = a.heads >> random_below(state, 3);
        a.inner = 256 + 64 * random_below(state, 8);
        a.qkv_bias = random_below(state, 2);
        a.tied = random_below(state, 2);
    }
    if (llama && random_below(state, 2)) {
        a.experts = 8;
        a.top_k = 1 + random_below(state, 3);
        a.expert_inner = 128;
        a.routed_step = 1;
        a.first_dense = random_below(state, 3);
        a.shared_inner = random_below(state, 2) ? 256 : 0;
        uint64_t own = ~*state; /* of its own, so that older seeds draw what they did */
        a.capacity = random_below(&own, 3) ? 0 : 50 + random_below(&own, 200);
    }
    return a;
}

/* Layers per stage: alike where they can be and mostly are, else at random, at least one each. */
static void random_cut(uint64_t *state, int64_t layers, size_t stages, int64_t *cut)
{
    bool even = layers % (int64_t)stages == 0 && random_below(state, 3) > 0;
    for (size_t k = 0; k < stages; k++)
        cut[k] = even ? layers / (int64_t)stages : 1;
    for (int64_t left = even ? 0 : layers - (int64_t)stages; left > 0; left--)
        cut[random_below(state, (uint32_t)stages)]++;
}

/* A setup that stands for a plan, of sizes and choices at random; not all of them mean something to
 * every framework. */
static void random_setup(uint64_t *state, const struct architecture *a, struct setup *s)
{
    do {
        s->tensor_parallel = 1 << random_below(state, 4);
        s->pipeline = 1 + random_below(state, 4);
        s->context_parallel = random_below(state, 4) ? 1 : 2;
        s->chunks = s->pipeline > 1 && random_below(state, 3) == 0 ? 2 : 1;
        s->devices = s->tensor_parallel * s->pipeline * s->context_parallel
                     << random_below(state, 4);
    } while (s->devices > DEVICES || s->pipeline * s->chunks > a->layers);
    int64_t replicas = s->devices / s->tensor_parallel / s->pipeline;
    s->replicas = (uint32_t)replicas;
    s->expert_parallel = a->experts > 0 && random_below(state, 2) ? 2 : 1;
    s->expert_parallel = replicas % s->expert_parallel ? 1 : s->expert_parallel;
    s->apart = random_below(state, 6) == 0;
    s->stages = (size_t)(s->pipeline * s->chunks);
    s->cut = arena_new(&s->keys->memory, s->stages, sizeof *s->cut);
    assert_non_null(s->cut);
    random_cut(state, a->layers, s->stages, s->cut);
    s->microbatch_size = 1 + random_below(state, 4);
    s->accumulation = s->pipeline * (1 + random_below(state, 3));
    s->batch = s->accumulation * s->microbatch_size * replicas / s->context_parallel;
    s->schedule = random_below(state, 5) == 0
                      ? schedule_name(random_below(state, (uint32_t)schedules_n))
                  : s->chunks > 1 ? "interleaved"
                                  : "1f1b";
    s->zero = random_below(state, 4);
    s->zero_keep = s->zero % 2 == 1 && random_below(state, 3) == 0;
    s->zero_group = s->zero > 0 && replicas % 4 == 0 && random_below(state, 3) == 0 ? 2 : 0;
    s->bucket_bytes = random_below(state, 3) ? 0 : (1 + random_below(state, 100)) << 20;
    s->recompute = random_below(state, RECOMPUTE_KINDS);
    s->recompute_layers = random_below(state, 3) == 0 ? 1 + random_below(state, 3) : 0;
    s->recompute_unit = s->recompute_layers == 0 && random_below(state, 3) == 0 ? 2 : 1;
    if (s->recompute == RECOMPUTE_SELECTIVE && random_below(state, 2))
        s->recompute_modules = random_below(state, 1u << PLAN_MODULES);
    s->offload = random_below(state, 3) ? OFFLOAD_NONE : random_below(state, OFFLOAD_KINDS);
    s->sequence_parallel = random_below(state, 2);
    s->tensor_overlap = random_below(state, 2);
    s->context_exchange = random_below(state, EXCHANGE_KINDS);
    s->optimizer = random_below(state, 8) == 0;
}

/* ---- one round */

struct round {
    const struct dialect *f;
    const struct topology *t;
    struct architecture a;
    struct architecture_choice c;
    struct model m;
    struct plan p;
    struct keys there, back;
    struct setup out, in;
    char *text;
};

/* What DeepSpeed's JSON hardly ever has names for, most of what is drawn: an eighth of it is
 * tried. */
static bool is_beyond_json(const struct setup *s)
{
    return s->stages > 1 || s->expert_parallel > 1 || s->context_parallel > 1 ||
           s->recompute != RECOMPUTE_NONE;
}

static enum status make_plan(uint64_t *state, struct round *r)
{
    static const enum data_type types[] = {DATA_fp32, DATA_bf16, DATA_bf16, DATA_fp16, DATA_fp8};
    struct keys k = {.path = "random"};
    struct setup s = {.keys = &k};
    r->a = random_architecture(state);
    r->c = (struct architecture_choice){.tokens = 128 << random_below(state, 3),
                                        .dtype = types[random_below(state, 5)],
                                        .flash = random_below(state, 4) > 0};
    random_setup(state, &r->a, &s);
    if (r->f == &dialect_deepspeed && is_beyond_json(&s) && *state % 8 > 0) {
        keys_free(&k);
        return STATUS_UNSUPPORTED;
    }
    assert_int_equal(architecture_build(&r->a, &r->c, "random", &r->m), STATUS_OK);
    setup_set_sums(&s, random_below(state, 2) ? 32 : 8 * r->m.element_bytes);
    /* the cut by Megatron's own way of saying it, which is a test of its own below */
    assert_int_equal(setup_write_layout(&s, &s.words.stages.layout), STATUS_OK);
    enum status st = setup_to_plan(&s, &r->m, r->t, &r->p);
    keys_free(&k);
    return st;
}

/* The plan in the framework's file; STATUS_UNSUPPORTED: what it cannot say. */
static enum status write_plan(struct round *r)
{
    enum status st;
    struct file_text f = {0};
    r->there = (struct keys){.path = "plan"};
    r->out = (struct setup){.keys = &r->there};
    TRY(setup_of_plan(&r->p, &r->m, r->t, &r->out));
    r->out.tokens = r->c.tokens;
    assert_true(setup_of_architecture(&r->a, &r->c, &r->out));
    TRY(setup_express(&r->out, r->f));
    TRY(file_text_open(&f));
    r->f->write(&r->out, "a random plan", f.stream);
    TRY(file_text_close(&f, STATUS_OK));
    r->text = f.text;
out:
    return st;
}

static void assert_same_model(const struct model *a, const struct model *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->op[i].name, b->op[i].name);
        assert_int_equal(a->op[i].parameter_bytes, b->op[i].parameter_bytes);
        assert_int_equal(a->op[i].stash_bytes, b->op[i].stash_bytes);
        assert_true(a->op[i].forward_flop == b->op[i].forward_flop);
        assert_int_equal(a->op[i].dtype, b->op[i].dtype);
    }
    assert_int_equal(a->dtype, b->dtype);
}

static void assert_alike(const struct strategy_knob *differs)
{
    if (differs)
        fail_msg("%s differs", differs->name);
}

static void assert_same_stage(const struct plan_stage *a, const struct plan_stage *b)
{
    assert_int_equal(a->ops, b->ops);
    assert_memory_equal(a->op, b->op, a->ops * sizeof *a->op);
    assert_int_equal(a->devices, b->devices);
    assert_memory_equal(a->device, b->device, a->devices * sizeof *a->device);
    assert_alike(strategy_differs(STRATEGY_STAGE, UINT64_MAX, &a->own, &b->own));
}

/* `buckets`: the framework says their size; `gathers`: it always gathers keys and values. */
static void assert_same_plan(const struct plan *a, const struct plan *b, bool buckets, bool gathers)
{
    assert_int_equal(a->stages, b->stages);
    for (size_t k = 0; k < a->stages; k++)
        assert_same_stage(&a->stage[k], &b->stage[k]);
    if (a->stages > 1)
        assert_string_equal(a->schedule, b->schedule);
    assert_string_equal(a->optimizer, b->optimizer);
    assert_int_equal(a->microbatches, b->microbatches);
    assert_int_equal(a->microbatch_size, b->microbatch_size);
    uint64_t set = buckets ? UINT64_MAX : ~KNOB_BIT(bucket_bytes);
    set &= gathers ? ~KNOB_BIT(context_exchange) : UINT64_MAX;
    assert_alike(strategy_differs(STRATEGY_PLAN, set, &a->shared, &b->shared));
}

/* Read what was written, with nothing else: degrees, batch and, where the file has them, sizes. */
static void read_back(struct round *r, bool sizes)
{
    static const char *const paths[] = {"plan.sh", "plan.yaml", "plan.toml", "plan.json"};
    bool script = r->f == &dialect_megatron || r->f == &dialect_torchtitan;
    const char *path = script                             ? paths[0]
                       : r->f == &dialect_nemo            ? paths[1]
                       : r->f == &dialect_torchtitan_toml ? paths[2]
                                                          : paths[3];
    struct plan p = {0};
    struct model m = {0};
    struct architecture a;
    const struct dialect *f;
    r->back = (struct keys){0};
    r->in = (struct setup){.keys = &r->back};
    if (keys_parse(path, r->text, strlen(r->text), &r->back) != STATUS_OK ||
        dialect_recognise(&r->back, &f) != STATUS_OK || f != r->f ||
        setup_read(&r->in, r->f->row, r->f->rows) != STATUS_OK ||
        r->f->after(&r->in) != STATUS_OK ||
        setup_settle(&r->in, sizes ? 0 : r->out.devices) != STATUS_OK)
        fail_msg("%s of\n%s", error_message(), r->text);
    if (sizes) {
        struct architecture_choice c = {.tokens = r->in.tokens,
                                        .dtype = (enum data_type)r->in.dtype,
                                        .flash = !r->in.plain_attention};
        assert_int_equal(setup_architecture(&r->in, &a), STATUS_OK);
        assert_int_equal(architecture_build(&a, &c, "random", &m), STATUS_OK);
        assert_same_model(&r->m, &m);
        model_free(&m);
    }
    if (setup_to_plan(&r->in, &r->m, r->t, &p) != STATUS_OK)
        fail_msg("%s of\n%s", error_message(), r->text);
    bool sharded = r->p.zero == 1 || r->p.zero == 2;
    assert_same_plan(&r->p, &p,
                     r->f == &dialect_megatron || r->f == &dialect_nemo ||
                         (r->f == &dialect_deepspeed && sharded),
                     r->f == &dialect_torchtitan);
    plan_free(&p);
}

static void end_round(struct round *r)
{
    free(r->text);
    plan_free(&r->p);
    model_free(&r->m);
    keys_free(&r->there);
    keys_free(&r->back);
    r->text = NULL;
}

/* Seeds 1, 2, ... until so many plans have been said; `sizes`: the file has the model's. */
static void round_trips(const struct dialect *f, bool sizes)
{
    struct topology t = {0};
    char *path = NULL;
    size_t said = 0, refused = 0;
    assert_int_equal(load_topology("rail:nodes=8,gpus=8,type=H100", &t, &path), STATUS_OK);
    assert_int_equal(topology_find_nodes(&t), STATUS_OK);
    for (uint64_t seed = 1; said < PLANS && seed < 100 * PLANS; seed++) {
        struct round r = {.f = f, .t = &t};
        uint64_t state = seed;
        enum status st = make_plan(&state, &r);
        if (st == STATUS_OK && (st = write_plan(&r)) == STATUS_OK) {
            read_back(&r, sizes);
            said++;
        } else {
            if (st != STATUS_UNSUPPORTED && st != STATUS_INVALID)
                fail_msg("seed %llu: %s", (unsigned long long)seed, error_message());
            refused++;
        }
        end_round(&r);
    }
    print_message("%s: %zu plans written and read again, %zu refused\n", f->name, said, refused);
    assert_int_equal(said, PLANS);
    free(path);
    topology_free(&t);
}

/* A plan that sends its tensors in parts, for which no framework has an argument. */
static void knobs_without_an_argument_are_noted(void **state)
{
    struct topology t = {0};
    char *path = NULL;
    size_t noted = 0;
    assert_int_equal(load_topology("rail:nodes=8,gpus=8,type=H100", &t, &path), STATUS_OK);
    assert_int_equal(topology_find_nodes(&t), STATUS_OK);
    for (uint64_t seed = 1; noted < 10 && seed < PLANS; seed++) {
        struct round r = {.f = &dialect_megatron, .t = &t};
        uint64_t drawn = seed;
        bool found = false;
        enum status st = make_plan(&drawn, &r);
        bool parts = st == STATUS_OK && r.p.stages > 1 && r.p.stage[0].tensor_parallel > 1;
        r.p.sequence_parallel = r.p.tensor_overlap = false;
        r.p.p2p_scatter = parts;
        if (parts && write_plan(&r) == STATUS_OK) {
            for (size_t i = 0; i < r.out.notes; i++)
                found = found || strstr(r.out.note[i].text, "--p2p-scatter");
            assert_true(found);
            noted++;
        }
        end_round(&r);
    }
    assert_int_equal(noted, 10);
    free(path);
    topology_free(&t);
}

static void plans_to_megatron_and_back_are_equal(void **state)
{
    round_trips(&dialect_megatron, true);
}

static void plans_to_nemo_and_back_are_equal(void **state)
{
    round_trips(&dialect_nemo, false); /* it cannot say all sizes */
}

static void plans_to_torchtitan_and_back_are_equal(void **state)
{
    round_trips(&dialect_torchtitan, false);
}

static void plans_to_torchtitans_toml_and_back_are_equal(void **state)
{
    round_trips(&dialect_torchtitan_toml, false);
}

static void plans_to_deepspeed_and_back_are_equal(void **state)
{
    round_trips(&dialect_deepspeed, false);
}

/* ---- scripts */

/* The value of a key of the script; "?": none, "!": the key is there without a value. */
static const char *value_of(const char *script, const char *name)
{
    static char text[256];
    struct keys k = {0};
    const char *value;
    if (keys_parse("a.sh", script, strlen(script), &k) != STATUS_OK) {
        snprintf(text, sizeof text, "%s", error_message());
    } else {
        struct framework_key *key = keys_find(&k, name);
        snprintf(text, sizeof text, "%s", !key ? "?" : !key->text ? "!" : key->text);
        if (key && key->text && keys_text(&k, key, &value) != STATUS_OK)
            snprintf(text, sizeof text, "%s", error_message());
    }
    keys_free(&k);
    return text;
}

#define RUN "\ntorchrun pretrain_gpt.py --num-layers 2 "

static void scripts_are_followed_as_a_shell_would(void **state)
{
    assert_string_equal(value_of("A=4" RUN "--x $A", "x"), "4");
    assert_string_equal(value_of("A=4\nB=\"${A}b\"" RUN "--x ${B}", "x"), "4b");
    assert_string_equal(value_of("" RUN "--x ${C:-7} --y", "x"), "7");
    assert_string_equal(value_of("" RUN "--x ${C:-7} --y", "y"), "!");
    assert_string_equal(value_of("A=4; B=3" RUN "--x $((A*$B+1))", "x"), "13");
    assert_string_equal(value_of("A=7" RUN "--x $(( (A - 1) / 2 % 2 ))", "x"), "1");
    assert_string_equal(value_of("A=(--x 1 \\\n --y 2)" RUN "${A[@]}", "y"), "2");
    assert_string_equal(value_of("A=(--x 1)\nA+=(--y '2 3')" RUN "\"${A[@]}\"", "y"), "2 3");
    assert_string_equal(value_of("A='--x 1'\nA=\"$A --x 2\"" RUN "$A", "x"), "2");
    assert_string_equal(value_of("A='--x 5' # --x 6" RUN "$A", "x"), "5");
    assert_string_equal(value_of("A=1\nif [ $A -gt 2 ]; then B=1; else B=2; fi" RUN "--x $B", "x"),
                        "2");
    assert_string_equal(
        value_of("A=b\nif [[ $A == c || $A == b ]]; then\n B=1\nfi" RUN "--x $B", "x"), "1");
    assert_string_equal(
        value_of("A=b\ncase $A in\na) B=1;;\nb|c) B=2;;\n*) B=3;;\nesac" RUN "--x $B", "x"), "2");
    assert_string_equal(value_of("for A in 3 4; do B=$A; done" RUN "--x $B", "x"), "3");
    assert_string_equal(value_of("[ -z \"$A\" ] && A=9" RUN "--x $A", "x"), "9");
    assert_string_equal(value_of("A=1\n[ -z \"$A\" ] && A=9" RUN "--x $A", "x"), "1");
    assert_string_equal(value_of("cat <<EOF\n--x 3\nA=4\nEOF\nB=5" RUN "--x $B", "x"), "5");
    assert_string_equal(value_of("CMD=\"pretrain_gpt.py --num-layers 2 --x 8\"\n"
                                 "bash -c \"torchrun $CMD\"",
                                 "x"),
                        "8");
    assert_string_equal(value_of("ARGS=\"--num-layers 2 --x 8\"\nsubmit", "x"), "8");
}

static void gaps_are_named_where_they_are_needed(void **state)
{
    assert_message(value_of("" RUN "--x $MBS", "x"), "a.sh:2 'MBS' file --set MBS=VALUE");
    assert_non_null(strstr(value_of("" RUN "--x $(nproc)", "x"), "the output of a command"));
    assert_non_null(strstr(value_of("A='", "x"), "not closed"));
    assert_non_null(strstr(value_of("A=(1 2", "x"), "not closed"));
}

static void layouts_are_stages_of_layers(void **state)
{
    struct keys k = {.path = "a"};
    struct setup s = {.keys = &k};
    assert_int_equal(setup_read_layout(&s, "Et*3|(tt|)*2,t*4L"), STATUS_OK);
    assert_int_equal(s.stages, 4);
    const int64_t cut[] = {3, 2, 2, 4};
    assert_memory_equal(s.cut, cut, sizeof cut);
    assert_int_equal(setup_read_layout(&s, "E|t|ttmL"), STATUS_OK);
    assert_int_equal(s.stages, 3);
    assert_int_equal(s.cut[0], 0);
    assert_int_equal(setup_read_layout(&s, "Et|x"), STATUS_PARSE);
    assert_int_equal(setup_read_layout(&s, "(t(t|)*2)*2"), STATUS_PARSE);
    assert_int_equal(setup_read_layout(&s, "(t|)*99999999"), STATUS_PARSE);
    keys_free(&k);
}

static void keep_value(void *to, const struct setup_row *row, const char *value, bool text)
{
    (void)row;
    (void)text;
    snprintf(to, 32, "%s", value);
}

/* Rows take the type of the knob, a real number too. */
static void rows_of_reals_are_read_and_written(void **state)
{
    static const struct setup_row row[] = {ROW_NUMBER("", "imbalance", expert_imbalance, 0)};
    static const struct {
        const char *text;
        double value;
    } all[] = {{"1.25", 1.25}, {"3", 3}, {"-1", -1}, {"x", -1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct keys k = {.path = "reals"};
        struct setup s = {.keys = &k};
        char written[32] = "";
        assert_int_equal(keys_add(&k, "imbalance", all[i].text, 1), STATUS_OK);
        assert_int_equal(setup_read(&s, row, 1), all[i].value < 0 ? STATUS_PARSE : STATUS_OK);
        assert_true(all[i].value < 0 || s.expert_imbalance == all[i].value);
        setup_write(&s, row, 1, keep_value, written);
        assert_string_equal(written, all[i].value < 0 ? "" : all[i].text);
        keys_free(&k);
    }
}

static void names_of_models_are_known_by_other_names(void **state)
{
    struct keys k = {.path = "a"};
    struct setup s = {.keys = &k};
    assert_string_equal(setup_model_of(&s, "meta-llama/Meta-Llama-3.1-8B"), "llama3-8b");
    assert_string_equal(setup_model_of(&s, "llama3-70B"), "llama3-70b");
    assert_string_equal(setup_model_of(&s, "deepseek_v3-671B"), "deepseek-v3");
    assert_string_equal(setup_model_of(&s, "Qwen/Qwen3-8B"), "qwen3-8b");
    assert_null(setup_model_of(&s, "llama4-17bx128e"));
    keys_free(&k);
}

static enum status read_small(const char *text)
{
    struct keys k = {0};
    struct setup s = {.keys = &k};
    enum status st = keys_parse("a.sh", text, strlen(text), &k);
    if (st == STATUS_OK)
        st = setup_read(&s, dialect_megatron.row, dialect_megatron.rows);
    if (st == STATUS_OK)
        st = dialect_megatron.after(&s);
    if (st == STATUS_OK)
        st = setup_settle(&s, 0);
    keys_free(&k);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    FOR_EACH_ALLOC_FAILURE(
        read_small("GPUS_PER_NODE=8\nNNODES=2\nA=(--tensor-model-parallel-size $((4*2)))" RUN
                   "${A[@]} --hidden-size 64 --global-batch-size ${B:-16}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_to_megatron_and_back_are_equal),
        cmocka_unit_test(plans_to_nemo_and_back_are_equal),
        cmocka_unit_test(plans_to_torchtitan_and_back_are_equal),
        cmocka_unit_test(plans_to_torchtitans_toml_and_back_are_equal),
        cmocka_unit_test(plans_to_deepspeed_and_back_are_equal),
        cmocka_unit_test(knobs_without_an_argument_are_noted),
        cmocka_unit_test(scripts_are_followed_as_a_shell_would),
        cmocka_unit_test(gaps_are_named_where_they_are_needed),
        cmocka_unit_test(layouts_are_stages_of_layers),
        cmocka_unit_test(rows_of_reals_are_read_and_written),
        cmocka_unit_test(names_of_models_are_known_by_other_names),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
