/* rules: each refuses a plan and lets one beside it pass, alike as options, as a plan file,
 * which says the line, and where a run asks; what has no effect leaves the predicted time as it
 * is. */
#include "core/data/rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/lower/lower.h"
#include "study/planning.h"
#include "study/point.h"
#include "tests/cmocka.h"

static const char moe[] = "mixtral-8x7b:layers=2,dtype=fp32",
                  dropping[] = "mixtral-8x7b:layers=2,dtype=fp32,capacity=125";

/* Options of a plan, those that break the rule on it, and of a plan beside it. */
static const struct row {
    enum rule_id rule;
    const char *model;
    const char *plan, *breaks, *beside;
    enum { ALL, FILES, OPTIONS, RUNS } only;
} rows[] = {
    {RULE_zero_needs_replicas, NULL, "--stages 2", "--zero 1", "--stages 1 --replicas 2 --zero 1",
     ALL},
    {RULE_keep_needs_zero, NULL, "--stages 1 --replicas 2 --zero 2", "--zero-keep",
     "--stages 1 --replicas 2 --zero 3 --zero-keep", ALL},
    {RULE_keep_needs_buckets, NULL, "--stages 2 --replicas 2 --zero 1", "--zero-keep",
     "--stages 2 --replicas 2 --zero 1 --zero-keep --bucket 100KiB", ALL},
    {RULE_keep_needs_buckets, NULL, "--stages 1 --replicas 2 --zero 1", "--zero-keep",
     "--stages 1 --replicas 2 --zero 1 --zero-keep --bucket 100KiB", ALL},
    {RULE_group_needs_zero, NULL, "--stages 1 --replicas 4", "--zero-group 2",
     "--stages 1 --replicas 4 --zero 1 --zero-group 2", ALL},
    {RULE_group_divides_replicas, NULL, "--stages 1 --replicas 4 --zero 1", "--zero-group 3",
     "--stages 1 --replicas 4 --zero 1 --zero-group 2", ALL},
    {RULE_bucket_needs_replicas, NULL, "--stages 2", "--bucket 100KiB",
     "--stages 1 --replicas 2 --bucket 100KiB", ALL},
    {RULE_bucket_needs_whole_backwards, NULL, "--stages 2 --replicas 2 --schedule zb-h1",
     "--bucket 100KiB", "--stages 2 --replicas 2 --bucket 100KiB", ALL},
    {RULE_bucket_needs_whole_backwards, NULL, "--stages 2 --replicas 2 --schedule pipedream",
     "--bucket 100KiB", "--stages 2 --replicas 2 --zero 2 --bucket 100KiB", ALL},
    {RULE_sums_need_somebody, NULL, "--stages 2", "--reduce-dtype bf16",
     "--stages 1 --replicas 2 --reduce-dtype bf16", ALL},
    {RULE_sequence_needs_shards, NULL, "--stages 2", "--sequence-parallel",
     "--stages 2 --tensor-parallel 2 --sequence-parallel", ALL},
    {RULE_overlap_needs_sequence, NULL, "--stages 2 --tensor-parallel 2", "--tensor-overlap",
     "--stages 2 --tensor-parallel 2 --sequence-parallel --tensor-overlap", ALL},
    {RULE_scatter_with_sequence, NULL, "--stages 2 --tensor-parallel 2 --sequence-parallel",
     "--p2p-scatter", "--stages 2 --tensor-parallel 2 --p2p-scatter", ALL},
    {RULE_scatter_needs_shards, NULL, "--stages 2", "--p2p-scatter",
     "--stages 2 --tensor-parallel 2 --p2p-scatter", ALL},
    {RULE_scatter_needs_stages, NULL, "--stages 1 --tensor-parallel 2", "--p2p-scatter",
     "--stages 2 --tensor-parallel 2 --p2p-scatter", ALL},
    {RULE_experts_divide_replicas, moe, "--stages 1 --replicas 3 --microbatches 3",
     "--expert-parallel 2", "--stages 1 --replicas 2 --expert-parallel 2", ALL},
    {RULE_experts_divide_experts, moe, "--stages 1 --replicas 3 --microbatches 3",
     "--expert-parallel 3", "--stages 1 --replicas 2 --expert-parallel 2", ALL},
    {RULE_experts_need_experts, NULL, "--stages 1 --replicas 2", "--expert-parallel 2",
     "--stages 1 --replicas 2", ALL},
    {RULE_imbalance_needs_experts, moe, "--stages 1 --replicas 2", "--expert-imbalance 1.5",
     "--stages 1 --replicas 2 --expert-parallel 2 --expert-imbalance 1.5", ALL},
    {RULE_context_divides_replicas, NULL, "--stages 1 --replicas 3 --microbatches 3",
     "--context-parallel 2", "--stages 1 --replicas 2 --context-parallel 2", ALL},
    {RULE_exchange_needs_context, NULL, "--stages 1 --replicas 2", "--context-exchange allgather",
     "--stages 1 --replicas 2 --context-parallel 2 --context-exchange allgather", ALL},
    {RULE_layers_need_full, NULL, "--stages 2", "--recompute-layers 1",
     "--stages 2 --recompute full --recompute-layers 1", ALL},
    {RULE_layers_beyond_stages, NULL, "--stages 2 --recompute full", "--recompute-layers 99",
     "--stages 2 --recompute full --recompute-layers 2", ALL},
    {RULE_modules_need_selective, NULL, "--stages 2 --recompute full", "--recompute-modules mlp",
     "--stages 2 --recompute selective --recompute-modules mlp", ALL},
    {RULE_depth_needs_no_flush, NULL, "--stages 2", NULL, "--stages 2 --schedule pipedream", FILES},
    {RULE_chunks_need_schedule, NULL, "--stages 4 --schedule 1f1b", "--chunks 2",
     "--stages 4 --schedule interleaved --chunks 2", OPTIONS},
    {RULE_vee_needs_two_chunks, NULL, "--stages 4 --schedule zb-v", "--chunks 4",
     "--stages 4 --schedule zb-v --chunks 2", OPTIONS},
    {RULE_vee_needs_even_stages, NULL, "--schedule zb-v", "--stages 3",
     "--stages 4 --schedule zb-v", OPTIONS},
    {RULE_crossed_needs_pairs, NULL, "--stages 2 --schedule dualpipe", "--replicas 3",
     "--stages 2 --schedule dualpipe --replicas 2", OPTIONS},
    {RULE_no_flush_no_zero, NULL, "--stages 2 --replicas 2 --schedule pipedream", "--zero 1",
     "--stages 2 --replicas 2 --zero 1", ALL},
    {RULE_no_flush_no_offload, NULL, "--stages 2 --schedule pipedream", "--offload optimizer",
     "--stages 2 --offload optimizer", ALL},
    {RULE_run_overlap, NULL, "--stages 2 --tensor-parallel 2 --sequence-parallel",
     "--tensor-overlap", "--stages 2 --tensor-parallel 2 --sequence-parallel", ALL},
    {RULE_run_offload, NULL, "--stages 2", "--offload optimizer", "--stages 2", ALL},
    {RULE_run_moe_act, moe, "--stages 2 --recompute selective", "--recompute-modules moe_act",
     "--stages 2 --recompute selective --recompute-modules core_attn", ALL},
    {RULE_run_norms, NULL, "--stages 1 --replicas 2 --zero 3 --recompute selective",
     "--recompute-modules layernorm",
     "--stages 1 --replicas 2 --zero 2 --recompute selective --recompute-modules layernorm ", ALL},
    {RULE_run_experts_without_flush, moe, "--stages 2 --replicas 2 --schedule pipedream",
     "--expert-parallel 2", "--stages 2 --replicas 2 --expert-parallel 2", ALL},
    {RULE_run_halves_again, NULL, "--stages 2 --schedule zb-h1", "--recompute full",
     "--stages 2 --recompute full", ALL},
    {RULE_run_ties_of_chunks, "gpt2-small:layers=4,tokens=64",
     "--stages 4 --chunks 2 --replicas 2 --schedule zb-v", "--zero 2",
     "--stages 2 --replicas 2 --zero 1", RUNS},
    {RULE_run_dropped_tokens, dropping, "--stages 1 --replicas 2", "--context-parallel 2",
     "--stages 1 --replicas 2", RUNS},
    {RULE_run_dropped_rows, dropping,
     "--stages 1 --replicas 2 --tensor-parallel 2 --sequence-parallel", "--expert-parallel 2",
     "--stages 1 --replicas 2 --tensor-parallel 2 --expert-parallel 2", RUNS},
};

static const char balanced[] = "--algorithm balanced";
enum { ROWS = sizeof rows / sizeof *rows };

struct world {
    struct topology topology;
    struct model model;
    char *platform;
    char file[32];
};

static struct arguments parse(const char *how, const char *first, const char *second,
                              char text[400])
{
    struct arguments a = arguments_defaults(settings_takers("plan"));
    char *word[40];
    snprintf(text, 400, "%s %s %s", how, first, second ? second : "");
    int n = (int)text_split(text, " ", word, 40);
    assert_int_equal(arguments_parse(&a, settings_takers("plan"), &n, word), STATUS_OK);
    a.platform = "laptop";
    return a;
}

/* As `foreline plan` asks: what was given, then of the model. */
static enum status ask(const struct world *w, struct arguments *a)
{
    PASS(plan_check_given(a));
    PASS(plan_settle(a));
    PASS(plan_check_model(a, &w->model));
    return plan_check_sums(a, &w->model);
}

static void make(const struct world *w, const char *options, struct plan *out)
{
    char text[400];
    struct arguments a = parse(balanced, options, NULL, text);
    a.model = w->model.name;
    if (ask(w, &a) != STATUS_OK || plan_by_algorithm(&a, &w->model, &w->topology, out) != STATUS_OK)
        fail_msg("%s: %s", options, error_message());
}

/* The knobs that the words say, in all stages; without words a depth. */
static void put(struct plan *p, const char *words)
{
    char text[400];
    const struct arguments a = parse(balanced, words ? words : "", NULL, text);
    for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        if (!(a.chosen >> i & 1))
            continue;
        if (k->scope == STRATEGY_PLAN)
            strategy_put(k, strategy_get(k, &a.shared), &p->shared);
        for (size_t s = 0; s < p->stages && k->scope == STRATEGY_STAGE; s++)
            strategy_put(k, strategy_get(k, &a.own), &p->stage[s].own);
    }
    for (size_t s = 0; s < p->stages && !words; s++)
        p->stage[s].depth = 2;
}

/* What reading says: STATUS_PARSE, or warnings; both with file and line. */
static enum status reread(struct world *w, const struct plan *p, char **warnings)
{
    enum status st;
    struct json_document d = {0};
    struct plan back = {0};
    size_t size;
    FILE *out = open_memstream(warnings, &size);
    const struct provenance by = {.version = foreline_version, .command = "test"};
    TRY(plan_write(p, &w->model, &w->topology, w->file, &by));
    TRY(json_read(w->file, plan_format, PLAN_VERSION, &d));
    TRY(plan_read(&d, &w->model, &w->topology, &back));
    TRY(plan_warn(&d, &back, &w->model, out));
out:
    fclose(out);
    plan_free(&back);
    json_document_free(&d);
    return st;
}

static double seconds(const struct world *w, const struct plan *p)
{
    const struct evaluation_context c = {.model = &w->model, .topology = &w->topology};
    struct evaluation e;
    assert_int_equal(evaluate_once(&c, p, &e), STATUS_OK);
    return e.iteration_s;
}

static enum status run(const struct world *w, const struct plan *p)
{
    struct program program = {0};
    char refused[EVALUATION_REFUSED];
    assert_int_equal(plan_lower(p, &w->model, &w->topology, &program), STATUS_OK);
    enum status st = point_runs("cpu", &w->model, p, &program, refused);
    program_free(&program);
    return st;
}

static bool runs_only(const struct row *r)
{
    return rule_table[r->rule].kind == RULE_NOT_RUN ||
           rule_table[r->rule].kind == RULE_NOT_COMPUTED;
}

/* The rule's words behind its first name, as options say them. */
static bool says(const struct row *r, const char *message)
{
    const char *tail = strrchr(rule_table[r->rule].message, '}');
    return strstr(message, tail + 1) != NULL;
}

static void check_options(const struct world *w, const struct row *r)
{
    const char *how = runs_only(r) ? "--executable" : balanced;
    char text[400];
    struct arguments wrong = parse(how, r->plan, r->breaks, text);
    if (ask(w, &wrong) == STATUS_OK || !says(r, error_message()))
        fail_msg("%s: %s %s is not refused", rule_table[r->rule].name, r->plan, r->breaks);
    struct arguments beside = parse(how, r->beside, NULL, text);
    if (ask(w, &beside) != STATUS_OK)
        fail_msg("%s: %s: %s", rule_table[r->rule].name, r->beside, error_message());
}

static void check_files(struct world *w, const struct row *r)
{
    struct plan plain = {0}, wrong = {0}, beside = {0};
    const struct rule *rule = &rule_table[r->rule];
    char *warnings, line[64];
    snprintf(line, sizeof line, "%s:", strrchr(w->file, '/') + 1);
    make(w, r->plan, &plain);
    make(w, r->beside, &beside);
    assert_int_equal(plan_copy(&plain, &wrong), STATUS_OK);
    put(&wrong, r->breaks);
    enum status st = reread(w, &wrong, &warnings);
    const char *said = rule->kind == RULE_IMPOSSIBLE ? error_message() : warnings;
    bool told = says(r, said) && strstr(said, line);
    if ((st == STATUS_PARSE) != (rule->kind == RULE_IMPOSSIBLE) || told == runs_only(r))
        fail_msg("%s: the file of %s %s: %d, '%s'", rule->name, r->plan, r->breaks, (int)st, said);
    free(warnings);
    if (reread(w, &beside, &warnings) != STATUS_OK || *warnings)
        fail_msg("%s: the file of %s: '%s'", rule->name, r->beside, warnings);
    free(warnings);
    const double same = 1e-12; /* the same seconds are added in another order */
    const struct plan *as = rule->kind == RULE_CLAMPED ? &beside : &plain;
    if ((rule->kind & (RULE_NO_EFFECT | RULE_CLAMPED)) &&
        fabs(seconds(w, as) - seconds(w, &wrong)) > same * seconds(w, as))
        fail_msg("%s: has an effect: %s %s: %.17g, %.17g s", rule->name, r->plan, r->breaks,
                 seconds(w, &plain), seconds(w, &wrong));
    plan_free(&plain);
    plan_free(&wrong);
    plan_free(&beside);
}

/* Refused in this process, before there is a worker. */
static void check_runs(const struct world *w, const struct row *r)
{
    struct plan wrong = {0}, beside = {0};
    make(w, r->plan, &wrong);
    make(w, r->beside, &beside);
    put(&wrong, r->breaks);
    if (run(w, &wrong) == STATUS_OK)
        fail_msg("%s: %s %s runs", rule_table[r->rule].name, r->plan, r->breaks);
    if (run(w, &beside) != STATUS_OK)
        fail_msg("%s: %s: %s", rule_table[r->rule].name, r->beside, error_message());
    plan_free(&wrong);
    plan_free(&beside);
}

static void every_rule_refuses_one_plan_and_passes_one_beside_it(void **state)
{
    struct world w = {.file = "/tmp/rules-XXXXXX"};
    bool tried[RULES] = {false};
    close(mkstemp(w.file));
    assert_int_equal(load_topology("laptop", &w.topology, &w.platform), STATUS_OK);
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        assert_int_equal(load_model(r->model ? r->model : "gpt-tiny", &w.model), STATUS_OK);
        tried[r->rule] = true;
        if (r->only == ALL || r->only == OPTIONS)
            check_options(&w, r);
        if (r->only == ALL || r->only == FILES)
            check_files(&w, r);
        if (runs_only(r))
            check_runs(&w, r);
        model_free(&w.model);
    }
    for (size_t i = 0; i < RULES; i++)
        if (!tried[i])
            fail_msg("%s is not tried", rule_table[i].name);
    unlink(w.file);
    topology_free(&w.topology);
    free(w.platform);
}

/* Where anything is undecided that a rule reads, it says nothing. */
static void what_is_open_breaks_no_rule(void **state)
{
    const struct strategy shared = {
        .zero = 1, .tensor_overlap = true, .offload = OFFLOAD_OPTIMIZER};
    const struct strategy_stage own = {.replicas = 1, .tensor_parallel = 1};
    struct rule_view v = {.open = UINT64_MAX, .shared = &shared, .n = 1, .own = (const char *)&own};
    assert_null(rules_broken(&v, UINT32_MAX, NULL));
    v.open = ~KNOB_BIT(offload);
    assert_ptr_equal(rules_broken(&v, UINT32_MAX, NULL), &rule_table[RULE_run_offload]);
    assert_null(rules_broken(&v, RULE_IMPOSSIBLE | RULE_NO_EFFECT, NULL));
}

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)*state * n) >> 32);
}

/* Is there a broken rule whose message is about the knob first? */
static bool has_broken_rule(const struct rule_view *v, const struct strategy_knob *k)
{
    for (int i = 0; i < RULES; i++)
        if (rule_subject(&rule_table[i]) == k && rule_is_broken(v, (enum rule_id)i))
            return true;
    return false;
}

/* strategy_settle() and the rules agree: what it leaves out of a decided strategy means nothing by
 * some rule (unless it is as good as nothing: an imbalance or a unit of 1), and twice is once. */
static void what_is_settled_away_breaks_a_rule(void **state)
{
    uint32_t random = 7;
    size_t left_out = 0;
    for (int trial = 0; trial < 20000; trial++) {
        struct strategy shared = {.zero = random_below(&random, 4),
                                  .zero_keep = random_below(&random, 2),
                                  .zero_group = 2 * random_below(&random, 2),
                                  .sequence_parallel = random_below(&random, 2),
                                  .tensor_overlap = random_below(&random, 2),
                                  .p2p_scatter = random_below(&random, 2),
                                  .context_exchange = random_below(&random, EXCHANGE_KINDS)};
        struct strategy_stage own = {.replicas = 4,
                                     .tensor_parallel = 1 + random_below(&random, 2),
                                     .expert_parallel = 1,
                                     .context_parallel = 1 + random_below(&random, 2),
                                     .recompute = random_below(&random, RECOMPUTE_KINDS),
                                     .recompute_layers = random_below(&random, 3),
                                     .recompute_unit = 1 + random_below(&random, 2),
                                     .recompute_modules = random_below(&random, 2)};
        const struct rule_view v = {.open = ~((UINT64_C(1) << STRATEGY_KNOBS) - 1),
                                    .shared = &shared,
                                    .n = 1,
                                    .own = (const char *)&own,
                                    .facts = {.said = strategy_unusual(&shared, &own)}};
        struct strategy settled = shared, twice;
        struct strategy_stage stage = own, again;
        strategy_settle(&settled, &stage);
        for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS;
             k++) {
            double before = strategy_value(k, &shared, &own),
                   after = strategy_value(k, &settled, &stage);
            bool gone = before > after;
            assert_true(after == before || after <= k->usual);
            left_out += gone;
            /* layers and units have one rule, overlap needs what needs shards */
            bool of_another = !strcmp(k->name, "recompute_unit") ||
                              (!strcmp(k->name, "tensor_overlap") && own.tensor_parallel == 1);
            if (gone && !of_another && !has_broken_rule(&v, k))
                fail_msg("%s of %g is left out, and no rule says why", k->name, before);
        }
        twice = settled;
        again = stage;
        strategy_settle(&twice, &again);
        assert_null(strategy_differs(STRATEGY_PLAN, UINT64_MAX, &settled, &twice));
        assert_null(strategy_differs(STRATEGY_STAGE, UINT64_MAX, &stage, &again));
    }
    assert_true(left_out > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_refuses_one_plan_and_passes_one_beside_it),
        cmocka_unit_test(what_is_open_breaks_no_rule),
        cmocka_unit_test(what_is_settled_away_breaks_a_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
