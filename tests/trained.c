/* Ranks that are threads train a model and show what they have of it. */
#include "tests/trained.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "exec/device.h"
#include "exec/device/cpu/stage.h"
#include "exec/executor.h"
#include "model/import.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

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
    uint32_t op, step; /* of the pass */
};

/* What shards do with rows in the pass is the program's op beside it. */
static void note_move(const struct observed_sum *s, enum layer_move how, int64_t bytes)
{
    const struct program *p = &observed->mesh.program;
    uint32_t op = executor_move_of(p, program_rank_of(p, s->op), s->op, how);
    if (op >= p->ops)
        return;
    observed->moved[op] = (observed->step_of[op] == s->step ? observed->moved[op] : 0) + bytes;
    observed->step_of[op] = s->step;
}

static void observe_sum(void *self, enum element e, void *data, size_t n)
{
    const struct observed_sum *s = self;
    int64_t bytes = (int64_t)(n * element_bytes(e));
    *s->moved += bytes;
    note_move(s, MOVE_SCATTER, bytes); /* by rows: in two halves */
    note_move(s, MOVE_GATHER, bytes);
    s->to->sum(s->to->self, e, data, n);
}

static void pass_exchange(void *self, enum op_purpose purpose, enum op_kind kind, void *data,
                          size_t n)
{
    const struct observed_sum *s = self;
    s->to->exchange(s->to->self, purpose, kind, data, n);
}

static void pass_move(void *self, enum layer_move how, enum element e, void *data, size_t n)
{
    const struct observed_sum *s = self;
    note_move(s, how, (int64_t)(n * element_bytes(e)));
    s->to->move(s->to->self, how, e, data, n);
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
    struct observed_sum mine = {reduction, sum < p->ops ? &observed->moved[sum] : &ignored, i,
                                step};
    if (sum < p->ops && step != observed->step_of[sum])
        observed->moved[sum] = 0;
    if (sum < p->ops)
        observed->step_of[sum] = step;
    const struct layer_reduction to = {&mine, observe_sum, pass_exchange, pass_move, pass_failure};
    return device_cpu.compute(self, step, op, &to);
}

size_t parameters_of(const struct trained *t, uint32_t op)
{
    return (size_t)t->model->op[op].parameter_bytes / sizeof(float);
}

/* Put what a rank has of an op in its place, or of what it borrows; replicas and copies must agree
 * to the bit. */
static enum status show(struct trained *t, const struct stage *s, const struct stage_op *o)
{
    bool borrows = o->layer.borrows;
    uint32_t index = borrows ? t->model->op[o->index].shares : o->index;
    if (borrows && !s->state.parameter) /* ZeRO 3 */
        return STATUS_OK;
    const float *own =
        borrows ? s->state.parameter + o->shared : stage_parameters(s, (size_t)(o - s->layout.op));
    for (const struct layer_part *p = o->layer.part; p < o->layer.part + LAYER_PARTS; p++)
        for (size_t k = 0; k < p->n; k++, own++) {
            size_t at = p->from + k / p->run * p->stride + k % p->run;
            float *known = &t->parameter[index][at];
            if (!isnan(*known) && *known != *own)
                return error_set(STATUS_INVALID, "op %u: %zu differs between ranks", index, at);
            t->seen[index] += isnan(*known) ? 1 : 0;
            *known = *own;
        }
    return STATUS_OK;
}

/* With ZeRO 3 the parameters of a bucket are there until those of the next one are. */
static enum status observe_gathered(void *self, const struct program_op *op)
{
    enum status st = device_cpu.gathered(self, op);
    const struct stage_set *c = self;
    const struct stage *s = c->stage;
    while (s->index != op->stage)
        s++;
    const struct stage_bucket *b = &s->share.bucket[op->part > 0 ? op->part - 1 : 0];
    pthread_mutex_lock(&observed->mutex);
    bool there = s->share.reshards && s->state.gathered == (op->part > 0 ? op->part : 1);
    for (size_t k = b->low; k < b->high && st == STATUS_OK && there; k++)
        if (!s->layout.op[k].alone)
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
    const struct device_options options = {.learning_rate = t->learning_rate};
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
    const struct stage_set *c = e.device_self;
    pthread_mutex_lock(&t->mutex);
    for (size_t s = 0; s < c->stages && st == STATUS_OK; s++) {
        t->versions =
            c->stage[s].state.versions > t->versions ? c->stage[s].state.versions : t->versions;
        t->buckets =
            c->stage[s].share.buckets > t->buckets ? c->stage[s].share.buckets : t->buckets;
        for (size_t k = 0; k < c->stage[s].layout.n && st == STATUS_OK; k++)
            if (!c->stage[s].share.reshards || c->stage[s].layout.op[k].alone)
                st = show(t, &c->stage[s], &c->stage[s].layout.op[k]);
    }
    pthread_mutex_unlock(&t->mutex);
out:
    executor_step_free(&step);
    device_cpu.close(e.device_self);
    return st;
}

/* Is the word one of names[n]? */
static bool is_one(const char *word, const char *const *names, size_t n, size_t *found)
{
    for (*found = 0; *found < n && strcmp(word, names[*found]) != 0;)
        ++*found;
    return *found < n;
}

struct partition_request request_of(const char *how)
{
    struct partition_request r = {.stages = 1, .replicas = 1, .schedule = "1f1b"};
    char text[128], *rest;
    snprintf(text, sizeof text, "%s", how);
    for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        const struct schedule *schedule;
        size_t k;
        if (sscanf(w, "pp=%zu", &r.stages) == 1 || sscanf(w, "dp=%u", &r.replicas) == 1 ||
            sscanf(w, "tp=%u", &r.tensor_parallel) == 1 ||
            sscanf(w, "cp=%u", &r.context_parallel) == 1 ||
            sscanf(w, "ep=%u", &r.expert_parallel) == 1 || sscanf(w, "chunks=%u", &r.chunks) == 1 ||
            sscanf(w, "zero=%u", &r.zero) == 1 || sscanf(w, "group=%u", &r.zero_group) == 1 ||
            sscanf(w, "bucket=%" SCNd64, &r.bucket_bytes) == 1 ||
            sscanf(w, "layers=%u", &r.recompute_layers) == 1 ||
            sscanf(w, "unit=%u", &r.recompute_unit) == 1)
            continue;
        if (strcmp(w, "kept") == 0)
            r.zero_keep = true;
        else if (strcmp(w, "scatter") == 0)
            r.p2p_scatter = true;
        else if (strcmp(w, "sequence") == 0)
            r.sequence_parallel = true;
        else if (plan_read_modules(w, &r.recompute_modules) == STATUS_OK)
            r.recompute = RECOMPUTE_SELECTIVE;
        else if (is_one(w, plan_recompute_names, RECOMPUTE_KINDS, &k))
            r.recompute = (enum plan_recompute)k;
        else if (is_one(w, plan_exchange_names, EXCHANGE_KINDS, &k))
            r.context_exchange = (enum plan_exchange)k;
        else if (schedule_find(w, &schedule) == STATUS_OK)
            r.schedule = schedule->name;
        else
            fail_msg("'%s' in '%s'", w, how);
    }
    return r;
}

static void lower(const struct model *m, const char *name, struct partition_request request,
                  struct program *out)
{
    struct topology t = sample_clique(MESH_RANKS, 1e-6, 1e9);
    struct plan plan = {0};
    const struct partition_algorithm *balanced;
    request.model = "m";
    request.platform = "p";
    request.optimizer = request.optimizer ? request.optimizer : "adam";
    request.microbatches = request.microbatches ? request.microbatches : MICROBATCHES;
    request.microbatch_size = MICROBATCH;
    if (partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(request.uneven ? &partition_uneven : balanced, m, &t, &request, &plan) !=
            STATUS_OK ||
        plan_lower(&plan, m, &t, out) != STATUS_OK || executor_supports(out) != STATUS_OK)
        fail_msg("%s: %s", name, error_message());
    plan_free(&plan);
    topology_free(&t);
}

void train(const struct model *m, const char *name, const struct partition_request *how,
           size_t steps, struct trained *t)
{
    train_at(1e-3, m, name, how, steps, t);
}

void train_at(double learning_rate, const struct model *m, const char *name,
              const struct partition_request *how, size_t steps, struct trained *t)
{
    struct actor a[MESH_RANKS] = {0};
    assert_true(steps <= STEPS);
    *t = (struct trained){.model = m,
                          .learning_rate = learning_rate,
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
    lower(m, name, *how, &t->mesh.program);
    t->moved = calloc(t->mesh.program.ops, sizeof *t->moved);
    t->step_of = calloc(t->mesh.program.ops, sizeof *t->step_of);
    assert_non_null(t->moved);
    assert_non_null(t->step_of);
    play_all(&t->mesh, a, train_rank, steps);
    for (uint32_t i = 0; i < m->n; i++)
        assert_int_equal(t->seen[i], parameters_of(t, i));
}

void trained_free(struct trained *t)
{
    for (size_t i = 0; i < t->model->n; i++)
        free(t->parameter[i]);
    free(t->parameter);
    free(t->seen);
    free(t->moved);
    free(t->step_of);
    mesh_close(&t->mesh);
}

double distance(const struct trained *a, const struct trained *b)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->model->n; i++)
        for (size_t k = 0; k < parameters_of(a, i); k++)
            worst = fmax(worst, fabs((double)a->parameter[i][k] - (double)b->parameter[i][k]));
    return worst;
}

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

void compare(const char *spec, const char *const *how, size_t n, double tolerance)
{
    struct model m = {0};
    struct trained one, other;
    struct partition_request r = request_of("");
    load(spec, &m);
    train(&m, "one", &r, STEPS, &one);
    for (size_t k = 0; k < n; k++) {
        r = request_of(how[k]);
        train(&m, how[k], &r, STEPS, &other);
        double apart = distance(&one, &other);
        print_message("%s, %s: parameters %.2g apart\n", spec, how[k], apart);
        assert_true(apart <= tolerance);
        assert_true(other.buckets > 1 || r.bucket_bytes == 0 || r.bucket_bytes == 1 << 30);
        for (size_t i = 0; i < STEPS; i++)
            assert_near(other.loss[i], one.loss[i], tolerance);
        trained_free(&other);
    }
    trained_free(&one);
    model_free(&m);
}
