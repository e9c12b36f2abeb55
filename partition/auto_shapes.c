/* The shapes that `auto` tries: what a plan is made from, with a lower bound of its time. */
#include <math.h>
#include <stdlib.h>

#include "core/array.h"
#include "partition/auto_search.h"

struct partition_request auto_request_for(const struct auto_state *s,
                                          const struct auto_shape *shape)
{
    struct partition_request request = s->r->fixed;
    request.stages = (size_t)shape->depth * shape->chunks;
    request.chunks = shape->chunks;
    request.replicas = shape->replicas;
    request.tensor_parallel = shape->shards;
    request.microbatch_size = shape->microbatch_size;
    request.microbatches = (uint32_t)(s->r->samples / shape->microbatch_size);
    request.placement = shape->placement;
    request.order = s->order;
    if (!request.schedule || shape->chunks > 1)
        request.schedule = shape->chunks > 1 ? "interleaved" : "1f1b";
    return request;
}

double auto_microbatches(const struct auto_state *s, const struct auto_shape *shape)
{
    return (double)(s->r->samples / shape->microbatch_size) / shape->replicas;
}

bool auto_divides(const struct auto_state *s, size_t size, size_t replicas)
{
    size_t microbatches = s->r->samples / size;
    return s->r->samples % size == 0 && microbatches % replicas == 0 &&
           auto_wanted(s->r->fixed.microbatches, microbatches) &&
           auto_wanted(s->r->fixed.microbatch_size, size);
}

/* Seconds of all ops for one microbatch on the fastest type of device. */
static double work_s(const struct auto_state *s, const struct auto_shape *shape)
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

/* Seconds that the shards' reductions of one microbatch take over the fastest links: t shards move
 * 2 (t - 1) / t of a tensor each, once per row-parallel output and column-parallel input. */
static double reductions_s(const struct auto_state *s, const struct auto_shape *shape)
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

/* Its lower bound: m microbatches of d ranks take m + d - 1 times the time of one on one rank, and of
 * the fill, d - 1, the best schedules save all but a part. With W the work of a microbatch and R its
 * reductions, on the fastest devices and links, spread evenly,
 *     bound = (m + (d - 1) / AUTO_CHUNKS) (W + R) / d. */
static enum status add_shape(const struct auto_state *s, struct auto_shape shape,
                             struct auto_shapes *all)
{
    /* the least fill: zb-h1's third of it, or that of the most chunks */
    double fill = (double)(shape.depth - 1) / AUTO_CHUNKS;
    shape.bound_s = (auto_microbatches(s, &shape) + fill) *
                    (work_s(s, &shape) + reductions_s(s, &shape)) / shape.depth;
    shape.first = all->n == 0;
    PASS(ARRAY_ROOM(all->shape, all->n));
    all->shape[all->n++] = shape;
    return STATUS_OK;
}

/* All microbatch sizes of so many ranks and replicas, powers of two if there is a choice. */
static enum status add_sizes(const struct auto_state *s, struct auto_shape shape,
                             struct auto_shapes *all)
{
    for (size_t size = 1; size <= s->r->samples; size++) {
        bool fixed = s->r->fixed.microbatch_size == size || s->r->fixed.microbatches > 0;
        if (((size & (size - 1)) != 0 && !fixed) || !auto_divides(s, size, shape.replicas))
            continue;
        shape.microbatch_size = (uint32_t)size;
        PASS(add_shape(s, shape, all));
    }
    return STATUS_OK;
}

/* Shapes of `shards` that use as many devices as divide evenly. */
static enum status add_shards(const struct auto_state *s, uint32_t shards, struct auto_shapes *all)
{
    size_t most_stages = partition_most_stages(s->m, shards), slots = s->t->n / shards;
    size_t fixed = s->r->fixed.stages, chunks = s->r->fixed.chunks ? s->r->fixed.chunks : 1;
    for (size_t depth = 1; depth <= slots && depth <= most_stages; depth++) {
        bool even = slots % depth == 0 || (fixed && fixed / chunks == depth);
        bool may = fixed == 0 || (fixed % depth == 0 && (chunks == 1 || fixed / chunks == depth));
        size_t before = all->n;
        /* fewer replicas only if the samples cannot be divided: they leave devices idle */
        for (size_t replicas = slots / depth; even && may && replicas > 0 && all->n == before;
             replicas--)
            if (auto_wanted(s->r->fixed.replicas, replicas))
                PASS(add_sizes(s,
                               (struct auto_shape){
                                   .depth = (uint32_t)depth,
                                   .chunks = 1,
                                   .replicas = (uint32_t)replicas,
                                   .shards = shards,
                                   .placement = PLACE_PIPELINES,
                                   .most_stages = most_stages,
                                   .algorithm = &partition_balanced,
                                   .role = depth == 1 && shards == 1 ? auto_data_parallel_role
                                                                     : auto_candidate_role,
                               },
                               all));
    }
    return STATUS_OK;
}

/* Does the model say how its ops are divided, and does the degree divide all heads? */
static bool divides_into(const struct model *m, uint32_t shards)
{
    bool any = shards == 1;
    for (size_t i = 0; i < m->n && !any; i++)
        any = m->op[i].tensor != TENSOR_WHOLE;
    return any && partition_check_shards(m, shards) == STATUS_OK;
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

/* Tensor parallelism stays inside a node, where its reductions are cheap. */
static enum status add_all(const struct auto_state *s, struct auto_shapes *all)
{
    uint32_t fixed = s->r->fixed.tensor_parallel;
    size_t node = node_size(s->t);
    if (fixed) {
        PASS(partition_check_shards(s->m, fixed));
        PASS(add_shards(s, fixed, all));
    }
    for (uint32_t shards = 1; !fixed && shards <= node; shards *= 2)
        if (shards == 1 || (s->t->n % shards == 0 && divides_into(s->m, shards)))
            PASS(add_shards(s, shards, all));
    return STATUS_OK;
}

/* Very deep pipelines last: only memory may ask for them. */
static int by_bound(const void *a, const void *b)
{
    const struct auto_shape *x = a, *y = b;
    const double p[] = {x->depth > AUTO_DEEP, x->bound_s, x->shards, x->depth, x->microbatch_size};
    const double q[] = {y->depth > AUTO_DEEP, y->bound_s, y->shards, y->depth, y->microbatch_size};
    for (size_t k = 0; k < sizeof p / sizeof *p; k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

enum status auto_list_shapes(const struct auto_state *s, struct auto_shapes *out)
{
    struct auto_shapes all = {0};
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
