/* What a practitioner would try before any search: a few plans by rules of thumb, in the ranking
 * whatever the search finds, so that it can be seen what the search is worth.
 *
 * Sources: data parallelism in buckets: Li et al., PyTorch Distributed, VLDB 2020. ZeRO 3 on
 * everything: Rajbhandari et al., SC 2020 (FSDP: Zhao et al., VLDB 2023). Tensor parallelism inside
 * the node, then a pipeline as deep as memory asks for, then replicas: Narayanan et al., SC 2021,
 * takeaways 1 and 2. Published plans: recipes.def. */
#include <string.h>

#include "partition/auto_search.h"

const struct auto_baseline auto_baselines[] = {
    {.name = "DP", .summary = "data parallelism only", .buckets = true},
    {.name = "ZeRO-3", .summary = "ZeRO 3 over all devices (FSDP)", .zero = 3},
    {.name = "TP+DP",
     .summary = "tensor parallelism in the node, replicas across",
     .all_shards = true,
     .buckets = true},
    {.name = "TP+PP+DP",
     .summary = "tensor parallelism in the node, a pipeline as deep as memory needs, replicas",
     .all_shards = true,
     .stages = true,
     .buckets = true},
    {.name = "EP+PP+DP",
     .summary = "experts over the replicas of a pipeline as deep as memory needs, ZeRO 1",
     .stages = true,
     .experts = true,
     .zero = 1},
    {.name = "PP", .summary = "a uniform pipeline as deep as can be", .stages = true},
#define RECIPE(of, n, tp, pp, vp, cp, ep, mbs, source)                                             \
    {.name = source,                                                                               \
     .summary = "TP" #tp " PP" #pp " VP" #vp " CP" #cp " EP" #ep " on " #n " GPUs",                \
     .model = of,                                                                                  \
     .devices = n,                                                                                 \
     .tensor = tp,                                                                                 \
     .pipeline = pp,                                                                               \
     .chunks = vp,                                                                                 \
     .context = cp,                                                                                \
     .expert = ep,                                                                                 \
     .microbatch_size = mbs,                                                                       \
     .zero = 1},
#include "partition/recipes.def"
#undef RECIPE
};
const size_t auto_baselines_n = sizeof auto_baselines / sizeof *auto_baselines;

enum { BUCKET = 25 * 1024 * 1024 }; /* PyTorch's default */

/* One plan of the shape, recomputing as little as makes it fit; the best of the shape's baseline is
 * kept in t->kept. *made: there was one. */
static enum status baseline_try_size(struct auto_state *s, struct auto_trial *t, bool *made,
                                     bool *fits)
{
    enum status st = STATUS_OK;
    struct plan cut = {0};
    const struct auto_baseline *b = t->shape.baseline;
    struct partition_request request = auto_request_for(s, &t->shape);
    bool searched = !auto_given(s, KNOB_BIT(recompute));
    *fits = false;
    if (b->buckets && !auto_given(s, KNOB_BIT(bucket_bytes)))
        request.bucket_bytes = BUCKET;
    TRY(schedule_find(request.schedule, &t->schedule));
    st = partition_run(&partition_uniform, s->m, s->t, &request, &cut);
    if (st == STATUS_INVALID) { /* a schedule that needs chunks, more stages than layers */
        st = STATUS_OK;
        goto out;
    }
    TRY(st);
    t->cut = &cut;
    for (uint32_t r = searched ? 0 : s->r->fixed.recompute; r < RECOMPUTE_KINDS && !*fits; r++) {
        struct auto_saving saving = {.recompute = (enum plan_recompute)r,
                                     .zero = auto_given(s, KNOB_BIT(zero)) ? s->r->fixed.zero
                                                                           : b->zero};
        TRY(auto_try_plan(s, t, &saving, fits));
        *made = true;
        if (!searched)
            break;
    }
out:
    plan_free(&cut);
    return st;
}

/* The shape in every microbatch size that is a power of two. */
static enum status baseline_try_sizes(struct auto_state *s, struct auto_trial *t, bool *made,
                                      bool *fits)
{
    bool one = false;
    for (size_t size = 1; size <= s->r->samples; size *= 2) {
        t->shape.microbatch_size = (uint32_t)size;
        if (!auto_divides(s, size, t->shape.replicas) || auto_must_stop(s))
            continue;
        PASS(baseline_try_size(s, t, made, &one));
        *fits = *fits || one;
    }
    return STATUS_OK;
}

/* The most shards of a node that the model allows. */
static uint32_t all_shards(const struct auto_state *s)
{
    uint32_t shards = (uint32_t)s->node;
    if (s->r->fixed.tensor_parallel)
        return s->r->fixed.tensor_parallel;
    while (shards > 1 && !auto_may_shard(s, shards))
        shards--;
    return shards;
}

/* The deepest pipeline that anybody would try: a stage for each device, or with replicas. */
static size_t deepest(const struct auto_state *s, size_t slots)
{
    size_t most = partition_most_stages(s->m, 1, s->layers);
    size_t depth = most < AUTO_DEEP ? most : AUTO_DEEP;
    if (slots <= depth)
        return slots;
    while (depth > 1 && slots % depth != 0)
        depth--;
    return depth;
}

/* The largest power of two that divides experts and replicas. */
static uint32_t most_spread(const struct auto_state *s, uint32_t replicas)
{
    uint32_t both = s->experts | replicas;
    return both & -both;
}

/* As many replicas of so deep a pipeline as divide the samples. */
static enum status try_depth(struct auto_state *s, struct auto_trial *t, size_t depth, size_t slots,
                             bool *fits)
{
    bool made = false;
    t->shape.pipeline = (uint32_t)depth;
    for (size_t replicas = slots / depth; replicas > 0 && !made; replicas--) {
        t->shape.replicas = (uint32_t)replicas;
        if (t->shape.baseline->experts)
            t->shape.expert_parallel = most_spread(s, t->shape.replicas);
        PASS(baseline_try_sizes(s, t, &made, fits));
    }
    return STATUS_OK;
}

static enum status try_baseline(struct auto_state *s, const struct auto_baseline *b)
{
    uint32_t shards = b->all_shards ? all_shards(s) : 1;
    size_t slots = s->t->n / shards, layers = partition_most_stages(s->m, shards, s->layers);
    struct auto_trial t = {
        .shape = {
            .chunks = 1, .shared = s->r->fixed.shared, .own = s->r->fixed.own, .baseline = b}};
    t.shape.tensor_parallel = shards;
    t.shape.context_parallel = 1;
    bool fits = false;
    t.kept = SIZE_MAX;
    bool other = b->zero > 0 && auto_given(s, KNOB_BIT(zero)) && s->r->fixed.zero != b->zero;
    if (slots == 0 || (b->all_shards && shards == 1) || (b->experts && s->experts == 1) || other)
        return STATUS_OK;
    if (!b->stages)
        return try_depth(s, &t, 1, slots, &fits);
    if (!b->all_shards && !b->experts)
        return deepest(s, slots) > 1 ? try_depth(s, &t, deepest(s, slots), slots, &fits)
                                     : STATUS_OK;
    for (size_t depth = 2; depth <= slots && depth <= layers && !fits; depth++)
        if (slots % depth == 0)
            PASS(try_depth(s, &t, depth, slots, &fits));
    return STATUS_OK;
}

/* Is it one of the model, "llama3-70b:tokens=4096", with all its layers, on about as many
 * devices? */
static bool is_about(const struct auto_state *s, const struct auto_baseline *b)
{
    size_t length = strlen(b->model);
    const char *name = s->m->name, *rest = name + length;
    return strncmp(name, b->model, length) == 0 && (*rest == '\0' || *rest == ':') &&
           !strstr(rest, "layers=") && !strstr(rest, "hidden=") && s->t->n <= 2 * b->devices &&
           2 * s->t->n >= b->devices;
}

/* As published, with replicas for the rest of the devices, and no more recomputed than must be. */
static enum status try_published(struct auto_state *s, const struct auto_baseline *b)
{
    const struct partition_request *fixed = &s->r->fixed;
    struct auto_trial t = {.shape = {.chunks = b->chunks,
                                     .shared = fixed->shared,
                                     .own = fixed->own,
                                     .baseline = b,
                                     .pipeline = b->pipeline,
                                     .microbatch_size = b->microbatch_size}};
    size_t ranks = (size_t)b->tensor * b->pipeline, replicas = s->t->n / ranks;
    bool made = false, fits = false;
    t.kept = SIZE_MAX;
    t.shape.tensor_parallel = b->tensor;
    t.shape.sequence_parallel = b->tensor > 1;
    t.shape.context_parallel = b->context;
    t.shape.expert_parallel = b->expert;
    t.shape.replicas = (uint32_t)replicas;
    if (!is_about(s, b) || s->t->n % ranks != 0 || replicas % b->context != 0 ||
        replicas % b->expert != 0 || !auto_may_shard(s, b->tensor) ||
        !auto_can_divide(s, b->context) ||
        !auto_divides(s, b->microbatch_size, replicas / b->context))
        return STATUS_OK;
    return baseline_try_size(s, &t, &made, &fits);
}

enum status auto_try_baselines(struct auto_state *s)
{
    for (size_t i = 0; i < auto_baselines_n; i++) {
        const struct auto_baseline *b = &auto_baselines[i];
        PASS(b->model ? try_published(s, b) : try_baseline(s, b));
    }
    return STATUS_OK;
}
