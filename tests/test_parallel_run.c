/* Every way to spread a model over ranks trains it to the parameters of one process: real devices
 * and transports, the ranks being threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/lower.h"
#include "core/random.h"
#include "exec/device.h"
#include "exec/device/cpu/stage.h"
#include "exec/executor.h"
#include "exec/ring.h"
#include "model/import.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "tests/mesh.h"
#include "tests/sample.h"

enum { STEPS = 4, MICROBATCHES = 4, MICROBATCH = 2 };

/* How a model is spread, besides the request's own fields. */
struct spread {
    const char *name;
    size_t stages;
    uint32_t replicas, shards, zero, chunks, experts;
    enum plan_recompute recompute;
    int64_t bucket_bytes;
    const char *schedule; /* NULL: 1f1b */
    enum data_type reduce_dtype;
    uint32_t recompute_layers, recompute_unit, group;
    bool keep;
    uint32_t context;
    enum plan_exchange exchange;
};

/* What training has left: all parameters of every op, and the losses. */
struct trained {
    const struct model *model;
    struct mesh mesh;
    pthread_mutex_t mutex;
    float **parameter; /* [model->n] of the whole op */
    size_t *seen;      /* [model->n] numbers that some rank has shown */
    double loss[STEPS];
    size_t buckets;    /* gradient buckets, most of any stage */
    int64_t *moved;    /* [ops] bytes of the arrays of collectives in the last step */
    uint32_t *step_of; /* [ops] sums inside passes: which step that is */
};

/* Of the rank that the calling thread is. */
static _Thread_local struct trained *observed;

/* device_cpu.array(), whose answers are noted. */
static enum status observe_array(void *self, const struct program_op *op, uint32_t k,
                                 enum element *e, void **data, size_t *n)
{
    enum status st = device_cpu.array(self, op, k, e, data, n);
    int64_t *moved = &observed->moved[op - observed->mesh.program.op];
    if (st == STATUS_OK && op->purpose != FOR_TENSOR)
        *moved = (k == 0 ? 0 : *moved) + (*data ? (int64_t)(*n * element_bytes(*e)) : 0);
    return st;
}

/* A reduction inside an op, on its way to the executor. */
struct observed_sum {
    const struct layer_reduction *to;
    int64_t *moved;
};

static void observe_sum(void *self, enum element e, void *data, size_t n)
{
    const struct observed_sum *s = self;
    *s->moved += (int64_t)(n * element_bytes(e));
    s->to->sum(s->to->self, e, data, n);
}

static void pass_exchange(void *self, void *data, size_t n)
{
    const struct observed_sum *s = self;
    s->to->exchange(s->to->self, data, n);
}

static void pass_context(void *self, enum op_kind kind, void *data, size_t n)
{
    const struct observed_sum *s = self;
    s->to->context(s->to->self, kind, data, n);
}

static void pass_failure(void *self, enum status st)
{
    const struct observed_sum *s = self;
    (s->to->fail)(s->to->self, st);
}

/* device_cpu.compute(), whose sums are noted as those of the op that the program has for them. */
static enum status observe_compute(void *self, uint32_t step, const struct program_op *op,
                                   const struct layer_reduction *reduction)
{
    const struct program *p = &observed->mesh.program;
    uint32_t i = (uint32_t)(op - p->op), sum = executor_sum_after(p, program_rank_of(p, i), i);
    int64_t ignored = 0;
    struct observed_sum mine = {reduction, sum < p->ops ? &observed->moved[sum] : &ignored};
    if (sum < p->ops && step != observed->step_of[sum])
        observed->moved[sum] = 0;
    if (sum < p->ops)
        observed->step_of[sum] = step;
    const struct layer_reduction to = {&mine, observe_sum, pass_exchange, pass_failure,
                                       pass_context};
    return device_cpu.compute(self, step, op, &to);
}

static size_t parameters_of(const struct trained *t, uint32_t op)
{
    return (size_t)t->model->op[op].parameter_bytes / sizeof(float);
}

/* Put what a rank has of an op in its place; replicas must agree to the bit. */
static enum status show(struct trained *t, const struct stage *s, const struct stage_op *o)
{
    const float *own = stage_parameters(s, (size_t)(o - s->layout.op));
    for (const struct layer_part *p = o->layer.part; p < o->layer.part + LAYER_PARTS; p++)
        for (size_t k = 0; k < p->n; k++, own++) {
            size_t at = p->from + k / p->run * p->stride + k % p->run;
            float *known = &t->parameter[o->index][at];
            if (!isnan(*known) && *known != *own)
                return error_set(STATUS_INVALID, "op %u: %zu differs between ranks", o->index, at);
            t->seen[o->index] += isnan(*known) ? 1 : 0;
            *known = *own;
        }
    return STATUS_OK;
}

/* With ZeRO 3 the parameters of a bucket are there until those of the next one are. */
static enum status observe_gathered(void *self, const struct program_op *op)
{
    enum status st = device_cpu.gathered(self, op);
    const struct cpu *c = self;
    const struct stage *s = c->stage;
    while (s->index != op->stage)
        s++;
    const struct stage_bucket *b = &s->share.bucket[op->part > 0 ? op->part - 1 : 0];
    pthread_mutex_lock(&observed->mutex);
    for (size_t k = b->low; k < b->high && st == STATUS_OK; k++)
        st = show(observed, s, &s->layout.op[k]);
    pthread_mutex_unlock(&observed->mutex);
    return st;
}

static enum status train_rank(struct actor *a, void *transport_self)
{
    enum status st;
    struct trained *t = (struct trained *)((char *)a->mesh - offsetof(struct trained, mesh));
    struct executor_step step = {0};
    struct device device = device_cpu;
    struct executor e = {.program = &a->mesh->program,
                         .rank = a->rank,
                         .device = &device,
                         .transport = a->mesh->transport,
                         .transport_self = transport_self,
                         .timeout_s = patience_s};
    const struct device_options options = {.learning_rate = 1e-3};
    observed = t;
    device.array = observe_array;
    device.compute = observe_compute;
    device.gathered = observe_gathered;
    TRY(device_cpu.open(t->model, e.program, a->rank, &options, &e.device_self));
    TRY(executor_step_init(&step, e.program, a->rank));
    for (uint32_t k = 0; k < a->steps; k++) {
        TRY(executor_run(&e, k, &step));
        pthread_mutex_lock(&t->mutex);
        t->loss[k] += step.loss;
        pthread_mutex_unlock(&t->mutex);
    }
    TRY(executor_finish(&e));
    const struct cpu *c = e.device_self;
    pthread_mutex_lock(&t->mutex);
    for (size_t s = 0; s < c->stages && st == STATUS_OK; s++) {
        t->buckets =
            c->stage[s].share.buckets > t->buckets ? c->stage[s].share.buckets : t->buckets;
        size_t n = c->stage[s].share.zero < 3 ? c->stage[s].layout.n : 0;
        for (size_t k = 0; k < n && st == STATUS_OK; k++)
            st = show(t, &c->stage[s], &c->stage[s].layout.op[k]);
    }
    pthread_mutex_unlock(&t->mutex);
out:
    executor_step_free(&step);
    device_cpu.close(e.device_self);
    return st;
}

static void lower(const struct model *m, const struct spread *how, struct program *out)
{
    struct topology t = sample_clique(MESH_RANKS, 1e-6, 1e9);
    struct plan plan = {0};
    const struct partition_algorithm *balanced;
    const struct partition_request request = {
        .stages = how->stages,
        .replicas = how->replicas,
        .tensor_parallel = how->shards,
        .expert_parallel = how->experts,
        .context_parallel = how->context,
        .context_exchange = how->exchange,
        .chunks = how->chunks,
        .zero = how->zero,
        .zero_keep = how->keep && how->zero == 3,
        .zero_group = how->zero > 0 ? how->group : 0,
        .recompute_layers = how->recompute_layers,
        .recompute_unit = how->recompute_unit,
        .recompute = how->recompute,
        .bucket_bytes = how->bucket_bytes,
        .reduce_dtype = how->reduce_dtype,
        .schedule = how->schedule ? how->schedule : "1f1b",
        .model = "m",
        .platform = "p",
        .optimizer = "adam",
        .microbatches = MICROBATCHES,
        .microbatch_size = MICROBATCH,
    };
    if (partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, m, &t, &request, &plan) != STATUS_OK ||
        plan_lower(&plan, m, &t, out) != STATUS_OK || executor_supports(out) != STATUS_OK)
        fail_msg("%s: %s", how->name, error_message());
    plan_free(&plan);
    topology_free(&t);
}

static void train_steps(const struct model *m, const struct spread *how, size_t steps,
                        struct trained *t)
{
    struct actor a[MESH_RANKS] = {0};
    *t = (struct trained){.model = m,
                          .mesh = {.transport = &transport_local},
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .parameter = calloc(m->n, sizeof *t->parameter),
                          .seen = calloc(m->n, sizeof *t->seen)};
    assert_non_null(t->parameter);
    assert_non_null(t->seen);
    for (uint32_t i = 0; i < m->n; i++) {
        t->parameter[i] = malloc((parameters_of(t, i) + 1) * sizeof(float));
        assert_non_null(t->parameter[i]);
        for (size_t k = 0; k < parameters_of(t, i); k++)
            t->parameter[i][k] = NAN;
    }
    lower(m, how, &t->mesh.program);
    t->moved = calloc(t->mesh.program.ops, sizeof *t->moved);
    t->step_of = calloc(t->mesh.program.ops, sizeof *t->step_of);
    assert_non_null(t->moved);
    assert_non_null(t->step_of);
    play_all(&t->mesh, a, train_rank, steps);
    for (uint32_t i = 0; i < m->n; i++)
        assert_int_equal(t->seen[i], parameters_of(t, i));
}

static void forget(struct trained *t)
{
    for (size_t i = 0; i < t->model->n; i++)
        free(t->parameter[i]);
    free(t->parameter);
    free(t->seen);
    free(t->moved);
    free(t->step_of);
    mesh_close(&t->mesh);
}

/* Largest difference of any parameter. */
static double distance(const struct trained *a, const struct trained *b)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->model->n; i++)
        for (size_t k = 0; k < parameters_of(a, i); k++)
            worst = fmax(worst, fabs((double)a->parameter[i][k] - (double)b->parameter[i][k]));
    return worst;
}

/* A model of the zoo, or one of the configurations beside the tests: "NAME.json" or
 * "NAME.json:choices". */
static void load(const char *spec, struct model *out)
{
    char path[4096];
    const char *colon = strchr(spec, ':'), *file = strstr(spec, ".json");
    const struct import_options o = {.minibatch_size = 1, .choices = colon};
    snprintf(path, sizeof path, "%s/tests/models/%.*s", SOURCE_DIR,
             colon ? (int)(colon - spec) : (int)strlen(spec), spec);
    if ((file ? model_import(path, &o, out) : zoo_build(spec, out)) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
}

/* `tolerance` 0: the same bits. (A step of Adam moves a parameter by up to 1e-3.) */
static void compare(const char *spec, const struct spread *how, size_t n, double tolerance)
{
    struct model m = {0};
    struct trained one, other;
    load(spec, &m);
    train_steps(&m, &(struct spread){.name = "one", .stages = 1, .replicas = 1}, STEPS, &one);
    for (size_t k = 0; k < n; k++) {
        train_steps(&m, &how[k], STEPS, &other);
        double apart = distance(&one, &other);
        print_message("%s, %s: parameters %.2g apart\n", spec, how[k].name, apart);
        assert_true(apart <= tolerance);
        assert_true(other.buckets > 1 || how[k].bucket_bytes == 0 ||
                    how[k].bucket_bytes == 1 << 30);
        for (size_t i = 0; i < STEPS; i++)
            assert_near(other.loss[i], one.loss[i], tolerance);
        forget(&other);
    }
    forget(&one);
    model_free(&m);
}

static const char gpt[] = "gpt-tiny:layers=2,hidden=32,tokens=16";
static const char tied[] = "gpt-tiny:layers=2,hidden=32,tokens=16,tied=1";
static const char bert[] = "bert-base:layers=2,hidden=32,heads=4,tokens=16,vocabulary=301";

static void tensor_parallel_runs_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "2 shards", .stages = 1, .replicas = 1, .shards = 2},
        {.name = "4 shards", .stages = 1, .replicas = 1, .shards = 4},
        {.name = "2 stages of 2 shards", .stages = 2, .replicas = 1, .shards = 2},
        {.name = "2 shards, recomputing",
         .stages = 1,
         .replicas = 1,
         .shards = 2,
         .recompute = RECOMPUTE_FULL},
    };
    compare(gpt, how, sizeof how / sizeof *how, 1e-5);
    compare(tied, how, sizeof how / sizeof *how, 1e-5);
    compare(bert, how, sizeof how / sizeof *how, 1e-5);
}

static void data_parallel_runs_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "2 replicas", .stages = 1, .replicas = 2},
        {.name = "4 replicas", .stages = 1, .replicas = 4},
        {.name = "2 stages of 2 replicas", .stages = 2, .replicas = 2},
        {.name = "2 replicas, buckets", .stages = 1, .replicas = 2, .bucket_bytes = 20000},
        {.name = "2 replicas, ZeRO 1", .stages = 1, .replicas = 2, .zero = 1},
        {.name = "4 replicas, ZeRO 2", .stages = 1, .replicas = 4, .zero = 2},
        {.name = "4 replicas, ZeRO 3", .stages = 1, .replicas = 4, .zero = 3},
        {.name = "2 stages of 2 replicas, ZeRO 1", .stages = 2, .replicas = 2, .zero = 1},
    };
    compare(gpt, how, sizeof how / sizeof *how, 1e-5);
    compare(tied, how, sizeof how / sizeof *how, 1e-5);
}

/* FSDP as people use it: units that are layers, kept after the forward or not, and shards that are
 * spread over some of the replicas only, with and without recomputation. */
static void fsdp_runs_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "kept", .stages = 1, .replicas = 4, .zero = 3, .keep = true},
        {.name = "kept, in a piece",
         .stages = 1,
         .replicas = 2,
         .zero = 3,
         .keep = true,
         .bucket_bytes = 1 << 30},
        {.name = "recomputing", .stages = 1, .replicas = 4, .zero = 3, .recompute = RECOMPUTE_FULL},
        {.name = "recomputing, two layers together",
         .stages = 1,
         .replicas = 2,
         .zero = 3,
         .recompute = RECOMPUTE_FULL,
         .recompute_unit = 2},
        {.name = "recomputing, kept",
         .stages = 1,
         .replicas = 2,
         .zero = 3,
         .keep = true,
         .recompute = RECOMPUTE_FULL,
         .recompute_unit = 2},
        {.name = "ZeRO 1, groups of 2", .stages = 1, .replicas = 4, .zero = 1, .group = 2},
        {.name = "ZeRO 1, groups of 2, buckets",
         .stages = 1,
         .replicas = 4,
         .zero = 1,
         .group = 2,
         .bucket_bytes = 5000},
        {.name = "ZeRO 2, groups of 2", .stages = 1, .replicas = 4, .zero = 2, .group = 2},
        {.name = "ZeRO 3, groups of 2", .stages = 1, .replicas = 4, .zero = 3, .group = 2},
        {.name = "ZeRO 3, groups of 2, kept, recomputing",
         .stages = 1,
         .replicas = 4,
         .zero = 3,
         .group = 2,
         .keep = true,
         .recompute = RECOMPUTE_FULL},
        {.name = "2 shards, groups of 2",
         .stages = 1,
         .replicas = 4,
         .shards = 2,
         .zero = 3,
         .group = 2},
        {.name = "2 stages, groups of 2", .stages = 2, .replicas = 4, .zero = 3, .group = 2},
        {.name = "2 stages, kept", .stages = 2, .replicas = 2, .zero = 3, .keep = true},
        {.name = "interleaved, kept",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .zero = 3,
         .keep = true,
         .schedule = "interleaved"},
        {.name = "zb-h1, groups of 2",
         .stages = 2,
         .replicas = 4,
         .zero = 3,
         .group = 2,
         .schedule = "zb-h1"},
        {.name = "zb-h1, kept",
         .stages = 2,
         .replicas = 2,
         .zero = 3,
         .keep = true,
         .schedule = "zb-h1"},
    };
    compare(gpt, how, sizeof how / sizeof *how, 1e-5);
    compare(tied, how, 10, 1e-5);
}

static void hybrid_runs_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "2 stages, 2 replicas, 2 shards", .stages = 2, .replicas = 2, .shards = 2},
        {.name = "2 x 2 x 2, ZeRO 3", .stages = 2, .replicas = 2, .shards = 2, .zero = 3},
        {.name = "2 x 2 x 2, ZeRO 1, buckets, recomputing",
         .stages = 2,
         .replicas = 2,
         .shards = 2,
         .zero = 1,
         .bucket_bytes = 10000,
         .recompute = RECOMPUTE_SELECTIVE},
        {.name = "interleaved, 2 x 2 replicas, ZeRO 2",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .zero = 2,
         .schedule = "interleaved"},
        {.name = "zb-h1, 2 x 2 replicas, ZeRO 3",
         .stages = 2,
         .replicas = 2,
         .zero = 3,
         .schedule = "zb-h1"},
        {.name = "zb-v, 2 replicas, ZeRO 3",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .zero = 3,
         .schedule = "zb-v"},
        {.name = "dualpipe-v, 2 shards",
         .stages = 4,
         .chunks = 2,
         .replicas = 1,
         .shards = 2,
         .schedule = "dualpipe-v"},
        {.name = "dualpipe", .stages = 4, .chunks = 2, .replicas = 2, .schedule = "dualpipe"},
        {.name = "dualpipe, ZeRO 2, 2 x 2 shards",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .shards = 2,
         .zero = 2,
         .schedule = "dualpipe"},
    };
    compare(gpt, how, sizeof how / sizeof *how, 1e-5);
}

/* Replicas that share sequences: causal and bidirectional attention, fixed and rotary positions,
 * grouped queries, windows, flash; every part of a pass exchanges what its attention needs. */
static void context_parallel_runs_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "context 2", .stages = 1, .replicas = 2, .context = 2},
        {.name = "context 4", .stages = 1, .replicas = 4, .context = 4},
        {.name = "context 2, all-gather",
         .stages = 1,
         .replicas = 2,
         .context = 2,
         .exchange = EXCHANGE_ALLGATHER},
        {.name = "context 2, all-to-all",
         .stages = 1,
         .replicas = 2,
         .context = 2,
         .exchange = EXCHANGE_ALLTOALL},
        {.name = "2 stages of 4 replicas, context 2", .stages = 2, .replicas = 4, .context = 2},
        {.name = "2 stages, 2 shards, context 2, recomputing, ZeRO 3",
         .stages = 2,
         .replicas = 2,
         .shards = 2,
         .context = 2,
         .zero = 3,
         .recompute = RECOMPUTE_FULL},
        {.name = "context 2 of 4, buckets, selective",
         .stages = 1,
         .replicas = 4,
         .context = 2,
         .bucket_bytes = 20000,
         .recompute = RECOMPUTE_SELECTIVE},
        {.name = "2 shards, context 2, all-to-all, recomputing, ZeRO 3",
         .stages = 1,
         .replicas = 2,
         .shards = 2,
         .context = 2,
         .exchange = EXCHANGE_ALLTOALL,
         .zero = 3,
         .recompute = RECOMPUTE_FULL},
        {.name = "zb-h1, context 2, ZeRO 2",
         .stages = 2,
         .replicas = 2,
         .context = 2,
         .zero = 2,
         .schedule = "zb-h1"},
        {.name = "interleaved, context 2, ZeRO 1",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .context = 2,
         .zero = 1,
         .schedule = "interleaved"},
    };
    compare(gpt, how, sizeof how / sizeof *how, 1e-5);
    compare(bert, how, 5, 1e-5);
}

/* Backwards of a stage stand in ascending order, whole or in halves. */
static void stages_in_a_v_have_the_same_bits(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "zb-v", .stages = 4, .chunks = 2, .replicas = 1, .schedule = "zb-v"},
        {.name = "zb-v of 4", .stages = 8, .chunks = 2, .replicas = 1, .schedule = "zb-v"},
        {.name = "dualpipe-v", .stages = 4, .chunks = 2, .replicas = 1, .schedule = "dualpipe-v"},
        {.name = "dualpipe-v of 3",
         .stages = 6,
         .chunks = 2,
         .replicas = 1,
         .schedule = "dualpipe-v"},
    };
    compare(gpt, how, sizeof how / sizeof *how, 0);
    compare("mlp:layers=8,hidden=32", how, sizeof how / sizeof *how, 0);
    compare(tied, how, sizeof how / sizeof *how, 0); /* both copies are on one device */
    compare(bert, how, sizeof how / sizeof *how, 0);
}

static const char *const configurations[] = {
    "llama.json:tokens=16",  "mixtral.json:tokens=16",        "qwen3_moe.json:tokens=16",
    "gemma2.json:tokens=16", "gemma2.json:tokens=16,flash=0", "deepseek.json:tokens=16"};
enum { CONFIGURATIONS = sizeof configurations / sizeof *configurations };

/* Models of today: cut into stages, and what is made again, to the bit; spread over replicas. */
static void configurations_match_one_process(void **state)
{
    (void)state;
    static const struct spread same[] = {
        {.name = "2 stages", .stages = 2, .replicas = 1},
        {.name = "4 stages, gpipe", .stages = 4, .replicas = 1, .schedule = "gpipe"},
        {.name = "full", .stages = 2, .replicas = 1, .recompute = RECOMPUTE_FULL},
        {.name = "selective", .stages = 2, .replicas = 1, .recompute = RECOMPUTE_SELECTIVE},
        {.name = "zb-h1", .stages = 2, .replicas = 1, .schedule = "zb-h1"},
    };
    static const struct spread close[] = {
        {.name = "4 replicas", .stages = 1, .replicas = 4},
        {.name = "2 stages of 2 replicas", .stages = 2, .replicas = 2},
        {.name = "2 replicas, buckets, ZeRO 1",
         .stages = 1,
         .replicas = 2,
         .zero = 1,
         .bucket_bytes = 10000},
        {.name = "ZeRO 2", .stages = 1, .replicas = 2, .zero = 2},
        {.name = "ZeRO 3", .stages = 1, .replicas = 4, .zero = 3},
    };
    for (size_t k = 0; k < CONFIGURATIONS; k++) {
        compare(configurations[k], same, sizeof same / sizeof *same, 0);
        compare(configurations[k], close, sizeof close / sizeof *close, 1e-5);
    }
}

/* By heads, of which there are fewer for keys, by inner width of MLPs and of experts. */
static void configurations_over_shards_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "2 shards", .stages = 1, .replicas = 1, .shards = 2},
        {.name = "2 stages, 2 replicas, 2 shards", .stages = 2, .replicas = 2, .shards = 2},
        {.name = "2 shards, full",
         .stages = 1,
         .replicas = 1,
         .shards = 2,
         .recompute = RECOMPUTE_FULL},
        {.name = "2 shards, selective",
         .stages = 1,
         .replicas = 1,
         .shards = 2,
         .recompute = RECOMPUTE_SELECTIVE},
        {.name = "2 shards, ZeRO 3", .stages = 1, .replicas = 2, .shards = 2, .zero = 3},
    };
    for (size_t k = 0; k < CONFIGURATIONS; k++)
        if (strncmp(configurations[k], "qwen3_moe", 9) != 0) /* norms of heads are not divided */
            compare(configurations[k], how, sizeof how / sizeof *how, 1e-5);
}

static void experts_over_replicas_match_one_process(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "experts over 2", .stages = 1, .replicas = 2, .experts = 2},
        {.name = "experts over 4", .stages = 1, .replicas = 4, .experts = 4},
        {.name = "experts over 2 of 4", .stages = 1, .replicas = 4, .experts = 2},
        {.name = "2 stages, experts over 2", .stages = 2, .replicas = 2, .experts = 2},
        {.name = "experts over 2, 2 shards", .stages = 1, .replicas = 2, .experts = 2, .shards = 2},
        {.name = "experts over 2 of 4, ZeRO 1",
         .stages = 1,
         .replicas = 4,
         .experts = 2,
         .zero = 1},
        {.name = "experts over 2, ZeRO 1", .stages = 1, .replicas = 2, .experts = 2, .zero = 1},
        {.name = "experts over 2 of 4, buckets",
         .stages = 1,
         .replicas = 4,
         .experts = 2,
         .bucket_bytes = 10000},
        {.name = "experts over 2, full",
         .stages = 1,
         .replicas = 2,
         .experts = 2,
         .recompute = RECOMPUTE_FULL},
        {.name = "experts over 2, selective",
         .stages = 1,
         .replicas = 2,
         .experts = 2,
         .recompute = RECOMPUTE_SELECTIVE},
        {.name = "experts over 2, zb-h1",
         .stages = 2,
         .replicas = 2,
         .experts = 2,
         .schedule = "zb-h1"},
        {.name = "experts over 2, dualpipe-v",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .experts = 2,
         .schedule = "dualpipe-v"},
        {.name = "experts over 2, dualpipe",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .experts = 2,
         .schedule = "dualpipe"},
        {.name = "experts over 2, 2 shards, dualpipe",
         .stages = 4,
         .chunks = 2,
         .replicas = 2,
         .shards = 2,
         .experts = 2,
         .schedule = "dualpipe"},
    };
    compare("mixtral.json:tokens=16", how, sizeof how / sizeof *how, 1e-5);
    compare("qwen3_moe.json:tokens=16", how, 1, 1e-5);
    compare("qwen3_moe.json:tokens=16", how + 2, 2, 1e-5);
}

static void what_is_made_again_has_the_same_bits(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "full", .stages = 2, .replicas = 1, .recompute = RECOMPUTE_FULL},
        {.name = "selective", .stages = 2, .replicas = 1, .recompute = RECOMPUTE_SELECTIVE},
        {.name = "full, first layer",
         .stages = 2,
         .replicas = 1,
         .recompute = RECOMPUTE_FULL,
         .recompute_layers = 1},
        {.name = "full, the stage",
         .stages = 2,
         .replicas = 1,
         .recompute = RECOMPUTE_FULL,
         .recompute_unit = 100},
        {.name = "full, gpipe",
         .stages = 3,
         .replicas = 1,
         .recompute = RECOMPUTE_FULL,
         .schedule = "gpipe"},
    };
    compare(gpt, how, sizeof how / sizeof *how, 0);
    compare(tied, how, sizeof how / sizeof *how, 0);
}

/* ZeRO 1 divides the work of data parallelism, ZeRO 3 that of ZeRO 2: bit for bit. */
static void sharding_changes_no_bits(void **state)
{
    (void)state;
    static const struct spread how[] = {
        {.name = "plain", .stages = 2, .replicas = 2},
        {.name = "ZeRO 1", .stages = 2, .replicas = 2, .zero = 1},
        {.name = "ZeRO 2", .stages = 2, .replicas = 2, .zero = 2},
        {.name = "ZeRO 3", .stages = 2, .replicas = 2, .zero = 3},
        {.name = "ZeRO 2, buckets", .stages = 1, .replicas = 4, .zero = 2, .bucket_bytes = 9000},
        {.name = "kept", .stages = 1, .replicas = 4, .zero = 3, .bucket_bytes = 9000, .keep = true},
    };
    struct model m = {0};
    assert_int_equal(zoo_build(gpt, &m), STATUS_OK);
    for (size_t k = 0; k < sizeof how / sizeof *how; k += 2) {
        struct trained a, b;
        train_steps(&m, &how[k], STEPS, &a);
        train_steps(&m, &how[k + 1], STEPS, &b);
        assert_true(distance(&a, &b) == 0);
        forget(&a);
        forget(&b);
    }
    model_free(&m);
}

/* Without flush: one stage updates after every microbatch like a stream of small steps. With two
 * stages the backward uses the weights of its forward: it learns, to other parameters. */
static void without_flush_it_learns(void **state)
{
    (void)state;
    struct model m = {0};
    assert_int_equal(zoo_build(gpt, &m), STATUS_OK);
    for (size_t stages = 1; stages <= 3; stages++)
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            struct trained t;
            train_steps(&m,
                        &(struct spread){.name = "pipedream",
                                         .stages = stages,
                                         .replicas = replicas,
                                         .schedule = "pipedream"},
                        STEPS, &t);
            assert_true(t.loss[STEPS - 1] < t.loss[0]);
            forget(&t);
        }
    model_free(&m);
}

/* ---- sums in bf16 */

/* Gradients and shards' activations are rounded on their way: losses stay near those of fp32 sums;
 * a reduce-scatter and a gather are still an all-reduce, to the bit. */
static void sums_in_bf16_change_little(void **state)
{
    (void)state;
    struct model m = {0};
    struct trained wide, half, before = {0};
    static const struct spread all[] = {
        {.name = "2 x 2 x 2", .stages = 2, .replicas = 2, .shards = 2},
        {.name = "buckets", .stages = 1, .replicas = 4, .shards = 1, .bucket_bytes = 5000},
        {.name = "buckets, ZeRO 1", .stages = 1, .replicas = 4, .zero = 1, .bucket_bytes = 5000},
        {.name = "ZeRO 2", .stages = 2, .replicas = 2, .shards = 1, .zero = 2},
        {.name = "ZeRO 3", .stages = 2, .replicas = 2, .shards = 2, .zero = 3},
        {.name = "halves", .stages = 2, .replicas = 2, .zero = 2, .schedule = "zb-h1"},
        {.name = "groups", .stages = 1, .replicas = 4, .zero = 3, .group = 2},
        {.name = "groups, ZeRO 1", .stages = 1, .replicas = 4, .zero = 1, .group = 2},
        {.name = "kept", .stages = 1, .replicas = 4, .zero = 3, .keep = true},
    };
    assert_int_equal(zoo_build(gpt, &m), STATUS_OK);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct spread how = all[k];
        train_steps(&m, &how, STEPS, &wide);
        how.reduce_dtype = DATA_bf16;
        train_steps(&m, &how, STEPS, &half);
        for (size_t s = 0; s < STEPS; s++)
            if (!(fabs(half.loss[s] - wide.loss[s]) < 2e-3 * wide.loss[s]))
                fail_msg("%s: loss %g, not %g", how.name, half.loss[s], wide.loss[s]);
        assert_true(half.loss[STEPS - 1] != wide.loss[STEPS - 1]);
        for (uint32_t i = 0; k == 2 && i < m.n; i++)
            assert_memory_equal(half.parameter[i], before.parameter[i],
                                parameters_of(&half, i) * sizeof(float));
        forget(&wide);
        if (k == 2)
            forget(&before);
        before = half;
        if (k != 1)
            forget(&half);
    }
    model_free(&m);
}

/* ---- what the program says is what is done */

/* Bytes that all shards of the op's replica move of it, divided by their number. */
static double mean_moved(const struct trained *t, uint32_t rank, size_t i)
{
    const struct program *p = &t->mesh.program;
    const struct program_rank *r = &p->rank[rank];
    uint32_t shards = p->stage[r->stage].shards, first = rank - r->shard;
    double sum = 0;
    for (uint32_t k = 0; k < shards; k++) /* they run the same list */
        sum += (double)t->moved[p->op_start[first + k] + (i - p->op_start[rank])];
    return sum / shards;
}

/* Bucket, among those of stage s, of the op at this position of the stage. */
static uint32_t bucket_with(const struct program *p, const struct program_stage *s, size_t position)
{
    uint32_t b = 0;
    while (p->bucket[s->bucket + b].low > position)
        b++;
    return b;
}

/* Weights in other buckets of the stage that the ops of bucket b share: each owner's bucket once.
 */
static int64_t borrowed_by(const struct trained *t, uint32_t stage, uint32_t b)
{
    const struct program *p = &t->mesh.program;
    const struct program_stage *s = &p->stage[stage];
    const uint32_t *op = p->stage_op + p->stage_start[stage];
    size_t n = p->stage_start[stage + 1] - p->stage_start[stage];
    int64_t bytes = 0;
    for (size_t k = 0; k < n; k++) {
        bool borrowed = false;
        for (size_t i = 0; i < n && bucket_with(p, s, k) != b; i++)
            borrowed |= t->model->op[op[i]].shares == op[k] && bucket_with(p, s, i) == b;
        bytes += borrowed ? p->bucket[s->bucket + bucket_with(p, s, k)].bytes : 0;
    }
    return bytes;
}

/* What the buckets say that a collective moves. */
static int64_t said_of(const struct trained *t, const struct program_op *o, uint8_t part_before)
{
    const struct program *p = &t->mesh.program;
    const struct program_stage *s = &p->stage[o->stage];
    uint32_t part = s->zero >= 2 ? o->part : o->purpose == FOR_DATA ? part_before : 0;
    int64_t bytes = 0;
    for (uint32_t b = 0; b < s->buckets; b++)
        if (s->buckets == 1 || part == 0 || b + 1 == part)
            bytes += p->bucket[s->bucket + b].bytes;
    bool whole = s->buckets == 1 || part == 0 || o->purpose == FOR_DATA;
    return bytes + (whole || s->keep ? 0 : borrowed_by(t, o->stage, part - 1));
}

static void check_moved(const struct trained *t, const char *name)
{
    const struct program *p = &t->mesh.program;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (!op_is_collective(o))
                continue;
            if (o->purpose == FOR_TENSOR) { /* the mean of its calls, rounded down */
                int64_t less = t->moved[i] - o->count * o->bytes;
                if (less < 0 || less >= o->count)
                    fail_msg("%s: %u sums of %lld bytes, moved %lld", name, o->count,
                             (long long)o->bytes, (long long)t->moved[i]);
                continue;
            }
            if (o->purpose == FOR_TIES) {
                if (mean_moved(t, r, i) != (double)o->bytes)
                    fail_msg("%s: ties of %lld bytes, moved %g", name, (long long)o->bytes,
                             mean_moved(t, r, i));
                continue;
            }
            int64_t said = said_of(t, o, i > 0 ? p->op[i - 1].part : 0);
            if (o->purpose == FOR_DATA)
                said = program_reduced_bytes(p, said);
            const struct program_stage *s = &p->stage[o->stage];
            if (o->purpose == FOR_DATA && o->kind == OP_ALLREDUCE && s->zero > 0) {
                /* chunks of a bucket differ by a number */
                said = program_reduced_bytes(
                    p, p->bucket[s->bucket + (o->part ? o->part - 1u : 0)].bytes);
                if (said / s->group != o->bytes ||
                    fabs(mean_moved(t, r, i) - (double)o->bytes) > (double)p->reduce_bytes)
                    fail_msg("%s: rank %u op %zu: groups sum %lld bytes, moved %g", name, r,
                             i - p->op_start[r], (long long)o->bytes, mean_moved(t, r, i));
                continue;
            }
            int64_t rest = said - o->count * o->bytes; /* of the mean of calls, rounded down */
            double more = mean_moved(t, r, i) - (double)said; /* the mean of shards, rounded down */
            if (rest < 0 || rest >= o->count || more < 0 ||
                more >= (p->reduce_bytes != p->number_bytes ? 1 : 1e-9))
                fail_msg("%s: rank %u op %zu: bucket of %lld bytes, op of %lld, moved %g", name, r,
                         i - p->op_start[r], (long long)said, (long long)o->bytes,
                         mean_moved(t, r, i));
        }
}

/* The parts of the replicas are the chunks of the ring, and together the whole. */
static void check_parts(uint32_t replicas, size_t n)
{
    size_t sum = 0;
    for (uint32_t k = 0; k < replicas; k++) {
        struct program_range own = program_zero_part(n, replicas, k);
        struct ring_part chunk = ring_part(n, replicas, ring_owned(replicas, k));
        assert_int_equal(own.first, chunk.first);
        assert_int_equal(own.n, chunk.n);
        sum += own.n;
    }
    assert_int_equal(sum, n);
}

static void what_is_lowered_is_what_is_moved(void **state)
{
    (void)state;
    struct model m[2] = {0};
    assert_int_equal(zoo_build(gpt, &m[0]), STATUS_OK);
    assert_int_equal(zoo_build(bert, &m[1]), STATUS_OK);
    uint64_t drawn = 0;
    size_t in_parts = 0, shared = 0, groups = 0;
    for (size_t k = 0; k < 80; k++) {
        struct spread how = {.name = "random", .reduce_dtype = k % 5 < 2 ? DATA_bf16 : DATA_ANY};
        how.shards = 1u << random_at(7, drawn++) % 3;
        how.replicas = 1 + (uint32_t)(random_at(7, drawn++) % (how.shards == 1 ? 4 : 2));
        how.stages = 1 + random_at(7, drawn++) % 2;
        how.stages = how.stages * how.shards * how.replicas > MESH_RANKS ? 1 : how.stages;
        how.zero = (uint32_t)(random_at(7, drawn++) % 4);
        bool ties = k % 2 == 1 && how.stages > 1; /* of weights whose gradients are whole */
        how.zero = MICROBATCHES % how.replicas == 0 && !ties ? how.zero : how.zero % 2;
        uint64_t most = (uint64_t)1 << random_at(7, drawn++) % 18; /* smaller than any op, too */
        how.bucket_bytes = k % 4 < 3 ? 1 + (int64_t)(random_at(7, drawn++) % most) : 0;
        how.bucket_bytes = ties && how.zero > 0 ? 0 : how.bucket_bytes;
        how.keep = random_at(7, drawn++) % 3 == 0;
        how.group = how.replicas == 4 && random_at(7, drawn++) % 2 ? 2 : 0;
        how.recompute = random_at(7, drawn++) % 3 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        how.recompute_unit = (uint32_t)(random_at(7, drawn++) % 4);
        how.recompute_layers = (uint32_t)(random_at(7, drawn++) % 3);
        struct trained t;
        char name[128];
        snprintf(
            name, sizeof name,
            "%zu stages x %u replicas (groups of %u) x %u shards, ZeRO %u%s, recompute %d of %u, "
            "%lld bytes",
            how.stages, how.replicas, how.group, how.shards, how.zero, how.keep ? " kept" : "",
            how.recompute, how.recompute_unit, (long long)how.bucket_bytes);
        groups += how.group > 0 && how.zero > 0;
        train_steps(&m[k % 2], &how, 1, &t);
        check_moved(&t, name);
        for (size_t b = 0; b < t.mesh.program.buckets; b++)
            check_parts(how.replicas, (size_t)t.mesh.program.bucket[b].bytes / sizeof(float));
        in_parts += t.buckets > 1;
        shared += t.mesh.program.stage[0].zero > 0;
        forget(&t);
    }
    assert_true(in_parts > 4 && shared > 4 && groups > 2);
    model_free(&m[0]);
    model_free(&m[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_bf16_change_little),
        cmocka_unit_test(what_is_lowered_is_what_is_moved),
        cmocka_unit_test(tensor_parallel_runs_match_one_process),
        cmocka_unit_test(data_parallel_runs_match_one_process),
        cmocka_unit_test(fsdp_runs_match_one_process),
        cmocka_unit_test(context_parallel_runs_match_one_process),
        cmocka_unit_test(hybrid_runs_match_one_process),
        cmocka_unit_test(stages_in_a_v_have_the_same_bits),
        cmocka_unit_test(what_is_made_again_has_the_same_bits),
        cmocka_unit_test(configurations_match_one_process),
        cmocka_unit_test(configurations_over_shards_match_one_process),
        cmocka_unit_test(experts_over_replicas_match_one_process),
        cmocka_unit_test(sharding_changes_no_bits),
        cmocka_unit_test(without_flush_it_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
