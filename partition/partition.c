/* What all algorithms share: the table of them, the check of a request, where stages may begin, and
 * the plan that follows from where they do. That the model is a DAG in topological order is known
 * from model_finish(). */
#include "partition/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/text.h"
#include "partition/device_order.h"
#include "partition/graph.h"

#define ALGORITHM(name) &partition_##name,
const struct partition_algorithm *const partition_algorithms[] = {
#include "partition/algorithms.def"
};
#undef ALGORITHM
const size_t partition_algorithms_n = sizeof partition_algorithms / sizeof *partition_algorithms;

static const char *name_of(size_t i)
{
    return partition_algorithms[i]->name;
}

enum status partition_find(const char *name, const struct partition_algorithm **out)
{
    size_t i;
    enum status st = text_find("algorithm", name, name_of, partition_algorithms_n, &i);
    if (st == STATUS_OK)
        *out = partition_algorithms[i];
    return st;
}

enum status partition_check_option(const struct partition_algorithm *a, const char *option)
{
    static const char *const names[PARTITION_OPTIONS] = {
        [PARTITION_SPLIT_AT] = "split-at",     [PARTITION_BATCH] = "batch",
        [PARTITION_FINALISTS] = "finalists",   [PARTITION_TIME_LIMIT] = "time-limit",
        [PARTITION_EXECUTABLE] = "executable",
    };
    char takers[256] = "";
    size_t k = 0, used = 0;
    while (k < PARTITION_OPTIONS && strcmp(names[k], option) != 0)
        k++;
    if (k == PARTITION_OPTIONS || (a->takes >> k & 1))
        return STATUS_OK;
    for (size_t i = 0; i < partition_algorithms_n && used < sizeof takers; i++)
        if (partition_algorithms[i]->takes >> k & 1)
            used += (size_t)snprintf(takers + used, sizeof takers - used, "%s%s", used ? ", " : "",
                                     name_of(i));
    return error_set(STATUS_USAGE, "--%s is for --algorithm %s, not for %s", option, takers,
                     a->name);
}

static uint32_t at_least_1(uint32_t count)
{
    return count > 0 ? count : 1;
}

struct cost_split partition_spread(const struct partition_request *r)
{
    return (struct cost_split){at_least_1(r->tensor_parallel), at_least_1(r->expert_parallel),
                               r->sequence_parallel && r->tensor_parallel > 1};
}

/* ---- where stages may begin */

/* The op whose attention heads the shards cannot share evenly, or MODEL_NO_OP. */
static uint32_t uneven_heads(const struct model *m, uint32_t shards)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->op[i].tensor != TENSOR_WHOLE &&
            model_attribute(&m->op[i], "heads", shards) % shards != 0)
            return i;
    return MODEL_NO_OP;
}

size_t partition_most_stages(const struct model *m, uint32_t tensor_parallel)
{
    uint32_t shards = at_least_1(tensor_parallel);
    return uneven_heads(m, shards) == MODEL_NO_OP ? graph_whole_begins(m, shards > 1, NULL) : 0;
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
    for (size_t s = 0; s < p->r->stages; s++) {
        size_t i = first[s], left = i, right = i;
        if (partition_may_begin(p, i))
            continue;
        while (!partition_may_begin(p, left)) /* op 0 at last */
            left--;
        while (right < p->m->n && !partition_may_begin(p, right))
            right++;
        bool last = right == p->m->n;
        return error_set(STATUS_INVALID,
                         "a stage cannot begin at '%.100s', inside what %u shards divide; near: "
                         "'%.100s'%s%.100s%s",
                         p->m->op[i].name, p->r->tensor_parallel, p->m->op[left].name,
                         last ? "" : ", '", last ? "" : p->m->op[right].name, last ? "" : "'");
    }
    return STATUS_OK;
}

/* ---- requests */

static enum status check(const struct model *m, const struct topology *t,
                         const struct partition_request *r)
{
    if (r->stages < 1 || r->stages > m->n)
        return error_set(STATUS_INVALID, "%zu stages for the %zu ops of %s", r->stages, m->n,
                         r->model);
    uint32_t chunks = at_least_1(r->chunks), shards = at_least_1(r->tensor_parallel);
    if (r->stages % chunks != 0)
        return error_set(STATUS_INVALID, "%zu stages do not make %u chunks per device", r->stages,
                         chunks);
    if (r->replicas < 1 || shards > t->n || r->replicas > t->n / shards ||
        r->stages / chunks > t->n / shards / r->replicas)
        return shards == 1
                   ? error_set(STATUS_INVALID, "%zu stages x %u replicas on the %zu devices of %s",
                               r->stages / chunks, r->replicas, t->n, r->platform)
                   : error_set(STATUS_INVALID,
                               "%zu stages x %u replicas x %u shards on the %zu devices of %s",
                               r->stages / chunks, r->replicas, shards, t->n, r->platform);
    uint32_t uneven = uneven_heads(m, shards);
    if (uneven != MODEL_NO_OP)
        return error_set(STATUS_INVALID, "op '%.100s': %lld heads cannot be divided over %u shards",
                         m->op[uneven].name, (long long)model_attribute(&m->op[uneven], "heads", 0),
                         shards);
    size_t most = partition_most_stages(m, shards);
    if (r->stages > most)
        return error_set(STATUS_INVALID,
                         "%zu stages of %s over %u shards: %zu at most, as stages exchange whole "
                         "tensors",
                         r->stages, r->model, shards, most);
    return STATUS_OK;
}

/* ---- plans */

static enum status fill_head(const struct partition_request *r, const char *algorithm,
                             struct plan *p)
{
    enum status st;
    p->microbatches = r->microbatches;
    p->microbatch_size = r->microbatch_size;
    p->seed = r->seed;
    p->zero = r->zero;
    p->bucket_bytes = r->bucket_bytes;
    p->sequence_parallel = r->sequence_parallel;
    TRY(text_copy(r->model, &p->model));
    TRY(text_copy(r->platform, &p->platform));
    TRY(text_copy(r->schedule, &p->schedule));
    TRY(text_copy(r->optimizer, &p->optimizer));
    TRY(text_copy(algorithm, &p->algorithm));
out:
    return st;
}

/* Shards are next to each other. */
static uint32_t device_of(const struct partition_request *r, const uint32_t *order, size_t stage,
                          size_t replica, size_t shard)
{
    size_t depth = r->stages / at_least_1(r->chunks), rank = stage % depth;
    size_t slot =
        r->placement == PLACE_PIPELINES ? replica * depth + rank : rank * r->replicas + replica;
    return order[slot * at_least_1(r->tensor_parallel) + shard];
}

static enum status fill_stages(const struct partition_request *r, size_t ops, const size_t *first,
                               const uint32_t *order, struct plan *p)
{
    enum status st;
    uint32_t shards = at_least_1(r->tensor_parallel);
    TRY(ARRAY_NEW(p->stage, r->stages));
    p->stages = r->stages;
    for (size_t s = 0; s < r->stages; s++) {
        struct plan_stage *stage = &p->stage[s];
        stage->ops = (s + 1 < r->stages ? first[s + 1] : ops) - first[s];
        stage->devices = (size_t)r->replicas * shards;
        TRY(ARRAY_NEW(stage->op, stage->ops));
        TRY(ARRAY_NEW(stage->device, stage->devices));
        for (size_t k = 0; k < stage->ops; k++)
            stage->op[k] = (uint32_t)(first[s] + k);
        stage->replicas = r->replicas;
        stage->tensor_parallel = shards;
        stage->expert_parallel = at_least_1(r->expert_parallel);
        stage->recompute = r->recompute;
        for (uint32_t k = 0; k < stage->devices; k++)
            stage->device[k] = device_of(r, order, s, k / shards, k % shards);
    }
out:
    return st;
}

enum status partition_run(const struct partition_algorithm *a, const struct model *m,
                          const struct topology *t, const struct partition_request *r,
                          struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN};
    uint32_t *own_order = NULL, *device = NULL;
    size_t *first = NULL, *begins = NULL;

    if (!a->cut)
        return error_set(STATUS_INVALID, "%s searches and cuts no plan by itself", a->name);
    TRY(check(m, t, r));
    TRY(ARRAY_NEW(first, r->stages));
    TRY(ARRAY_NEW(device, r->stages));
    TRY(ARRAY_NEW(begins, m->n + 1));
    if (!r->order) {
        TRY(ARRAY_NEW(own_order, t->n));
        TRY(device_order_find(t, own_order));
    }
    const uint32_t *order = r->order ? r->order : own_order;
    for (size_t s = 0; s < r->stages; s++)
        device[s] = device_of(r, order, s, 0, 0);
    graph_whole_begins(m, r->tensor_parallel > 1, begins);
    const struct partition_problem problem = {m, t, r, device, begins};
    TRY(a->cut(&problem, first, &p.objective_s));
    TRY(check_begins(&problem, first));
    TRY(fill_head(r, a->name, &p));
    TRY(fill_stages(r, m->n, first, order, &p));
    TRY(plan_check(&p, m, t));
    *out = p;
    p = (struct plan){0};
out:
    plan_free(&p);
    free(begins);
    free(device);
    free(first);
    free(own_order);
    return st;
}
