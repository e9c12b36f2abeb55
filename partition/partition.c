#include "partition/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "partition/graph.h"
#include "partition/place.h"

extern const struct partition_algorithm partition_balanced, partition_hierarchical,
    partition_manual, partition_metis, partition_uniform;

const struct partition_algorithm *const partition_algorithms[] = {
    &partition_balanced, &partition_hierarchical, &partition_uniform,
    &partition_manual,   &partition_metis,
};
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

static uint32_t at_least_1(uint32_t count)
{
    return count > 0 ? count : 1;
}

struct cost_split partition_spread(const struct partition_request *r)
{
    return (struct cost_split){at_least_1(r->tensor_parallel), at_least_1(r->expert_parallel),
                               r->sequence_parallel && r->tensor_parallel > 1};
}

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
    return graph_check(m);
}

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
    size_t teams = r->stages / at_least_1(r->chunks), team = stage % teams;
    size_t slot =
        r->placement == PLACE_PIPELINES ? replica * teams + team : team * r->replicas + replica;
    return order[slot * at_least_1(r->tensor_parallel) + shard];
}

static enum status fill_stages(const struct partition_request *r, size_t ops, const size_t *first,
                               const uint32_t *order, struct plan *p)
{
    if (!(p->stage = calloc(r->stages, sizeof *p->stage)))
        return error_set(STATUS_NOMEM, "%zu stages", r->stages);
    p->stages = r->stages;
    for (size_t s = 0; s < r->stages; s++) {
        struct plan_stage *stage = &p->stage[s];
        stage->ops = (s + 1 < r->stages ? first[s + 1] : ops) - first[s];
        stage->op = calloc(stage->ops + 1, sizeof *stage->op);
        uint32_t shards = at_least_1(r->tensor_parallel);
        stage->devices = (size_t)r->replicas * shards;
        stage->device = calloc(stage->devices, sizeof *stage->device);
        if (!stage->op || !stage->device)
            return error_set(STATUS_NOMEM, "%zu stages", r->stages);
        for (size_t k = 0; k < stage->ops; k++)
            stage->op[k] = (uint32_t)(first[s] + k);
        stage->replicas = r->replicas;
        stage->tensor_parallel = shards;
        stage->expert_parallel = at_least_1(r->expert_parallel);
        stage->recompute = r->recompute;
        for (uint32_t k = 0; k < stage->devices; k++)
            stage->device[k] = device_of(r, order, s, k / shards, k % shards);
    }
    return STATUS_OK;
}

enum status partition_run(const struct partition_algorithm *a, const struct model *m,
                          const struct topology *t, const struct partition_request *r,
                          struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN};
    uint32_t *order = NULL, *device = NULL;
    size_t *first = NULL;

    TRY(check(m, t, r));
    order = calloc(t->n, sizeof *order);
    first = calloc(r->stages, sizeof *first);
    device = calloc(r->stages, sizeof *device);
    if (!order || !first || !device) {
        st = error_set(STATUS_NOMEM, "%zu devices", t->n);
        goto out;
    }
    if (r->order)
        memcpy(order, r->order, t->n * sizeof *order);
    else
        TRY(place_neighbours(t, order));
    for (size_t s = 0; s < r->stages; s++)
        device[s] = device_of(r, order, s, 0, 0);
    TRY(a->cut(m, t, r, device, first, &p.objective_s));
    TRY(fill_head(r, a->name, &p));
    TRY(fill_stages(r, m->n, first, order, &p));
    TRY(plan_check(&p, m, t));
    *out = p;
    p = (struct plan){0};
out:
    plan_free(&p);
    free(device);
    free(first);
    free(order);
    return st;
}
