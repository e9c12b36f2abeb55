/* auto against points of the product of all axes of the strategy table, on 2, 4, 8 and 16 devices:
 * none is better than its winner by more than 1 %, by the same evaluator.
 *
 * An axis is a knob that core/strategy/strategy.def says is searched, or what shapes differ in
 * besides: pipeline ranks, chunks, schedule, microbatch size, placement. Left out are the knobs
 * that the table calls fixed, tensor overlap where the framework does not split products, schedules
 * of chunks with a single one, plans whose stages differ (unit.auto_uneven), cuts other than
 * `balanced` makes (plan.graphs), and buckets between powers of four.
 *
 * On 2 devices the whole product is judged. Beyond, points of each division of the devices into
 * replicas, shards and pipeline ranks in turns: one of eight is drawn from the whole product, the
 * others are the best one of the division with one to three axes drawn anew, so that this is a
 * search of its own. Arguments: points of an input that are judged, and one input's number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/schedule/schedule.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/quick_evaluator.h"

static const double tolerance = 0.01;
enum { ENUMERATED = 2 };          /* devices of which all points are judged */
enum { MOST = 4096, TURNS = 64 }; /* divisions of devices; points of each in turns */
static size_t judged_points = 20000;
static int only = -1;

/* ---- inputs */

static const struct input {
    const char *model, *platform, *framework;
    size_t batch;
    int64_t memory_bytes; /* of every device; 0: the platform's */
} inputs[] = {
#define ON(nodes, gpus)                                                                            \
    {"gpt-tiny:layers=4,hidden=256,tokens=128",                                                    \
     "leaf-spine:nodes=" #nodes ",gpus=" #gpus ",nic=25Gbps", NULL, 16, 16 << 20},                 \
        {"rmoe:layers=3,hidden=128,heads=4,experts=4,tokens=128,vocabulary=256",                   \
         "leaf-spine:nodes=" #nodes ",gpus=" #gpus ",nic=25Gbps", NULL, 16, 0},                    \
        {"gpt-tiny:layers=4,hidden=1024,heads=16,tokens=512,dtype=bf16",                           \
         "rail:nodes=" #nodes ",gpus=" #gpus ",type=A100", "megatron:step_s=0", 16, 0},            \
    {                                                                                              \
        "rmoe:layers=3,hidden=256,heads=4,experts=8,tokens=256,dtype=bf16",                        \
            "rail:nodes=" #nodes ",gpus=" #gpus ",type=A100", "megatron:step_s=0", 16, 512 << 20   \
    }
    ON(1, 2), ON(2, 2), ON(2, 4), ON(4, 4)};

struct search {
    const struct input *in;
    struct model m;
    struct topology t;
    char *path;
    struct rule_model rules;
    struct partition_request r;
    struct evaluation_context context;
    struct evaluator e;
};

static void begin_search(struct search *x, const struct input *in)
{
    struct framework issue = {0};
    *x = (struct search){.in = in};
    if (load_model(in->model, &x->m) != STATUS_OK ||
        load_topology(in->platform, &x->t, &x->path) != STATUS_OK ||
        (in->framework && framework_parse(in->framework, &issue) != STATUS_OK))
        fail_msg("%s on %s: %s", in->model, in->platform, error_message());
    for (size_t k = 0; k < x->t.types && in->memory_bytes > 0; k++)
        x->t.type[k].memory_bytes = in->memory_bytes;
    x->rules = rule_model_of(&x->m);
    x->r = (struct partition_request){.optimizer = "adam",
                                      .model = in->model,
                                      .platform = in->platform,
                                      .framework = in->framework,
                                      .issue = issue,
                                      .layers = true};
    x->context =
        (struct evaluation_context){.model = &x->m, .topology = &x->t, .platform = x->path};
    x->e = quick_evaluator(&x->context);
}

static void end_search(struct search *x)
{
    free(x->path);
    topology_free(&x->t);
    model_free(&x->m);
}

/* ---- axes */

enum axis {
    DIVISION, /* replicas, shards and pipeline ranks */
    SIZE,
    CHUNKS,
    SCHEDULE,
    PLACEMENT, /* the last that a cut depends on */
    SEQUENCE,
    OVERLAP,
    CONTEXT,
    EXPERT,
    RECOMPUTE,
    OFFLOAD,
    ZERO,
    KEEP,
    GROUP,
    BUCKET,
    AXES
};

static const struct {
    enum plan_recompute kind;
    uint32_t layers, modules;
} again[] = {
    {RECOMPUTE_NONE, 0, 0},
    {RECOMPUTE_SELECTIVE, 0, 0},
    {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_LAYERNORM},
    {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_CORE_ATTN},
    {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_MOE_ACT},
    {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_LAYERNORM | 1u << MODULE_MOE_ACT},
    {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_LAYERNORM | 1u << MODULE_CORE_ATTN},
    {RECOMPUTE_FULL, 0, 0},
    {RECOMPUTE_FULL, 1, 0},
    {RECOMPUTE_FULL, 2, 0},
};

struct grid {
    struct search *x;
    size_t values[AXES];
    struct division {
        uint32_t replicas, shards, ranks;
        double best_s; /* of its points that fit; INFINITY: there is none yet */
        size_t best[AXES];
    } division[MOST];
    size_t at[AXES], cut_at[PLACEMENT + 1]; /* the point; that of the cut */
    bool is_cut;                            /* there is one there */
    struct plan cut;
    uint64_t random;
    size_t judged, fit;
    const struct division *best; /* whose best point is that of all; NULL: none fits */
};

static void list_axes(struct grid *g)
{
    uint32_t n = (uint32_t)g->x->t.n;
    size_t divisions = 0;
    for (uint32_t r = 1; r <= n; r++)
        for (uint32_t s = 1; r * s <= n; s++)
            for (uint32_t p = 1; r * s * p <= n; p++)
                g->division[divisions++] = (struct division){r, s, p, INFINITY, {0}};
    assert_true(divisions <= MOST);
    const size_t values[AXES] = {[DIVISION] = divisions,
                                 [SIZE] = g->x->in->batch,
                                 [CHUNKS] = 4,
                                 [SCHEDULE] = schedules_n,
                                 [PLACEMENT] = 2,
                                 [SEQUENCE] = 2,
                                 [OVERLAP] = g->x->r.issue.splits_products ? 2 : 1,
                                 [CONTEXT] = 3,
                                 [EXPERT] = 4,
                                 [RECOMPUTE] = sizeof again / sizeof *again,
                                 [OFFLOAD] = OFFLOAD_KINDS,
                                 [ZERO] = 4,
                                 [KEEP] = 2,
                                 [GROUP] = n > 2 ? n / 2 : 1,
                                 [BUCKET] = 9};
    memcpy(g->values, values, sizeof values);
}

/* Can there be such a shape? What is one way to say several is said once. */
static bool is_shape(const struct grid *g, const struct schedule *schedule)
{
    const struct division *d = &g->division[g->at[DIVISION]];
    size_t size = g->at[SIZE] + 1, chunks = g->at[CHUNKS] + 1, batch = g->x->in->batch;
    bool one = d->ranks == 1;
    return batch % (size * d->replicas) == 0 && schedule->chunked == (chunks > 1) &&
           (schedule->searched || (schedule->hides && g->x->rules.experts > 1)) &&
           schedule_allows(schedule, (uint32_t)chunks) &&
           (one ? chunks == 1 && schedule == &schedule_one_f_one_b : true) &&
           (chunks == 1 || batch / size / d->replicas % d->ranks == 0) &&
           (g->at[PLACEMENT] == 0 || (!one && d->replicas > 1));
}

static bool cut_shape(struct grid *g)
{
    const struct division *d = &g->division[g->at[DIVISION]];
    const struct schedule *schedule = schedules[g->at[SCHEDULE]];
    struct partition_request r = g->x->r;
    if (!is_shape(g, schedule))
        return false;
    if (g->cut.stage && memcmp(g->at, g->cut_at, sizeof g->cut_at) == 0)
        return g->is_cut;
    plan_free(&g->cut);
    memcpy(g->cut_at, g->at, sizeof g->cut_at);
    r.chunks = (uint32_t)g->at[CHUNKS] + 1;
    r.stages = (size_t)d->ranks * r.chunks;
    r.replicas = d->replicas;
    r.tensor_parallel = d->shards;
    r.microbatch_size = (uint32_t)g->at[SIZE] + 1;
    r.microbatches = (uint32_t)(g->x->in->batch / r.microbatch_size);
    r.schedule = schedule->name;
    r.placement = (enum partition_placement)g->at[PLACEMENT];
    return g->is_cut =
               partition_run(&partition_balanced, &g->x->m, &g->x->t, &r, &g->cut) == STATUS_OK;
}

/* The cut with the point's knobs; false: they have no effect, or cannot be. */
static bool set_knobs(struct grid *g)
{
    struct plan *p = &g->cut;
    if (p->stage[0].replicas % (1u << g->at[CONTEXT]) != 0)
        return false;
    p->sequence_parallel = g->at[SEQUENCE] == 1;
    p->tensor_overlap = g->at[OVERLAP] == 1;
    p->offload = (enum plan_offload)g->at[OFFLOAD];
    p->zero = (uint32_t)g->at[ZERO];
    p->zero_keep = g->at[KEEP] == 1;
    p->zero_group = g->at[GROUP] > 0 ? (uint32_t)g->at[GROUP] + 1 : 0;
    p->bucket_bytes = g->at[BUCKET] > 0 ? (int64_t)1 << (8 + 2 * g->at[BUCKET]) : 0;
    for (size_t s = 0; s < p->stages; s++) {
        p->stage[s].context_parallel = 1u << g->at[CONTEXT];
        p->stage[s].expert_parallel = 1u << g->at[EXPERT];
        p->stage[s].recompute = again[g->at[RECOMPUTE]].kind;
        p->stage[s].recompute_layers = again[g->at[RECOMPUTE]].layers;
        p->stage[s].recompute_modules = again[g->at[RECOMPUTE]].modules;
    }
    const struct rule_view v = rule_view_of_plan(p, &g->x->rules);
    return (p->bucket_bytes == 0 || p->stage[0].replicas > 1) &&
           p->microbatches % plan_streams(&p->stage[0]) == 0 &&
           !rules_broken(&v, RULES_OF_OPTIONS, NULL);
}

/* If the point is a plan. */
static void judge(struct grid *g)
{
    struct evaluation e;
    struct division *d = &g->division[g->at[DIVISION]];
    if (!cut_shape(g) || !set_knobs(g) || g->x->e.quick(g->x->e.context, &g->cut, &e) != STATUS_OK)
        return;
    g->judged++;
    g->fit += e.headroom_bytes >= 0;
    if (e.headroom_bytes < 0 || e.iteration_s >= d->best_s)
        return;
    d->best_s = e.iteration_s;
    memcpy(d->best, g->at, sizeof d->best);
    if (!g->best || d->best_s < g->best->best_s)
        g->best = d;
}

static void print_point(const struct grid *g, char *out, size_t room)
{
    const struct division *d = g->best;
    const size_t *at = d->best;
    snprintf(out, room,
             "%u x %u x %u, %s, %zu chunks, size %zu, placement %zu, sp %zu, overlap %zu, cp %d, "
             "ep %d, recompute %d:%u:%x, offload %zu, zero %zu keep %zu group %zu, bucket 4^%zu",
             d->ranks, d->replicas, d->shards, schedules[at[SCHEDULE]]->name, at[CHUNKS] + 1,
             at[SIZE] + 1, at[PLACEMENT], at[SEQUENCE], at[OVERLAP], 1 << at[CONTEXT],
             1 << at[EXPERT], (int)again[at[RECOMPUTE]].kind, again[at[RECOMPUTE]].layers,
             again[at[RECOMPUTE]].modules, at[OFFLOAD], at[ZERO], at[KEEP],
             at[GROUP] > 0 ? at[GROUP] + 1 : 0, at[BUCKET] > 0 ? at[BUCKET] + 4 : 0);
}

/* ---- enumeration, and draws */

/* All points whose first axes are as they are; of shapes that cannot be, none. */
static void enumerate(struct grid *g, size_t axis)
{
    if (axis == SEQUENCE && !cut_shape(g))
        return;
    if (axis == AXES) {
        judge(g);
        return;
    }
    for (g->at[axis] = 0; g->at[axis] < g->values[axis]; g->at[axis]++)
        enumerate(g, axis + 1);
    g->at[axis] = 0;
}

static size_t draw(struct grid *g, size_t n)
{
    return (size_t)(random_next(&g->random) >> 11) % n;
}

/* Of the division that the point has. */
static void draw_point(struct grid *g, bool near)
{
    const struct division *d = &g->division[g->at[DIVISION]];
    if (near)
        memcpy(g->at, d->best, sizeof g->at);
    for (size_t k = DIVISION + 1; k < AXES && !near; k++)
        g->at[k] = draw(g, g->values[k]);
    for (size_t k = near ? 1 + draw(g, 3) : 0; k > 0; k--) {
        size_t axis = DIVISION + 1 + draw(g, AXES - 1);
        g->at[axis] = draw(g, g->values[axis]);
    }
}

/* The divisions in turns. */
static void draw_points(struct grid *g)
{
    for (size_t round = 0; g->judged < judged_points; round++) {
        assert_true(round < MOST);
        for (size_t k = 0; k < g->values[DIVISION]; k++)
            for (int turn = 0; turn < TURNS; turn++) {
                g->at[DIVISION] = k;
                draw_point(g, isfinite(g->division[k].best_s) && turn % 8 != 0);
                judge(g);
            }
    }
}

/* ---- the comparison */

static void compare(size_t number)
{
    struct search x;
    struct auto_result found = {0};
    char text[400] = "";
    double product = 1;
    begin_search(&x, &inputs[number]);
    const struct auto_request request = {.fixed = x.r, .samples = x.in->batch, .finalists = 12};
    if (auto_search(&x.m, &x.t, &request, &x.e, &found) != STATUS_OK)
        fail_msg("%s on %s: %s", x.in->model, x.in->platform, error_message());
    struct grid *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->x = &x;
    g->random = random_key(number, 0);
    list_axes(g);
    for (size_t k = 0; k < AXES; k++)
        product *= (double)g->values[k];
    x.t.n <= ENUMERATED ? enumerate(g, 0) : draw_points(g);
    assert_non_null(g->best);
    const struct auto_candidate *best = &found.candidate[0];
    double mine_s = best->fits ? best->thorough.iteration_s : INFINITY, best_s = g->best->best_s;
    print_point(g, text, sizeof text);
    print_message("%2zu %s on %zu devices of %s: %s %zu plans (%zu fit) of a product of %.3g; "
                  "%g s, the best of them %+.2f %%\n",
                  number, x.in->model, x.t.n, x.in->platform, x.t.n <= ENUMERATED ? "all" : "drawn",
                  g->judged, g->fit, product, mine_s, 100 * (best_s / mine_s - 1));
    if (!(mine_s <= best_s * (1 + tolerance)))
        fail_msg("auto %g s, but %s takes %g s", mine_s, text, best_s);
    plan_free(&g->cut);
    free(g);
    auto_result_free(&found);
    end_search(&x);
}

static void no_point_is_better_by_a_percent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (only < 0 || (size_t)only == i)
            compare(i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_point_is_better_by_a_percent)};
    if (argc > 1)
        judged_points = (size_t)atol(argv[1]);
    if (argc > 2)
        only = atoi(argv[2]);
    return cmocka_run_group_tests_name("auto knobs", tests, NULL, NULL);
}
