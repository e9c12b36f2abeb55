/* The shapes that `auto` tries: what a plan is made from, with a lower bound of its time. */
#include <math.h>
#include <stdlib.h>

#include "core/schedule.h"
#include "partition/auto_search.h"

struct partition_request auto_request_for(const struct search *s, const struct shape *shape)
{
    struct partition_request request = s->r->fixed;
    request.stages = (size_t)shape->teams * shape->chunks;
    request.chunks = shape->chunks;
    request.replicas = shape->replicas;
    request.tensor_parallel = shape->shards;
    request.microbatch_size = shape->microbatch_size;
    request.microbatches = (uint32_t)(s->r->samples / shape->microbatch_size);
    request.placement = shape->placement;
    request.order = s->order;
    if (!request.schedule || shape->chunks > 1)
        request.schedule = schedule_usual(shape->chunks > 1);
    return request;
}

double auto_microbatches(const struct search *s, const struct shape *shape)
{
    return (double)(s->r->samples / shape->microbatch_size) / shape->replicas;
}

/* Can `samples` be trained in microbatches of this size by so many replicas? */
bool auto_divides(const struct search *s, size_t size, size_t replicas)
{
    size_t microbatches = s->r->samples / size;
    return s->r->samples % size == 0 && microbatches % replicas == 0 &&
           (!s->r->fixed.microbatches || s->r->fixed.microbatches == microbatches) &&
           (!s->r->fixed.microbatch_size || s->r->fixed.microbatch_size == size);
}

/* Seconds of all ops for one microbatch on the fastest type of device. */
static double work_s(const struct search *s, const struct shape *shape)
{
    struct partition_request r = auto_request_for(s, shape);
    struct cost_split spread = partition_spread(&r);
    double least = INFINITY;
    for (size_t k = 0; k < s->t->types; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < s->m->n; i++) {
            struct op_cost c =
                cost_op(s->m, &s->t->type[k], i, shape->microbatch_size, r.optimizer, &spread);
            sum += c.forward_s + c.backward_s;
        }
        least = fmin(least, sum);
    }
    return least;
}

/* Seconds that the shards' sums of one microbatch take over the fastest links. */
static double sums_s(const struct search *s, const struct shape *shape)
{
    double bytes = 0, fastest = 0, t = shape->shards;
    for (uint32_t i = 0; i < s->m->n; i++) {
        if (s->m->op[i].tensor == TENSOR_ROW)
            bytes += (double)s->m->op[i].output_bytes;
        for (size_t k = s->m->in_start[i]; k < s->m->in_start[i + 1]; k++)
            if (s->m->op[i].tensor == TENSOR_COLUMN)
                bytes += (double)s->m->op[s->m->in[k]].output_bytes;
    }
    for (size_t k = 0; k < s->t->tiers; k++)
        fastest = fmax(fastest, s->t->tier[k].bandwidth_Bps);
    return t > 1 ? 2 * (t - 1) / t * bytes * shape->microbatch_size / fastest : 0;
}

/* Do weights, gradients and state fit when they are spread over everything they may be? */
static bool weights_fit(const struct search *s, const struct shape *shape)
{
    struct cost_memory factor = cost_memory(s->r->fixed.optimizer, s->m->element_bytes);
    double bytes = 0, room = 0, zero = shape->replicas;
    for (size_t i = 0; i < s->m->n; i++)
        bytes += (double)s->m->op[i].parameter_bytes;
    for (size_t k = 0; k < s->t->types; k++)
        room = fmax(room, (double)s->t->type[k].memory_bytes);
    if (s->r->memory_given && s->r->fixed.zero > 1)
        return true;
    return bytes / shape->teams / shape->shards *
               ((double)(factor.weights + factor.gradients) + (double)factor.state / zero) <=
           room;
}

static enum status add_shape(struct search *s, struct shapes *all, struct shape shape,
                             double seconds)
{
    /* work of a device, and the least fill: zb-h1's third, or that of the most chunks */
    double fill = (double)(shape.teams - 1) / AUTO_CHUNKS;
    shape.bound_s = (auto_microbatches(s, &shape) + fill) * seconds / shape.teams;
    if (!weights_fit(s, &shape) && all->n > 0) {
        s->result.bounded++;
        return STATUS_OK;
    }
    if (all->n == all->room) {
        size_t room = 2 * all->room + 64;
        struct shape *larger = realloc(all->shape, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu shapes", room);
        all->shape = larger;
        all->room = room;
    }
    all->shape[all->n++] = shape;
    return STATUS_OK;
}

/* Both placements. */
static enum status add_shapes(struct search *s, struct shapes *all, struct shape shape)
{
    enum status st = STATUS_OK;
    bool single = shape.teams == 1 || shape.replicas == 1; /* both placements are the same */
    double seconds = work_s(s, &shape) + sums_s(s, &shape);
    shape.algorithm = s->balanced;
    shape.role =
        shape.teams == 1 && shape.shards == 1 ? auto_data_parallel_role : auto_candidate_role;
    for (int p = PLACE_PIPELINES; p <= (single ? PLACE_PIPELINES : PLACE_REPLICAS); p++) {
        shape.placement = (enum partition_placement)p;
        TRY(add_shape(s, all, shape, seconds));
    }
out:
    return st;
}

/* Shapes of `shards` that use as many devices as divide evenly; microbatch sizes in powers of 2. */
static enum status add_shards(struct search *s, struct shapes *all, uint32_t shards)
{
    enum status st = STATUS_OK;
    size_t slots = s->t->n / shards, most = slots < s->m->n ? slots : s->m->n;
    size_t fixed = s->r->fixed.stages, chunks = s->r->fixed.chunks ? s->r->fixed.chunks : 1;
    for (size_t teams = 1; teams <= most && !s->result.interrupted; teams++) {
        size_t replicas = slots / teams;
        bool even = slots % teams == 0 || (fixed && fixed / chunks == teams);
        bool may = fixed == 0 || (fixed % teams == 0 && (chunks == 1 || fixed / chunks == teams));
        if (!even || !may)
            continue;
        for (; replicas > 0 && !s->result.interrupted; replicas--) {
            if (!auto_wanted(s->r->fixed.replicas, replicas))
                continue;
            bool tried = false;
            for (size_t size = 1; size <= s->r->samples; size++) {
                bool power = (size & (size - 1)) == 0 || s->r->fixed.microbatch_size == size ||
                             s->r->fixed.microbatches > 0;
                if (!power || !auto_divides(s, size, replicas))
                    continue;
                TRY(add_shapes(s, all,
                               (struct shape){.teams = (uint32_t)teams,
                                              .replicas = (uint32_t)replicas,
                                              .shards = shards,
                                              .microbatch_size = (uint32_t)size}));
                tried = true;
            }
            if (tried)
                break; /* fewer replicas would leave devices idle */
        }
    }
out:
    return st;
}

/* Does the model say how its ops are split, and does the degree divide all heads? */
static bool splits_into(const struct model *m, uint32_t shards)
{
    bool any = false;
    for (size_t i = 0; i < m->n; i++) {
        any = any || m->op[i].tensor != TENSOR_WHOLE;
        if (model_attribute(&m->op[i], "heads", shards) % shards != 0)
            return false;
    }
    return any || shards == 1;
}

/* Devices at the fastest tier from the first one, itself included. */
static size_t node_size(const struct topology *t)
{
    size_t n = 1;
    const struct topology_tier *best = NULL;
    for (uint32_t d = 1; d < t->n; d++) {
        const struct topology_tier *tier = topology_between(t, 0, d);
        if (!best || tier->bandwidth_Bps > best->bandwidth_Bps) {
            best = tier;
            n = 1;
        }
        n += tier->bandwidth_Bps == best->bandwidth_Bps;
    }
    return n;
}

/* Tensor parallelism stays inside a node, where its sums are cheap. */
static enum status add_all(struct search *s, struct shapes *all)
{
    enum status st = STATUS_OK;
    uint32_t fixed = s->r->fixed.tensor_parallel;
    size_t node = node_size(s->t);
    if (fixed)
        return fixed <= s->t->n ? add_shards(s, all, fixed) : STATUS_OK;
    for (uint32_t shards = 1; shards <= node; shards *= 2)
        if (shards == 1 || (s->t->n % shards == 0 && splits_into(s->m, shards)))
            TRY(add_shards(s, all, shards));
out:
    return st;
}

/* Very deep pipelines last: only memory may ask for them. */
static int by_bound(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    if ((x->teams > AUTO_DEEP) != (y->teams > AUTO_DEEP))
        return x->teams > AUTO_DEEP ? 1 : -1;
    if (x->bound_s != y->bound_s)
        return x->bound_s < y->bound_s ? -1 : 1;
    const uint32_t p[] = {x->shards, x->teams, x->microbatch_size, x->placement};
    const uint32_t q[] = {y->shards, y->teams, y->microbatch_size, y->placement};
    for (size_t k = 0; k < sizeof p / sizeof *p; k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

enum status auto_list_shapes(struct search *s, struct shapes *out)
{
    struct shapes all = {0};
    enum status st = add_all(s, &all);
    if (st != STATUS_OK) {
        free(all.shape);
        return st;
    }
    if (all.n > 0)
        qsort(all.shape, all.n, sizeof *all.shape, by_bound);
    *out = all;
    return STATUS_OK;
}
