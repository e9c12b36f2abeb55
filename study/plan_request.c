/* Arguments about a plan: are they possible together, the request to an algorithm that they make,
 * and whether a plan keeps them. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/error.h"
#include "core/data/rules.h"
#include "core/schedule/schedule.h"
#include "partition/partition.h"
#include "study/planning.h"

static bool is_auto(const struct arguments *a)
{
    return !a->algorithm || !strcmp(a->algorithm, "auto");
}

/* Is it said where stages begin? */
static bool by_hand(const struct arguments *a)
{
    return a->split_at || a->layers_per_stage > 0;
}

/* The objective of this project, and not one of a published tool. */
static bool is_pipeline(const struct arguments *a)
{
    return !a->objective || !strcmp(a->objective, "pipeline");
}

bool plan_is_by_campaign(const struct arguments *a)
{
    return a->objective && !strcmp(a->objective, "campaign");
}

/* The first that applies: a listing needs nothing, an explanation only its plan file, a published
 * objective its own inputs. Otherwise a plan is made, by an algorithm that is named, or by the
 * search. An objective without a taker of its own (0) is checked by its algorithm only. */
taker_set plan_takers(const struct arguments *a)
{
    char words[64];
    if (!is_auto(a) && !strcmp(a->algorithm, "list"))
        return TAKES(PLAN_LIST);
    if (a->search.explain)
        return TAKES(PLAN_EXPLAIN);
    if (is_pipeline(a))
        return by_hand(a) || !is_auto(a) ? TAKES(PLAN_CUT) : TAKES(PLAN_AUTO);
    snprintf(words, sizeof words, "--objective %.40s", a->objective);
    return settings_taker("plan", words) | (a->papers.score ? TAKES(PLAN_SCORE) : 0);
}

/* Whom the arguments ask: options of the algorithm `manual` are for it, also where it is not
 * named. */
static enum status request_algorithm(const struct arguments *a,
                                     const struct partition_algorithm **out)
{
    const char *name = !is_auto(a) ? a->algorithm : by_hand(a) ? "manual" : "auto";
    if (partition_find(name, out) != STATUS_OK)
        return error_context(STATUS_USAGE, "--algorithm");
    return STATUS_OK;
}

/* What only says something about the plan that an objective's solution becomes (-o), and the ways
 * in which it means something besides; all but a seed where the objective's algorithm simulates
 * plans. */
static enum status check_unwritten(const struct arguments *a, taker_set way)
{
    static const struct {
        const char *name;
        taker_set besides;
    } all[] = {{"platform", TAKES(PLAN_CPSC526) | TAKES(PLAN_HIDUP)},
               {"seed", TAKES(PLAN_CPSC526) | TAKES(PLAN_PLACEMENT) | TAKES(PLAN_HIDUP)},
               {"schedule", 0},
               {"optimizer", 0},
               {"microbatches", 0},
               {"microbatch-size", 0}};
    bool simulates = plan_is_on_devices(a);
    for (size_t i = 0; i < sizeof all / sizeof *all && !a->output; i++)
        if (!(all[i].besides & way) && arguments_given(a, all[i].name) &&
            (!simulates || !strcmp(all[i].name, "seed")))
            return error_set(STATUS_USAGE, "--%s needs -o FILE: it changes only the written plan",
                             all[i].name);
    return STATUS_OK;
}

/* What is asked of all stages, `own`, as rules look at it; model and layers are not known yet. */
static enum status request_view(const struct arguments *a, const struct partition_algorithm *al,
                                struct strategy_stage *own, struct rule_view *v)
{
    bool search = !al->cut;
    *own = strategy_at_least_usual(&a->own);
    *v = (struct rule_view){.open = KNOB_BIT(model) | KNOB_BIT(layers),
                            .shared = &a->shared,
                            .n = 1,
                            .own = (const char *)own,
                            .facts = {.said = a->chosen, .stages = a->stages, .chunks = a->chunks}};
    for (int i = 0; i < STRATEGY_KNOBS && search; i++)
        if (strategy_knobs[i].undecided)
            v->open |= UINT64_C(1) << i & ~a->chosen;
    if (!a->stages)
        v->open |= KNOB_BIT(stages);
    if (!a->chunks)
        v->open |= KNOB_BIT(chunks);
    if (a->schedule)
        PASS(schedule_find(a->schedule, &v->facts.schedule));
    else if (search)
        v->open |= KNOB_BIT(schedule);
    else
        PASS(schedule_find(schedule_usual(a->chunks > 1), &v->facts.schedule));
    if (v->facts.schedule && v->facts.schedule->crossed && !a->replicas)
        v->open |= KNOB_BIT(replicas);
    return STATUS_OK;
}

/* Replicas that share sequences count once, as in Megatron. */
static enum status settle_replicas(struct arguments *a)
{
    uint32_t context = a->context_parallel > 1 ? a->context_parallel : 1;
    size_t replicas = a->data_parallel * context;
    if (a->data_parallel == 0)
        return STATUS_OK;
    if (a->replicas > 0 && a->replicas != replicas)
        return error_set(STATUS_USAGE,
                         "--data-parallel %zu with --context-parallel %u makes %zu replicas, which "
                         "does not match --replicas %u",
                         a->data_parallel, context, replicas, a->replicas);
    if (replicas > STRATEGY_MOST)
        return error_set(STATUS_USAGE,
                         "--data-parallel %zu: expected at most %u replicas (--data-parallel x "
                         "--context-parallel)",
                         a->data_parallel, (unsigned)STRATEGY_MOST);
    a->replicas = (uint32_t)replicas;
    a->context_parallel = context;
    a->chosen |= KNOB_BIT(replicas) | KNOB_BIT(context_parallel);
    return STATUS_OK;
}

static enum status request_check_rules(const struct arguments *a,
                                       const struct partition_algorithm *al)
{
    struct rule_view v;
    struct strategy_stage own;
    char text[RULE_TEXT];
    struct arguments settled = *a;
    PASS(settle_replicas(&settled));
    PASS(request_view(&settled, al, &own, &v));
    const struct rule *broken = rules_broken(&v, RULES_OF_OPTIONS, NULL);
    if (broken)
        return error_set(STATUS_USAGE, "%s", rule_print(broken, &v, true, text));
    if (a->search.executable)
        broken = rules_broken(&v, RULE_NOT_RUN | RULE_NOT_COMPUTED, NULL);
    return broken ? error_set(STATUS_USAGE, "--executable: %s", rule_print(broken, &v, true, text))
                  : STATUS_OK;
}

/* Options that say something only beside others, whatever model and platform are. These are no
 * rules of plan_settle(): a grid of points may well have a corner in which one of its settings
 * means nothing. */
static enum status check_together(const struct arguments *a, const struct partition_algorithm *al)
{
    bool cut_by_hand = al == &partition_manual;
    struct framework issue = framework_of(NULL);
    if (a->framework && framework_parse(a->framework, &issue) != STATUS_OK)
        return error_context(STATUS_USAGE, "--framework");
    if (a->chunks > 1 && a->stages % a->chunks != 0)
        return error_set(
            STATUS_USAGE,
            "--stages %zu is not a multiple of --chunks %zu (--stages counts the chunks of all "
            "pipeline ranks). For %zu pipeline ranks of %zu chunks each, try --stages %zu",
            a->stages, a->chunks, a->stages, a->chunks, a->stages * a->chunks);
    const struct {
        bool wrong;
        const char *message;
    } all[] = {
        {a->search.executable && issue.by_kernel, "--executable plans run with foreline run, so "
                                                  "--framework must not name another framework"},
        {arguments_given(a, "seed") && !a->output && !a->json && !arguments_given(a, "jitter") &&
             !a->sim.paths,
         "--seed has no effect without -o, --json, --jitter or --paths"},
        {(arguments_given(a, "samples") || arguments_given(a, "rank-by")) &&
             !arguments_given(a, "jitter"),
         "--samples and --rank-by need --jitter"},
        {plan_is_by_campaign(a) && al->cut, "--objective campaign needs --algorithm auto"},
        {plan_is_by_campaign(a) && !(a->train_tokens > 0),
         "--objective campaign needs --train-tokens N, such as --train-tokens 15T"},
        {cut_by_hand && !a->split_at && !a->stages,
         "--algorithm manual needs --split-at, or --stages and perhaps --layers-per-stage"},
        {a->split_at && a->layers_per_stage > 0,
         "--split-at and --layers-per-stage cannot be combined"},
    };
    PASS(request_check_rules(a, al));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].wrong)
            return error_set(STATUS_USAGE, "%s", all[i].message);
    return STATUS_OK;
}

enum status plan_check_given(const struct arguments *a)
{
    const struct partition_algorithm *algorithm;
    taker_set way = plan_takers(a),
              named = TAKES(PLAN_AUTO) | TAKES(PLAN_CAMPAIGN) | TAKES(PLAN_CUT);
    PASS(arguments_check(a, way));
    if (!(way & named))
        return way & (TAKES(PLAN_LIST) | TAKES(PLAN_EXPLAIN)) ? STATUS_OK : check_unwritten(a, way);
    PASS(request_algorithm(a, &algorithm));
    for (size_t i = 0; i < settings_table_n; i++) {
        const struct setting *s = &settings_table[i];
        bool batch = !strcmp(s->name, "batch"); /* kept here, by plan_settle() */
        if ((s->takers & named) && !batch && arguments_given(a, s->name))
            PASS(partition_check_option(algorithm, s->name));
    }
    return check_together(a, algorithm);
}

/* --split-at says the algorithm and the number of stages, --layers-per-stage the algorithm. */
static enum status settle_split(struct arguments *a)
{
    const struct partition_algorithm *algorithm;
    size_t stages = a->split_at ? partition_split_stages(a->split_at) : 0;
    PASS(request_algorithm(a, &algorithm));
    if (!by_hand(a))
        return STATUS_OK;
    PASS(partition_check_option(algorithm, a->split_at ? "split-at" : "layers-per-stage"));
    a->algorithm = algorithm->name;
    if (!a->split_at)
        return STATUS_OK;
    if (a->stages && a->stages != stages)
        return error_set(STATUS_USAGE,
                         "--split-at makes %zu stages, which does not match --stages %zu", stages,
                         a->stages);
    a->stages = stages;
    return STATUS_OK;
}

/* batch = microbatches x microbatch size: what one of them leaves open follows from the others. A
 * search chooses by itself; other algorithms have microbatches of one sample. */
static enum status settle_batch(struct arguments *a)
{
    size_t size = a->microbatch_size, n = a->microbatches, batch = a->batch;
    size_t unit = (size ? size : 1) * (n ? n : 1);
    if (!batch)
        return STATUS_OK;
    if (size && n && batch != unit)
        return error_set(STATUS_USAGE, "--batch %zu does not match %zu microbatches of %zu samples",
                         batch, n, size);
    if (batch % unit != 0)
        return error_set(STATUS_USAGE, "--batch %zu is not a multiple of --%s %zu", batch,
                         n ? "microbatches" : "microbatch-size", unit);
    if (is_auto(a))
        return STATUS_OK;
    a->microbatch_size = size ? size : n ? batch / n : 1;
    a->microbatches = batch / a->microbatch_size;
    return STATUS_OK;
}

/* Every plan of a grid would break it silently. */
static enum status check_sequence(const struct arguments *a)
{
    const struct partition_algorithm *algorithm;
    struct strategy_stage own;
    struct rule_view v;
    char text[RULE_TEXT];
    PASS(request_algorithm(a, &algorithm));
    PASS(request_view(a, algorithm, &own, &v));
    return rule_is_broken(&v, RULE_sequence_needs_shards)
               ? error_set(STATUS_USAGE, "%s",
                           rule_print(&rule_table[RULE_sequence_needs_shards], &v, true, text))
               : STATUS_OK;
}

/* What is refused here could not be kept by any algorithm, whatever model and platform are. */
/* What is given, or what the schedule that is given cannot do without. */
static uint32_t request_chunks(const struct arguments *a)
{
    const struct schedule *s;
    bool vee = a->schedule && schedule_find(a->schedule, &s) == STATUS_OK && s->vee;
    return a->chunks || !vee ? (uint32_t)a->chunks : 2;
}

/* Ranks of a pipeline, and what each has, are stages, where chunks are given or not searched. */
static enum status settle_pipeline(struct arguments *a)
{
    size_t chunks = request_chunks(a);
    if (a->pipeline == 0 || (chunks == 0 && a->stages == 0 && is_auto(a)))
        return STATUS_OK;
    size_t stages = a->pipeline * (chunks > 0 ? chunks : 1);
    if (a->stages % a->pipeline != 0 || (chunks > 0 && a->stages > 0 && a->stages != stages))
        return error_set(STATUS_USAGE,
                         "--pipeline-parallel %zu with --chunks %zu makes %zu stages, which does "
                         "not match --stages %zu",
                         a->pipeline, chunks > 0 ? chunks : 1, stages, a->stages);
    a->stages = a->stages > 0 ? a->stages : stages;
    return STATUS_OK;
}

enum status plan_settle(struct arguments *a)
{
    PASS(settle_replicas(a));
    PASS(settle_split(a));
    PASS(settle_batch(a));
    PASS(settle_pipeline(a));
    size_t streams = strategy_streams(&a->own);
    if (a->microbatches && streams > a->microbatches)
        return error_set(STATUS_USAGE,
                         "--replicas %zu needs at least as many microbatches (got %zu); raise "
                         "--microbatches or --batch",
                         streams, a->microbatches);
    if (device_placement_of(a->search.placement) == DEVICES_OPTIMISED && !is_auto(a))
        return error_set(STATUS_USAGE,
                         "--placement optimised has no effect with --algorithm %s, only with auto",
                         a->algorithm);
    return check_sequence(a);
}

static enum partition_placement request_placement(const struct arguments *a)
{
    if (a->search.rank_order)
        return strcmp(a->search.rank_order, "tp-dp-pp") ? PLACE_PIPELINES : PLACE_REPLICAS;
    return device_placement_of(a->search.placement) == DEVICES_FRAMEWORK ? PLACE_REPLICAS
                                                                         : PLACE_PIPELINES;
}

struct partition_request plan_request(const struct arguments *a)
{
    struct framework issue = framework_of(a->framework);
    struct partition_request r = {
        .stages = a->stages,
        .pipeline = a->pipeline,
        .shared = a->shared,
        .own = a->own,
        .chosen = a->chosen,
        .chunks = request_chunks(a),
        .microbatches = (uint32_t)a->microbatches,
        .microbatch_size = (uint32_t)a->microbatch_size,
        .schedule = a->schedule,
        .optimizer = a->optimizer,
        .model = a->model,
        .platform = a->platform,
        .seed = a->seed,
        .devices = device_placement_of(a->search.placement),
        .placement = request_placement(a),
        .placement_chosen = a->search.rank_order != NULL,
        .layers = a->search.granularity ? !strcmp(a->search.granularity, "layer") : is_auto(a),
        .framework = issue.by_kernel ? a->framework : NULL,
        .issue = issue,
        .split_at = a->split_at,
        .layers_per_stage = a->layers_per_stage};
    if (r.tensor_overlap && is_auto(a) && !(r.chosen & KNOB_BIT(sequence_parallel))) {
        r.sequence_parallel = true; /* which it needs */
        r.chosen |= KNOB_BIT(sequence_parallel);
    }
    strategy_settle(&r.shared, &r.own); /* a grid of points may have corners without effect */
    return r;
}

/* ---- is it kept? */

/* What is asked for may have its launcher's name. */
static bool framework_breaks(const struct plan *p, const char *asked)
{
    const struct framework f = framework_of(asked);
    if (!f.by_kernel)
        return false;
    return !p->framework || strcmp(p->issue.name, f.name) != 0 ||
           strcmp(p->framework + strcspn(p->framework, ":"), asked + strcspn(asked, ":")) != 0;
}

/* Compares what was asked for with what the plan says, so that neither an algorithm nor a later
 * change to one can break a constraint silently. */
const char *plan_breaks(const struct plan *p, const struct arguments *a)
{
    const struct partition_request r = plan_request(a);
    const struct strategy_knob *broken = partition_breaks(&r, p);
    const struct {
        const char *name;
        bool broken;
    } all[] = {
        {"stages", a->stages && p->stages != a->stages},
        {"pipeline-parallel", a->pipeline && p->stages != a->pipeline * plan_chunks(p)},
        {"chunks", a->chunks && plan_chunks(p) != a->chunks},
        {broken ? broken->option : NULL, broken},
        {"microbatches", a->microbatches && p->microbatches != a->microbatches},
        {"microbatch-size", a->microbatch_size && p->microbatch_size != a->microbatch_size},
        {"batch", a->batch && (size_t)p->microbatches * p->microbatch_size != a->batch},
        {"schedule", a->schedule && strcmp(p->schedule, a->schedule) != 0},
        {"optimizer", a->optimizer && strcmp(p->optimizer, a->optimizer) != 0},
        {"framework", framework_breaks(p, a->framework)},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].broken)
            return all[i].name;
    return NULL;
}

/* ---- one algorithm */

/* 8, or one for each stream of replicas. */
static uint32_t usual_microbatches(const struct partition_request *r)
{
    enum { USUAL = 8 };
    uint32_t streams = strategy_streams(&r->own);
    return streams > USUAL ? streams : USUAL;
}

enum status plan_check_sums(const struct arguments *a, const struct model *m)
{
    const struct partition_algorithm *algorithm;
    const struct rule_model model = rule_model_of(m);
    struct strategy_stage own;
    struct rule_view v;
    char text[RULE_TEXT];
    PASS(request_algorithm(a, &algorithm));
    PASS(request_view(a, algorithm, &own, &v));
    v.open &= ~KNOB_BIT(model);
    v.facts.model = &model;
    return rule_is_broken(&v, RULE_sums_need_somebody)
               ? error_set(STATUS_USAGE, "%s",
                           rule_print(&rule_table[RULE_sums_need_somebody], &v, true, text))
               : STATUS_OK;
}

/* Defaults: all devices as one pipeline (a stage for each set of shards, times the chunks, but no
 * more than the model has ops), 8 microbatches of one sample or one for each replica, 1F1B. */
enum status plan_by_algorithm(const struct arguments *a, const struct model *m,
                              const struct topology *t, struct plan *out)
{
    enum status st;
    const struct partition_algorithm *algorithm;
    const struct schedule *schedule;
    struct partition_request request = plan_request(a);
    struct plan p = {0};
    TRY(request_algorithm(a, &algorithm));
    TRY(plan_check_model(a, m));
    size_t shards = a->tensor_parallel ? a->tensor_parallel : 1;
    if (!request.schedule)
        request.schedule = schedule_usual(a->chunks > 1);
    TRY(schedule_find(request.schedule, &schedule));
    size_t chunks = request.chunks ? request.chunks : 1;
    request.replicas = request.replicas ? request.replicas : schedule->crossed ? 2 : 1;
    size_t most = t->n / request.replicas / shards * chunks;
    most = most < m->n ? most : m->n / chunks * chunks;
    if (!request.stages)
        request.stages = most ? most : 1;
    if (!request.microbatches)
        request.microbatches = usual_microbatches(&request);
    if (!request.microbatch_size)
        request.microbatch_size = 1;
    TRY(partition_run(algorithm, m, t, &request, &p));
    const char *broken = plan_breaks(&p, a);
    if (broken)
        FAIL(STATUS_UNSUPPORTED,
             "--algorithm %s cannot keep --%s with this model and platform. Try --algorithm auto",
             a->algorithm, broken);
    TRY(plan_check_layers(a, m, p.stage, p.stages));
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}
