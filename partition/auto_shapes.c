/* The shapes that `auto` tries: what a plan is made from, with a lower bound of its time. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/cost/op_costs.h"
#include "partition/auto_search.h"

struct partition_request auto_request_for(const struct auto_state *s,
                                          const struct auto_shape *shape)
{
    struct partition_request request = s->r->fixed;
    request.stages = (size_t)shape->pipeline * shape->chunks;
    request.chunks = shape->chunks;
    request.shared = shape->shared;
    request.own = shape->own;
    request.uneven = shape->uneven;
    request.microbatch_size = shape->microbatch_size;
    request.microbatches = (uint32_t)(s->r->samples / shape->microbatch_size);
    request.placement = shape->placement;
    request.layers = s->layers;
    request.costs = s->e->costs;
    request.order = auto_devices(shape) < s->t->n ? s->fast_order : s->order;
    if (!s->r->fixed.schedule || !schedule_allows(s->usual, shape->chunks))
        request.schedule = schedule_usual(shape->chunks > 1);
    return request;
}

double auto_microbatches(const struct auto_state *s, const struct auto_shape *shape)
{
    return (double)(s->r->samples / shape->microbatch_size) / strategy_streams(&shape->own);
}

bool auto_divides(const struct auto_state *s, size_t size, size_t streams)
{
    size_t microbatches = s->r->samples / size, group = s->r->fixed.zero_group;
    return (group == 0 || streams == 1 || streams % group == 0) && s->r->samples % size == 0 &&
           microbatches % streams == 0 && auto_wanted(s->r->fixed.microbatches, microbatches) &&
           auto_wanted(s->r->fixed.microbatch_size, size);
}

enum { FAMILY_SPREADS = 32 };

/* What the shapes of one number of shards, kind of sharding and microbatch size have in common: for
 * one microbatch on one device of the fastest type, seconds of all ops, of them without what a
 * device waits for its host, of the shards' reductions, and of the ops that are made again;
 * bytes of parameters, experts' apart, and of what is kept for the backward. */
struct shape_family {
    struct auto_shape shape;
    struct shape_work {
        double work_s, device_s, again_s[RECOMPUTE_KINDS];
    } spread[FAMILY_SPREADS]; /* of experts over 2^k replicas; work_s is 0: not asked for yet */
    double sums_s;
    double parameter_bytes, expert_bytes, kept_bytes[RECOMPUTE_KINDS];
};

/* With experts spread over so many replicas. */
static struct shape_work find_work(const struct auto_state *s, const struct auto_shape *shape)
{
    struct partition_request r = auto_request_for(s, shape);
    struct cost_split spread = partition_spread(&r);
    struct shape_work w = {
        .work_s = INFINITY,
        .device_s = INFINITY,
        .again_s = {[RECOMPUTE_SELECTIVE] = INFINITY, [RECOMPUTE_FULL] = INFINITY}};
    for (size_t k = 0; k < s->t->types; k++) {
        double sum_s = 0, again_s[RECOMPUTE_KINDS] = {0};
        struct cost_pass forward = {0}, backward = {0};
        const struct op_costs_key key = {&s->t->type[k], shape->microbatch_size, r.optimizer,
                                         spread};
        op_costs_begin(r.costs, &key);
        for (uint32_t i = 0; i < s->m->n; i++) {
            struct op_cost c = op_costs_of(r.costs, s->m, &key, i);
            sum_s += c.forward_s + c.backward_s;
            cost_pass_forward(&forward, c.forward_s, c.forward_host_s);
            cost_pass_backward(&backward, c.backward_s, c.backward_host_s);
            again_s[RECOMPUTE_SELECTIVE] +=
                s->again[RECOMPUTE_SELECTIVE].unit[i] > 0 ? c.forward_s : 0;
            bool all = r.recompute_layers == 0; /* else any layers, few perhaps */
            again_s[RECOMPUTE_FULL] +=
                all && s->again[RECOMPUTE_FULL].unit[i] > 0 ? c.forward_s : 0;
        }
        w.device_s = fmin(w.device_s, sum_s);
        if (spread.framework) /* stages together take no less than one that is all of them */
            sum_s = forward.pass_s + backward.pass_s;
        w.work_s = fmin(w.work_s, sum_s);
        for (int kind = RECOMPUTE_SELECTIVE; kind < RECOMPUTE_KINDS; kind++)
            w.again_s[kind] = fmin(w.again_s[kind], again_s[kind]);
    }
    return w;
}

static void find_bytes(const struct auto_state *s, struct shape_family *f)
{
    struct partition_request r = auto_request_for(s, &f->shape);
    struct cost_split split = partition_spread(&r);
    for (uint32_t i = 0; i < s->m->n; i++) {
        const struct model_op *op = &s->m->op[i];
        struct cost_part part = cost_part(op, &split);
        double kept = (double)cost_stash(s->m, op, split.framework);
        double *of = op->exchange_bytes > 0 ? &f->expert_bytes : &f->parameter_bytes;
        *of += part.parameters * (double)op->parameter_bytes;
        for (int kind = 0; kind < RECOMPUTE_KINDS; kind++) {
            const struct auto_again *again = &s->again[kind];
            double bytes = again->unit[i] == 0 ? kept
                           : again->kept[i]    ? (double)op->output_bytes
                                               : 0;
            f->kept_bytes[kind] += f->shape.microbatch_size * part.stash * bytes;
        }
    }
}

/* As long as the shape takes with no more made again than is likely to fit: ranks of a pipeline
 * together keep about one microbatch of the whole model each. What is not likely to fit comes
 * last. */
static double likely_s(const struct auto_state *s, const struct shape_family *f,
                       const struct auto_shape *shape)
{
    struct cost_memory held = auto_on_device(s);
    bool given = auto_given(s, KNOB_BIT(recompute)), spread = auto_given(s, KNOB_BIT(zero));
    uint32_t zero = spread ? s->r->fixed.zero : shape->pipeline > 1 ? 1 : 3;
    double r = shape->replicas, e = fmax(shape->expert_parallel, 1),
           own = (f->parameter_bytes * auto_held_times(&held, zero, r) +
                  f->expert_bytes / e * auto_held_times(&held, zero, r / e)) /
                 shape->pipeline;
    double room = 0;
    for (size_t k = 0; k < s->t->types; k++)
        room = fmax(room, (double)(s->t->type[k].memory_bytes -
                                   (s->r->reserve_bytes ? s->r->reserve_bytes[k] : 0)));
    for (uint32_t kind = given ? s->r->fixed.recompute : 0; kind < RECOMPUTE_KINDS; kind++)
        if (own + f->kept_bytes[kind] <= room)
            return shape->unhidden_s + shape->again_s[kind];
    return 2 * (shape->unhidden_s + shape->again_s[RECOMPUTE_FULL]);
}

/* Seconds of a microbatch in which what goes to experts crosses the links between nodes: with n of
 * e replicas in a node, in the better placement, (e - n) / e of it does. */
static double crossings_s(const struct auto_state *s, const struct auto_shape *shape)
{
    size_t t = shape->tensor_parallel, e = shape->expert_parallel,
           near = s->node > t ? s->node / t : 1, far = t * (e - 1);
    if (e <= near)
        return 0;
    double Bps = topology_between(s->t, s->order[0], s->order[far])->bandwidth_Bps,
           seen = s->r->fixed.framework ? 1 - s->r->fixed.issue.exchange_hidden : 1,
           bytes = s->exchanged * shape->microbatch_size / (double)t;
    return seen * 4 * (double)(e - near) / (double)e * bytes / Bps;
}

static double fastest_Bps(const struct topology *t)
{
    double fastest = 0;
    for (size_t k = 0; k < t->tiers; k++)
        fastest = fmax(fastest, t->tier[k].bandwidth_Bps);
    return fastest;
}

/* Seconds that the shards' reductions of one microbatch take over the fastest links: t shards move
 * 2 (t - 1) / t of a tensor each, or all of it to a switch that sums (core/cost/fabric.h), once per
 * row-parallel output and column-parallel input. */
static double reductions_s(const struct auto_state *s, const struct auto_shape *shape)
{
    double bytes = 0, t = shape->tensor_parallel;
    for (uint32_t i = 0; i < s->m->n; i++) {
        if (s->m->op[i].tensor == TENSOR_ROW)
            bytes += (double)s->m->op[i].output_bytes;
        for (size_t k = s->m->in_start[i]; k < s->m->in_start[i + 1]; k++)
            if (s->m->op[i].tensor == TENSOR_COLUMN)
                bytes += (double)s->m->op[s->m->in[k]].output_bytes;
    }
    double times = s->r->fixed.framework ? 1 : 2 * (t - 1) / t;
    return t > 1 ? times * bytes * shape->microbatch_size / fastest_Bps(s->t) : 0;
}

/* The same of what goes to experts on e replicas and back, in both passes: (e - 1) / e of it, but
 * for what a framework hides. */
static double exchanges_s(const struct auto_state *s, const struct auto_shape *shape)
{
    double e = shape->expert_parallel,
           bytes = s->exchanged * shape->microbatch_size / shape->tensor_parallel;
    double seen = s->r->fixed.framework ? 1 - s->r->fixed.issue.exchange_hidden : 1;
    return e > 1 ? seen * 4 * (e - 1) / e * bytes / fastest_Bps(s->t) : 0;
}

/* Into how many parts the best schedules divide the fill: as many as a device has stages. */
static double shapes_most_parts(const struct auto_state *s, const struct auto_shape *shape)
{
    uint32_t chunks = s->r->fixed.chunks > AUTO_CHUNKS ? s->r->fixed.chunks : AUTO_CHUNKS;
    while (chunks > AUTO_FILL && !auto_chunks_wanted(s, shape, chunks))
        chunks--;
    return fmax(chunks, AUTO_FILL);
}

/* By what part a shape is likely to take longer than its bound says: stages are whole places of
 * layers, and divide the fill by as many as a device may have of them. */
static double shapes_slack(const struct auto_state *s, const struct auto_shape *shape)
{
    double depth = shape->pipeline, places = (double)shape->most_stages / depth,
           chunks = fmin(floor(places), AUTO_CHUNKS), m = auto_microbatches(s, shape);
    return ceil(places) / places * (m + (depth - 1) / chunks) /
           (m + (depth - 1) / shapes_most_parts(s, shape));
}

/* Its lower bound: m microbatches of d ranks take m + d - 1 times the time of one on one rank, and
 * of the fill, d - 1, the best schedules save all but 1 / F. With W the work of a microbatch, R
 * its reductions, on the fastest devices and links, spread evenly,
 *     bound = (m + (d - 1) / F) (W + R) / d,
 * R with the exchanges of experts that are spread, where schedules hide the one behind the other:
 * max(W, R) instead of the sum. While a device waits for its host, reductions go on: W + R is no
 * less than W, nor than R and what the device does. */
static enum status add_shape(const struct auto_state *s, const struct shape_family *f,
                             struct auto_shape shape, const struct shape_work *w,
                             struct auto_shapes *all)
{
    const bool spread = shape.expert_parallel > 1;
    /* the least fill: zb-v's forwards of half stages, or that of the most chunks */
    double depth = shape.pipeline, fill = (depth - 1) / shapes_most_parts(s, &shape);
    double times = (auto_microbatches(s, &shape) + fill) / depth;
    double moved_s = f->sums_s + exchanges_s(s, &shape);
    shape.unhidden_s = times * fmax(w->work_s, w->device_s + moved_s);
    shape.bound_s = spread ? times * fmax(w->work_s, moved_s) : shape.unhidden_s;
    for (int kind = 0; kind < RECOMPUTE_KINDS; kind++)
        shape.again_s[kind] = times * w->again_s[kind];
    shape.likely_s =
        shapes_slack(s, &shape) * (likely_s(s, f, &shape) + times * crossings_s(s, &shape));
    PASS(ARRAY_ROOM(all->shape, all->n));
    all->shape[all->n++] = shape;
    return STATUS_OK;
}

/* With experts spread as is given, or over each power of two that divides both them and the
 * replicas. */
static enum status add_spreads(const struct auto_state *s, struct shape_family *f, size_t depth,
                               size_t replicas, struct auto_shapes *all)
{
    struct shape_work *w = f->spread;
    struct auto_shape shape = f->shape;
    shape.pipeline = (uint32_t)depth;
    shape.replicas = (uint32_t)replicas;
    uint32_t given = s->r->fixed.expert_parallel;
    uint32_t most = given ? given : s->r->fixed.zero_group ? 1 : s->experts;
    for (uint32_t e = given ? given : 1; e <= most; e *= 2, w++) {
        shape.expert_parallel = e;
        if (replicas % e != 0 || (!given && s->experts % e != 0))
            continue;
        if (w->work_s == 0)
            *w = find_work(s, &shape);
        PASS(add_shape(s, f, shape, w, all));
    }
    return STATUS_OK;
}

/* All pipelines of a family in the class of numbers of devices. On large platforms only the most
 * replicas that divide the samples: fewer leave devices idle, more than half of them never. */
static enum status add_depths(const struct auto_state *s, struct shape_family *f,
                              struct auto_shapes *all)
{
    size_t slots = s->most / f->shape.tensor_parallel, stages = s->r->fixed.stages;
    size_t chunks = s->r->fixed.chunks ? s->r->fixed.chunks : 1;
    for (size_t depth = 1; depth <= slots && depth <= f->shape.most_stages; depth++) {
        bool any = false;
        if (!auto_wanted(s->r->fixed.pipeline, depth))
            continue;
        if (stages && (stages % depth != 0 || (chunks > 1 && stages / chunks != depth)))
            continue;
        for (size_t r = slots / depth; r * depth * f->shape.tensor_parallel > s->least; r--) {
            if ((any && s->t->n > AUTO_SMALL) || !auto_wanted(s->r->fixed.replicas, r) ||
                (s->r->fixed.zero_group && r % s->r->fixed.zero_group != 0) ||
                r % f->shape.context_parallel != 0 ||
                (s->usual->crossed && r / f->shape.context_parallel % 2 == 1) ||
                !auto_divides(s, f->shape.microbatch_size, r / f->shape.context_parallel))
                continue;
            PASS(add_spreads(s, f, depth, r, all));
            any = true;
        }
    }
    return STATUS_OK;
}

/* All microbatch sizes that divide the samples. */
static enum status add_sizes(const struct auto_state *s, struct auto_shape shape,
                             struct auto_shapes *all)
{
    for (size_t size = 1; size <= s->r->samples; size++) {
        if (!auto_divides(s, size, 1))
            continue;
        shape.microbatch_size = (uint32_t)size;
        PASS(ARRAY_ROOM(all->shape, all->n));
        all->shape[all->n++] = shape;
    }
    return STATUS_OK;
}

/* exec/ counts what experts have room for over whole sequences only. */
bool auto_can_divide(const struct auto_state *s, uint32_t context)
{
    bool attends = false;
    for (size_t i = 0; i < s->m->n && !attends; i++)
        attends = s->m->op[i].context_bytes > 0;
    return context == 1 ||
           (attends && (int64_t)s->m->tokens_per_sample % (2 * (int64_t)context) == 0 &&
            context <= AUTO_CONTEXT && s->usual->searched && !(s->r->executable && s->rules.drops));
}

/* Is a sequence divided over so many replicas? As is given; else where a part has AUTO_PART tokens
 * or more, or memory is scarce. */
static bool may_divide(const struct auto_state *s, uint32_t context)
{
    const struct partition_request *fixed = &s->r->fixed;
    if (s->r->executable && context > 1 && s->rules.drops)
        return false;
    if (fixed->context_parallel || context == 1)
        return auto_wanted(fixed->context_parallel, context);
    return (s->scarce || s->m->tokens_per_sample / context >= AUTO_PART) && context <= s->t->n &&
           auto_can_divide(s, context);
}

/* Can sequence parallelism be executed? Not of tokens that shards cannot divide. */
static bool runs_by_tokens(const struct auto_state *s, uint32_t shards, uint32_t context)
{
    uint64_t tokens = s->m->tokens_per_sample > 1 ? (uint64_t)s->m->tokens_per_sample : 1;
    return tokens % ((uint64_t)shards * context) == 0;
}

/* A framework that can hide sums of shards behind parts of products does: it takes no longer. */
static bool overlaps(const struct auto_state *s, const struct auto_shape *shape)
{
    const struct partition_request *fixed = &s->r->fixed;
    if (auto_given(s, KNOB_BIT(tensor_overlap)))
        return fixed->tensor_overlap;
    return shape->sequence_parallel && shape->tensor_parallel > 1 && fixed->issue.splits_products &&
           !s->r->executable;
}

/* Shapes of `shards`, with sequence parallelism and without it, of sequences that are divided or
 * not. */
static enum status add_shards(const struct auto_state *s, uint32_t shards, uint32_t context,
                              struct auto_shapes *all)
{
    const struct partition_request *fixed = &s->r->fixed;
    struct auto_shape shape = {
        .chunks = 1,
        .shared = fixed->shared,
        .own = fixed->own,
        .placement = auto_first_placement(s),
        .most_stages = partition_most_stages(s->m, shards, s->layers),
    };
    shape.replicas = 0;
    shape.tensor_parallel = shards;
    shape.context_parallel = context;
    bool runs = !s->r->executable || runs_by_tokens(s, shards, context);
    for (int sequence = 0; sequence <= 1; sequence++) {
        bool given = fixed->sequence_parallel || auto_given(s, KNOB_BIT(sequence_parallel));
        shape.sequence_parallel = sequence;
        shape.tensor_overlap = overlaps(s, &shape);
        if ((given && fixed->sequence_parallel != sequence) || (sequence && (shards == 1 || !runs)))
            continue;
        PASS(add_sizes(s, shape, all));
    }
    return STATUS_OK;
}

/* Does the model say how its ops are divided, and does the degree divide all heads? Tensor
 * parallelism stays inside a node, where its reductions are cheap, in equal parts of it, or, where
 * there are not many, takes a few nodes; on small platforms, where memory may ask for more, all
 * degrees are tried. */
bool auto_may_shard(const struct auto_state *s, uint32_t shards)
{
    bool any = shards == 1;
    if (s->r->fixed.tensor_parallel)
        return s->r->fixed.tensor_parallel == shards;
    for (size_t i = 0; i < s->m->n && !any; i++)
        any = s->m->op[i].tensor != TENSOR_WHOLE;
    bool equal = s->node % shards == 0 || s->t->n <= AUTO_SMALL ||
                 (s->t->n <= AUTO_ACROSS && shards % s->node == 0 && shards <= AUTO_SMALL);
    return any && equal && partition_check_shards(s->m, shards) == STATUS_OK;
}

enum status auto_list_families(const struct auto_state *s, struct auto_shapes *out)
{
    struct auto_shapes all = {0};
    enum status st = STATUS_OK;
    uint32_t fixed = s->r->fixed.tensor_parallel, context_given = s->r->fixed.context_parallel;
    uint32_t least = context_given ? context_given : 1,
             most_context = context_given ? context_given : AUTO_CONTEXT;
    size_t most = fixed ? fixed : s->node;
    if (!fixed && most < AUTO_SMALL)
        most = s->t->n < AUTO_SMALL ? s->t->n : AUTO_SMALL;
    if (fixed)
        TRY(partition_check_shards(s->m, fixed));
    for (uint32_t shards = 1; shards <= most; shards++)
        for (uint32_t context = least; context <= most_context && auto_may_shard(s, shards);
             context *= 2)
            if (may_divide(s, context))
                TRY(add_shards(s, shards, context, &all));
    *out = all;
    all.shape = NULL;
out:
    free(all.shape);
    return st;
}

/* Deeper pipelines are less even than their bound, and take longer to look at. */
static double guess(const struct auto_shape *shape)
{
    return shape->likely_s * (1 + 0.01 * log2(shape->pipeline));
}

/* Very deep pipelines last: only memory may ask for them. */
static int by_likelihood(const void *a, const void *b)
{
    const struct auto_shape *x = a, *y = b;
    const double p[] = {
        x->pipeline > AUTO_DEEP, guess(x),    x->tensor_parallel,   x->pipeline,
        x->microbatch_size,      x->replicas, x->sequence_parallel, x->context_parallel,
        x->expert_parallel};
    const double q[] = {
        y->pipeline > AUTO_DEEP, guess(y),    y->tensor_parallel,   y->pipeline,
        y->microbatch_size,      y->replicas, y->sequence_parallel, y->context_parallel,
        y->expert_parallel};
    return auto_order(p, q, sizeof p / sizeof *p);
}

enum status auto_list_shapes(const struct auto_state *s, struct auto_shapes *out)
{
    enum status st;
    struct auto_shapes families = {0}, all = {0};
    TRY(auto_list_families(s, &families));
    for (size_t i = 0; i < families.n; i++) {
        struct shape_family f = {.shape = families.shape[i]};
        find_bytes(s, &f);
        f.sums_s = f.shape.tensor_overlap ? 0 : reductions_s(s, &f.shape); /* else hidden */
        TRY(add_depths(s, &f, &all));
    }
    if (all.n > 0)
        qsort(all.shape, all.n, sizeof *all.shape, by_likelihood);
    *out = all;
    all.shape = NULL;
out:
    free(families.shape);
    free(all.shape);
    return st;
}
