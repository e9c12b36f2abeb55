/* What all algorithms share: the table of them, the check of a request, where stages may begin, and
 * the plan that follows from where they do. That the model is a DAG in topological order is known
 * from model_finish(). */
#include "partition/partition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/divisor.h"
#include "core/base/text.h"
#include "core/schedule/schedule.h"
#include "partition/device_order.h"

#define ALGORITHM(name) &partition_##name,
const struct partition_algorithm *const partition_algorithms[] = {
#include "partition/algorithms.def"
};
#undef ALGORITHM
const size_t partition_algorithms_n = sizeof partition_algorithms / sizeof *partition_algorithms;

enum status partition_find(const char *name, const struct partition_algorithm **out)
{
    return text_find("algorithm", name, partition_algorithms, partition_algorithms_n, out);
}

enum status partition_check_option(const struct partition_algorithm *a, const char *option)
{
    static const char *const names[PARTITION_OPTIONS] = {
        "split-at",   "layers-per-stage", "finalists", "time-limit",
        "executable", "launchable",       "reserve"};
    char takers[256] = "";
    size_t k = 0, used = 0;
    while (k < PARTITION_OPTIONS && strcmp(names[k], option) != 0)
        k++;
    if (k == PARTITION_OPTIONS || (a->takes >> k & 1))
        return STATUS_OK;
    for (size_t i = 0; i < partition_algorithms_n && used < sizeof takers; i++)
        if (partition_algorithms[i]->takes >> k & 1)
            used += (size_t)snprintf(takers + used, sizeof takers - used, "%s%s", used ? ", " : "",
                                     partition_algorithms[i]->name);
    return error_set(STATUS_USAGE, "--%s needs --algorithm %s (got %s)", option, takers, a->name);
}

enum { DIVISORS = 160, MOST_SHARDS = 4096 };

static uint32_t partition_at_least_1(uint32_t count)
{
    return count > 0 ? count : 1;
}

const struct strategy_knob *partition_breaks(const struct partition_request *r,
                                             const struct plan *p)
{
    uint64_t said = r->chosen | strategy_unusual(&r->shared, &r->own);
    const struct strategy_knob *broken =
        strategy_differs(STRATEGY_PLAN, said, &r->shared, &p->shared);
    for (size_t s = 0; s < p->stages && !broken; s++)
        broken = strategy_differs(STRATEGY_STAGE, said, &r->own, &p->stage[s].own);
    return broken;
}

struct cost_split partition_spread(const struct partition_request *r)
{
    const struct strategy_stage own = strategy_at_least_usual(&r->own);
    return cost_split_by(&r->shared, &own, r->issue.by_kernel ? &r->issue : NULL, r->microbatches);
}

struct cost_memory partition_memory(const struct partition_request *r, const struct model *m)
{
    return cost_memory(
        r->optimizer, m->element_bytes,
        framework_reduce_bytes(r->reduce_dtype, r->framework ? &r->issue : NULL, m->element_bytes),
        r->framework ? &r->issue : NULL);
}

/* ---- where stages may begin */

static bool is_divided(const struct model_op *op)
{
    return op->tensor == TENSOR_COLUMN || op->tensor == TENSOR_SPLIT;
}

/* "1, 2, 3, 4, 6, 12" of 12. */
static const char *divisors(int64_t n, char list[DIVISORS])
{
    size_t length = 0;
    list[0] = '\0';
    for (int64_t d = 1; d <= n && d <= MOST_SHARDS && length < DIVISORS; d++)
        if (n % d == 0)
            length += (size_t)snprintf(list + length, DIVISORS - length, "%s%lld",
                                       length > 0 ? ", " : "", (long long)d);
    return list;
}

/* Attention is divided by heads (Shoeybi et al., Megatron-LM, 2019, section 3), and what works on
 * its part of a tensor as its neighbours do must read a divided one. */
enum status partition_check_shards(const struct model *m, uint32_t tensor_parallel)
{
    uint32_t shards = partition_at_least_1(tensor_parallel);
    char list[DIVISORS];
    for (size_t i = 0; shards > 1 && i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        int64_t heads = model_attribute(op, "heads", shards);
        if (op->tensor != TENSOR_WHOLE && heads % shards != 0)
            return error_set(STATUS_INVALID,
                             "op '%.100s': %lld attention heads cannot be divided over %u shards. "
                             "Try --tensor-parallel %s",
                             op->name, (long long)heads, shards, divisors(heads, list));
        for (size_t k = m->in_start[i]; op->tensor == TENSOR_SPLIT && k < m->in_start[i + 1]; k++)
            if (!is_divided(&m->op[m->in[k]]))
                return error_set(STATUS_INVALID,
                                 "op '%.100s' is tensor-parallel, but its input '%.100s' is not, "
                                 "so the model does not support --tensor-parallel %u",
                                 op->name, m->op[m->in[k]].name, shards);
    }
    return STATUS_OK;
}

/* The rule of whole tensors in one pass: op i may begin a stage if no op from i on reads what an
 * earlier op has divided, so if the last reader of all divided tensors so far is before i. */
size_t partition_begins(const struct model *m, uint32_t shards, bool layers, size_t *begins)
{
    size_t found = 0, read_until = 0; /* the last op that reads a divided tensor so far */
    for (size_t i = 0; i < m->n; i++) {
        size_t readers = m->out_start[i + 1] - m->out_start[i];
        if (begins)
            begins[i] = found;
        found += i == 0 || (i > read_until && (!layers || model_begins_layer(m, i)));
        if (shards > 1 && readers > 0 && is_divided(&m->op[i]) &&
            m->out[m->out_start[i + 1] - 1] > read_until)
            read_until = m->out[m->out_start[i + 1] - 1];
    }
    if (begins)
        begins[m->n] = found;
    return found;
}

size_t partition_most_stages(const struct model *m, uint32_t tensor_parallel, bool layers)
{
    return partition_begins(m, tensor_parallel, layers, NULL);
}

/* Is op i, at this distance from where a stage is wanted, a place for stage s? */
static bool suits(const struct partition_problem *p, const size_t *first, size_t s, size_t i)
{
    return i > first[s - 1] && i < p->m->n && partition_may_begin(p, i) &&
           partition_holds(p, i, p->m->n, p->r->stages - s);
}

/* Stage s at op s n / stages, else at the nearest op that suits, the earlier of two. */
void partition_evenly(const struct partition_problem *p, size_t *first)
{
    first[0] = 0;
    for (size_t s = 1; s < p->r->stages; s++) {
        size_t wanted = s * p->m->n / p->r->stages, off = 0;
        bool before = false; /* wanted - off wraps beyond the model and does not suit then */
        while (!(before = suits(p, first, s, wanted - off)) && !suits(p, first, s, wanted + off))
            off++;
        first[s] = before ? wanted - off : wanted + off;
    }
}

/* The contract of cut(): what an algorithm has chosen, or a list by hand. */
static enum status check_begins(const struct partition_problem *p, const size_t *first)
{
    const struct model_op *op = p->m->op;
    for (size_t s = 0; s < p->r->stages; s++) {
        size_t before = first[s];
        while (!partition_may_begin(p, before)) /* op 0 at last */
            before--;
        if (before != first[s] && p->r->layers)
            return error_set(
                STATUS_INVALID,
                "a stage cannot begin at '%.100s', inside a layer; begin it at '%.100s' instead",
                op[first[s]].name, op[before].name);
        if (before != first[s])
            return error_set(STATUS_INVALID,
                             "a stage cannot begin at '%.100s', inside ops split over %u "
                             "tensor-parallel shards; begin it at '%.100s' instead",
                             op[first[s]].name, p->r->tensor_parallel, op[before].name);
    }
    return STATUS_OK;
}

/* ---- requests */

static enum status partition_check_problem(const struct model *m, const struct topology *t,
                                           const struct partition_request *r)
{
    if (r->stages < 1 || r->stages > m->n)
        return error_set(STATUS_INVALID,
                         "got %zu stages, expected at most one for each of the %zu ops of model %s",
                         r->stages, m->n, r->model);
    uint32_t chunks = partition_at_least_1(r->chunks),
             shards = partition_at_least_1(r->tensor_parallel);
    double need = (double)(r->stages / chunks) * r->replicas * shards;
    if (r->stages % chunks != 0)
        return error_set(STATUS_INVALID, "%zu stages cannot be divided into %u chunks per device",
                         r->stages, chunks);
    if (r->uneven)
        return STATUS_OK; /* plan_check() finds what is wrong with it */
    if (r->replicas < 1 || shards > t->n || r->replicas > t->n / shards ||
        r->stages / chunks > t->n / shards / r->replicas)
        return shards == 1
                   ? error_set(
                         STATUS_INVALID,
                         "%zu stages x %u replicas need %.0f devices, but platform %s has %zu",
                         r->stages / chunks, r->replicas, need, r->platform, t->n)
                   : error_set(STATUS_INVALID,
                               "%zu stages x %u replicas x %u shards need %.0f devices, but "
                               "platform %s has %zu",
                               r->stages / chunks, r->replicas, shards, need, r->platform, t->n);
    if (partition_check_shards(m, shards) != STATUS_OK)
        return STATUS_INVALID;
    size_t most = partition_most_stages(m, shards, r->layers);
    if (r->stages > most && r->layers)
        return error_set(STATUS_INVALID,
                         "got %zu stages of %s, which has only %zu layers. Try --granularity op",
                         r->stages, r->model, most);
    if (r->stages > most)
        return error_set(
            STATUS_INVALID,
            "got %zu stages of %s with --tensor-parallel %u, expected at most %zu, because a stage "
            "cannot begin inside ops split over tensor-parallel shards",
            r->stages, r->model, shards, most);
    return STATUS_OK;
}

/* ---- plans */

static enum status fill_head(const struct partition_request *r, const char *algorithm,
                             struct plan *p)
{
    p->microbatches = r->microbatches;
    p->microbatch_size = r->microbatch_size;
    p->seed = r->seed;
    PASS(plan_set_framework(p, r->framework));
    PASS(text_copy(r->model, &p->model));
    PASS(text_copy(r->platform, &p->platform));
    PASS(text_copy(r->schedule, &p->schedule));
    PASS(text_copy(r->optimizer, &p->optimizer));
    return text_copy(algorithm, &p->algorithm);
}

/* Of as many pipelines as divide the replicas of every stage, q has those replicas whose number is
 * q modulo so many: a microbatch stays in it. */
static size_t uneven_slot(const struct partition_request *r, size_t stage, size_t replica)
{
    size_t pipelines = 0, all = 0,
           before = 0; /* replicas of all stages, of those before this one */
    for (size_t k = 0; k < r->stages; k++) {
        pipelines = common_divisor(partition_replicas(r, k), pipelines);
        before += k < stage ? partition_replicas(r, k) : 0;
        all += partition_replicas(r, k);
    }
    if (r->placement == PLACE_REPLICAS)
        pipelines = 1;
    return (replica % pipelines * all + before) / pipelines + replica / pipelines;
}

/* Which of the pipeline's ranks a stage is on: round and round, unless the schedule has a V. */
static size_t placement_rank(const struct partition_request *r, size_t stage)
{
    const struct schedule *schedule;
    uint32_t chunks = partition_at_least_1(r->chunks);
    if (chunks == 1 || schedule_find(r->schedule, &schedule) != STATUS_OK)
        return stage;
    return schedule_team(schedule, (uint32_t)(r->stages / chunks), (uint32_t)stage);
}

/* Shards are next to each other. */
static uint32_t placement_device(const struct partition_request *r, const uint32_t *order,
                                 size_t stage, size_t replica, size_t shard)
{
    size_t depth = r->stages / partition_at_least_1(r->chunks), rank = placement_rank(r, stage);
    size_t slot =
        r->placement == PLACE_PIPELINES ? replica * depth + rank : rank * r->replicas + replica;
    if (r->uneven)
        slot = uneven_slot(r, stage, replica);
    return order[slot * partition_at_least_1(r->tensor_parallel) + shard];
}

static enum status fill_stages(const struct partition_request *r, size_t ops, const size_t *first,
                               const uint32_t *order, struct plan *p)
{
    uint32_t shards = partition_at_least_1(r->tensor_parallel);
    struct strategy_stage own = strategy_at_least_usual(&r->own);
    p->shared = r->shared;
    strategy_settle(&p->shared, &own);
    PASS(ARRAY_NEW(p->stage, r->stages));
    p->stages = r->stages;
    for (size_t s = 0; s < r->stages; s++) {
        struct plan_stage *stage = &p->stage[s];
        stage->ops = (s + 1 < r->stages ? first[s + 1] : ops) - first[s];
        stage->own = own;
        stage->replicas = partition_replicas(r, s);
        stage->devices = (size_t)stage->replicas * shards;
        PASS(ARRAY_NEW(stage->op, stage->ops));
        PASS(ARRAY_NEW(stage->device, stage->devices));
        for (size_t k = 0; k < stage->ops; k++)
            stage->op[k] = (uint32_t)(first[s] + k);
        for (uint32_t k = 0; k < stage->devices; k++)
            stage->device[k] = placement_device(r, order, s, k / shards, k % shards);
    }
    return STATUS_OK;
}

/* 1. Check the request. 2. Place: the stages of the first replica, whose links the cut looks at.
 * 3. Find where stages may begin. 4. Cut, and check the cut against 3. 5. Build the plan. */
enum status partition_run(const struct partition_algorithm *a, const struct model *m,
                          const struct topology *t, const struct partition_request *r,
                          struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN};
    struct arena scratch = {0};
    uint32_t *own_order = NULL, *device;
    size_t *first, *begins;

    if (!a->cut)
        return error_set(STATUS_INVALID,
                         "algorithm '%s' searches many plans, so it cannot make the single plan "
                         "that this command needs",
                         a->name);
    TRY(partition_check_problem(m, t, r));
    TRY(ARENA_NEW(&scratch, first, r->stages));
    TRY(ARENA_NEW(&scratch, device, r->stages));
    TRY(ARENA_NEW(&scratch, begins, m->n + 1));
    if (!r->order) {
        TRY(ARENA_NEW(&scratch, own_order, t->n));
        TRY(device_order_find(t, r->devices, own_order));
    }
    const uint32_t *order = r->order ? r->order : own_order;
    for (size_t s = 0; s < r->stages; s++)
        device[s] = placement_device(r, order, s, 0, 0);
    partition_begins(m, r->tensor_parallel, r->layers, begins);
    const struct partition_problem problem = {m, t, r, device, begins};
    TRY(a->cut(&problem, first, &p.objective_s));
    TRY(check_begins(&problem, first));
    TRY(fill_head(r, a->name, &p));
    TRY(fill_stages(r, m->n, first, order, &p));
    if (a->recut)
        TRY(a->recut(&problem, &p));
    TRY(plan_check(&p, m, t));
    MOVE(out, p);
out:
    plan_free(&p);
    arena_free(&scratch);
    return st;
}

static enum status cut_uneven(const struct partition_problem *p, size_t *first, double *objective_s)
{
    memcpy(first, p->r->uneven->first, p->r->stages * sizeof *first);
    *objective_s = NAN;
    return STATUS_OK;
}

const struct partition_algorithm partition_uneven = {.name = "auto", .cut = cut_uneven};
