/* auto against brute force: on random small inputs no plan of a grid of all shapes, schedules and
 * savings is better than its winner by more than 1 %, by the same evaluator. Arguments: how many
 * inputs, the first one's seed, filters to switch off (struct auto_request), and a number of
 * devices: the grid is of all knobs of the strategy table, on smaller inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/schedule/schedule.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/quick_evaluator.h"

static const double tolerance = 0.01;
static int inputs = 2; /* unit.auto_brute_more: 40 */
static unsigned seed = 1, without = 0;
static int all_knobs = 0; /* devices */

/* ---- inputs */

struct input {
    char model[96], platform[96];
    size_t batch;
    int64_t memory_bytes; /* of every device; 0: the platform's */
    struct model m;
    struct topology t;
    char *path;
};

/* Of which all knobs can be enumerated. */
static void pick_small(struct input *x)
{
    static const struct {
        const char *family;
        int nodes; /* of four devices */
        const char *rest;
    } platform[] = {{"leaf-spine", 2, ",nic=25Gbps"},
                    {"leaf-spine", 4, ",nic=10Gbps"},
                    {"rail", 2, ""},
                    {"leaf-spine", 1, ""}};
    size_t k = (size_t)rand() % (sizeof platform / sizeof *platform);
    int nodes = platform[k].nodes > all_knobs ? all_knobs : platform[k].nodes;
    snprintf(x->platform, sizeof x->platform, "%s:nodes=%d,gpus=%d%s", platform[k].family, nodes,
             all_knobs / nodes, platform[k].rest);
    x->batch = (size_t)4 << rand() % 2;
    x->memory_bytes = rand() % 2 == 0 ? (int64_t)4 << (20 + rand() % 4) : 0;
    if (rand() % 3 == 0)
        snprintf(x->model, sizeof x->model,
                 "rmoe:layers=2,hidden=%d,heads=4,experts=4,tokens=%d,vocabulary=256",
                 64 << rand() % 2, 64 << rand() % 2);
    else
        snprintf(x->model, sizeof x->model, "gpt-tiny:layers=%d,hidden=%d,tokens=%d,tied=%d",
                 2 + rand() % 2, 64 << rand() % 4, 64 << rand() % 2, rand() % 2);
}

static void pick(struct input *x, unsigned number)
{
    static const char *const platform[] = {
        "laptop",
        "leaf-spine:nodes=1,gpus=6",
        "leaf-spine:nodes=2,gpus=4,nic=25Gbps",
        "leaf-spine:nodes=4,gpus=2,nic=100Gbps",
        "rail:nodes=2,gpus=3",
        "fat-tree:nodes=2,gpus=2,nic=10Gbps",
        "torus:x=2,y=2,z=1",
    };
    srand(number);
    *x = (struct input){.batch = (size_t)(8 + 4 * (rand() % 3)) << rand() % 2};
    snprintf(x->platform, sizeof x->platform, "%s",
             platform[(size_t)rand() % (sizeof platform / sizeof *platform)]);
    switch (rand() % 4) {
    case 0:
        snprintf(x->model, sizeof x->model, "mlp:layers=%d,hidden=%d", 2 + rand() % 6,
                 256 << rand() % 3);
        break;
    case 1:
        snprintf(x->model, sizeof x->model, "vtransformer:layers=%d,hidden=%d", 2 + rand() % 4,
                 96 << rand() % 2);
        break;
    default:
        snprintf(x->model, sizeof x->model, "gpt-tiny:layers=%d,hidden=%d,tokens=%d,tied=%d",
                 2 + rand() % 5, 64 << rand() % 4, 64 << rand() % 2, rand() % 2);
    }
    if (rand() % 3 == 0)
        x->memory_bytes = (int64_t)8 << (20 + rand() % 5);
    if (all_knobs)
        pick_small(x);
    if (load_model(x->model, &x->m) != STATUS_OK ||
        load_topology(x->platform, &x->t, &x->path) != STATUS_OK)
        fail_msg("%s on %s: %s", x->model, x->platform, error_message());
    for (size_t k = 0; k < x->t.types && x->memory_bytes > 0; k++)
        x->t.type[k].memory_bytes = x->memory_bytes;
}

static void release(struct input *x)
{
    free(x->path);
    topology_free(&x->t);
    model_free(&x->m);
}

/* ---- the grid */

struct grid {
    const struct input *x;
    struct evaluation_context context;
    struct evaluator e;
    struct partition_request r;
    struct rule_model rules;
    double best_s;
    char best[240];
    size_t plans;
};

static void judge(struct grid *g, struct plan *p, int64_t bucket_bytes)
{
    struct evaluation e;
    p->bucket_bytes = bucket_bytes;
    const struct rule_view v = rule_view_of_plan(p, &g->rules);
    if (all_knobs && rules_broken(&v, RULES_OF_OPTIONS, NULL))
        return;
    enum status st = g->e.quick(g->e.context, p, &e);
    if (all_knobs && (st == STATUS_UNSUPPORTED || st == STATUS_INVALID))
        return;
    if (st != STATUS_OK)
        fail_msg("%s on %s: %s", g->x->model, g->x->platform, error_message());
    g->plans++;
    if (e.headroom_bytes < 0 || e.iteration_s >= g->best_s)
        return;
    g->best_s = e.iteration_s;
    snprintf(
        g->best, sizeof g->best,
        "%zu x %u x %u cp %u ep %u %s %u x %u recompute %d:%u %x zero %u%s/%u bucket %lld sp %d "
        "offload %d %s",
        p->stages, p->stage[0].replicas, p->stage[0].tensor_parallel, p->stage[0].context_parallel,
        p->stage[0].expert_parallel, p->schedule, p->microbatches, p->microbatch_size,
        (int)p->stage[0].recompute, p->stage[0].recompute_layers, p->stage[0].recompute_modules,
        p->zero, p->zero_keep ? " kept" : "", p->zero_group, (long long)p->bucket_bytes,
        p->sequence_parallel, (int)p->offload,
        g->r.placement == PLACE_PIPELINES ? "pipelines" : "replicas");
}

/* ZeRO over all replicas and over groups of any size, 1 and 3 also with parameters kept. */
static void judge_shared(struct grid *g, struct plan *p)
{
    uint32_t replicas = p->stage[0].replicas;
    judge(g, p, 0);
    for (int keep = 0; keep <= (p->zero % 2 == 1); keep++)
        for (uint32_t group = p->zero < 1 ? replicas : 1; group < replicas; group++) {
            p->zero_keep = keep;
            p->zero_group = group > 1 ? group : 0;
            if (replicas % group == 0)
                judge(g, p, 0);
        }
    p->zero_keep = false;
    p->zero_group = 0;
}

static void judge_savings(struct grid *g, struct plan *p, bool split)
{
    bool replicas = p->stage[0].replicas > 1;
    for (int recompute = 0; recompute < RECOMPUTE_KINDS; recompute++)
        for (p->zero = 0; p->zero <= (replicas ? 3 : 0); p->zero++) {
            for (size_t s = 0; s < p->stages; s++)
                p->stage[s].recompute = (enum plan_recompute)recompute;
            judge_shared(g, p);
            for (int64_t b = 1 << 14; replicas && !split && p->zero < 2 && b <= 1 << 24; b *= 8)
                judge(g, p, b);
        }
}

/* Of what is shared: ZeRO, kept or not, over groups of all sizes, in buckets of all sizes. */
static void judge_sums(struct grid *g, struct plan *p)
{
    uint32_t replicas = p->stage[0].replicas;
    for (p->zero = 0; p->zero <= (replicas > 1 ? 3 : 0); p->zero++)
        for (int keep = 0; keep <= (p->zero % 2 == 1); keep++)
            for (uint32_t group = 1; group <= (p->zero > 0 ? replicas / 2 : 1); group++) {
                p->zero_keep = keep;
                p->zero_group = group > 1 ? group : 0;
                judge(g, p, 0);
                for (int64_t b = 1 << 12; replicas > 1 && b <= 1 << 24; b *= 4)
                    judge(g, p, b);
            }
    p->zero_keep = false;
    p->zero_group = 0;
}

static void judge_knobs(struct grid *g, struct plan *p)
{
    static const struct {
        enum plan_recompute kind;
        uint32_t layers, modules;
    } again[] = {{RECOMPUTE_NONE, 0, 0},
                 {RECOMPUTE_SELECTIVE, 0, 0},
                 {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_LAYERNORM},
                 {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_CORE_ATTN},
                 {RECOMPUTE_SELECTIVE, 0, 1u << MODULE_LAYERNORM | 1u << MODULE_CORE_ATTN},
                 {RECOMPUTE_FULL, 0, 0},
                 {RECOMPUTE_FULL, 1, 0},
                 {RECOMPUTE_FULL, 2, 0}};
    for (size_t k = 0; k < sizeof again / sizeof *again; k++)
        for (int offload = 0; offload < OFFLOAD_KINDS; offload++) {
            p->offload = (enum plan_offload)offload;
            for (size_t s = 0; s < p->stages; s++) {
                p->stage[s].recompute = again[k].kind;
                p->stage[s].recompute_layers = again[k].layers;
                p->stage[s].recompute_modules = again[k].modules;
            }
            judge_sums(g, p);
        }
}

/* With every degree of context and expert parallelism. */
static void judge_groups(struct grid *g, struct plan *p)
{
    uint32_t streams = p->microbatches;
    for (uint32_t c = 1; c <= p->stage[0].replicas; c *= 2)
        for (uint32_t e = 1; e <= p->stage[0].replicas; e *= 2) {
            for (size_t s = 0; s < p->stages; s++) {
                p->stage[s].context_parallel = c;
                p->stage[s].expert_parallel = e;
            }
            if (p->stage[0].replicas % c == 0 && streams % (p->stage[0].replicas / c) == 0)
                judge_knobs(g, p);
        }
}

static void judge_schedules(struct grid *g)
{
    size_t depth = g->r.stages / g->r.chunks;
    for (size_t k = 0; k < schedules_n; k++) {
        const struct schedule *s = schedules[k];
        struct plan p = {0};
        if (!s->searched || !schedule_allows(s, g->r.chunks) ||
            (depth == 1 && s != &schedule_one_f_one_b) ||
            (g->r.chunks > 1 &&
             g->r.microbatches / g->r.replicas % (g->r.stages / g->r.chunks) != 0))
            continue;
        g->r.schedule = s->name;
        if (partition_run(&partition_balanced, &g->x->m, &g->x->t, &g->r, &p) == STATUS_OK)
            all_knobs ? judge_groups(g, &p) : judge_savings(g, &p, s->split);
        plan_free(&p);
    }
}

/* Depth x replicas x shards on all devices or fewer, in each microbatch size. */
static void judge_shapes(struct grid *g)
{
    size_t n = g->x->t.n;
    struct partition_request *r = &g->r;
    for (r->tensor_parallel = 1; r->tensor_parallel <= n; r->tensor_parallel++)
        for (int sequence = 0; sequence <= (r->tensor_parallel > 1); sequence++)
            for (size_t depth = 1; depth <= n; depth++)
                for (r->replicas = 1; r->replicas * depth * r->tensor_parallel <= n; r->replicas++)
                    for (uint32_t size = 1; size <= g->x->batch; size++) {
                        if (g->x->batch % ((size_t)size * r->replicas) != 0)
                            continue;
                        r->sequence_parallel = sequence;
                        r->microbatch_size = size;
                        r->microbatches = (uint32_t)(g->x->batch / size);
                        int places = depth > 1 && r->replicas > 1 ? 2 : 1;
                        for (int place = 0; place < places; place++)
                            for (r->chunks = 1; r->chunks <= (depth > 1 ? 4 : 1);
                                 r->chunks += all_knobs ? 1 : r->chunks) {
                                r->placement = (enum partition_placement)place;
                                r->stages = depth * r->chunks;
                                judge_schedules(g);
                            }
                    }
}

/* ---- the comparison */

static void compare(unsigned number)
{
    struct input x;
    struct auto_result found = {0};
    pick(&x, number);
    struct grid g = {.x = &x, .best_s = INFINITY, .rules = rule_model_of(&x.m)};
    g.r = (struct partition_request){
        .optimizer = "adam", .model = x.model, .platform = x.platform, .layers = true};
    g.context = (struct evaluation_context){.model = &x.m, .topology = &x.t, .platform = x.path};
    g.e = evaluator_make(&g.context);
    struct evaluator e = quick_evaluator(&g.context);
    const struct auto_request request = {
        .fixed = g.r, .samples = x.batch, .finalists = 12, .without = without};
    if (auto_search(&x.m, &x.t, &request, &e, &found) != STATUS_OK)
        fail_msg("%s on %s: %s", x.model, x.platform, error_message());
    judge_shapes(&g);
    const struct auto_candidate *best = &found.candidate[0];
    double mine_s = best->fits ? best->thorough.iteration_s : INFINITY;
    print_message("%2u %s on %s, batch %zu, %lld MiB: %zu of %zu plans, %g s, %+.2f %%\n", number,
                  x.model, x.platform, x.batch, (long long)x.memory_bytes >> 20, found.tried,
                  g.plans, mine_s, 100 * (mine_s / g.best_s - 1));
    if (isfinite(g.best_s) && !(mine_s <= g.best_s * (1 + tolerance)))
        fail_msg("%u: %s on %s, batch %zu, %lld B: auto %g s (%zu x %u x %u %s %u x %u), but %s "
                 "takes %g s",
                 number, x.model, x.platform, x.batch, (long long)x.memory_bytes, mine_s,
                 best->plan.stages, best->plan.stage[0].replicas,
                 best->plan.stage[0].tensor_parallel, best->plan.schedule, best->plan.microbatches,
                 best->plan.microbatch_size, g.best, g.best_s);
    auto_result_free(&found);
    release(&x);
}

static void nothing_in_the_grid_is_better_by_a_percent(void **state)
{
    for (int i = 0; i < inputs; i++)
        compare(seed + (unsigned)i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_in_the_grid_is_better_by_a_percent),
    };
    if (argc > 1)
        inputs = atoi(argv[1]);
    if (argc > 2)
        seed = (unsigned)atoi(argv[2]);
    if (argc > 3)
        without = (unsigned)atoi(argv[3]);
    if (argc > 4)
        all_knobs = atoi(argv[4]);
    return cmocka_run_group_tests_name("auto brute", tests, NULL, NULL);
}
