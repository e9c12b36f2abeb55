/* What becomes of `auto`'s finalists: as few layers made again as fit, sums of gradients in buckets
 * of other sizes, parameters kept or not, and shared over groups of other sizes; the same with
 * other numbers of chunks, and on small platforms with other microbatches. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "partition/auto_search.h"

/* Plans that take so many times as long do not become better than the candidate. */
static const double worth_it = 1.25;

/* Whose time is at most so many times the best gets cuts for other numbers of chunks. */
static const double nearly = 1.02;

enum { BUCKET_LARGEST = 2, BUCKET_SMALLEST = -6 }; /* sizes tried, as powers of two of the usual */

/* The candidate's plan changed takes its place if it is better: c becomes a copy to change, which
 * take_better() scores and frees. */
static enum status copy_of(const struct auto_candidate *best, struct auto_candidate *c)
{
    *c = *best;
    c->plan = (struct plan){0};
    return plan_copy(&best->plan, &c->plan);
}

/* *fits: it does. */
static enum status take_better(struct auto_state *s, struct auto_candidate *c,
                               struct auto_candidate *best, bool *fits)
{
    enum status st = auto_score(s, c);
    *fits = st == STATUS_OK && c->fits;
    if (st == STATUS_OK)
        auto_take_better(c, best);
    plan_free(&c->plan);
    return st;
}

static enum status try_sums(struct auto_state *s, struct auto_candidate *best,
                            const struct strategy *how, bool *fits)
{
    struct auto_candidate c;
    struct strategy_stage own = best->plan.stage[0].own;
    PASS(copy_of(best, &c));
    c.plan.shared = *how;
    strategy_settle(&c.plan.shared, &own);
    return take_better(s, &c, best, fits);
}

/* Which ops share a bucket hangs on its size in steps that no power of two need meet: sixteenths of
 * the candidate's from a half on, eighths above it. On small platforms, where this takes little. */
static enum status try_between(struct auto_state *s, struct auto_candidate *c)
{
    enum { PARTS = 16 };
    int64_t best = c->plan.bucket_bytes;
    struct strategy how = c->plan.shared;
    bool fits;
    if (c->devices > AUTO_SMALL || best < PARTS)
        return STATUS_OK;
    for (int k = PARTS / 2 + 1; k < 2 * PARTS && !auto_must_stop(s); k += k < PARTS ? 1 : 2) {
        how.bucket_bytes = best / PARTS * k;
        if (k != PARTS)
            PASS(try_sums(s, c, &how, &fits));
    }
    return STATUS_OK;
}

/* Buckets of one size; what ZeRO 1 has updated is gathered behind the updates, or later. */
static enum status try_bucket(struct auto_state *s, struct auto_candidate *c, struct strategy how)
{
    bool fits;
    if (how.bucket_bytes == 0)
        return STATUS_OK;
    PASS(try_sums(s, c, &how, &fits));
    how.zero_keep = true;
    return how.zero == 1 && !s->r->fixed.zero_keep ? try_sums(s, c, &how, &fits) : STATUS_OK;
}

static enum status try_buckets(struct auto_state *s, struct auto_candidate *c)
{
    struct auto_trial t = {.shape = {.pipeline = (uint32_t)c->depth, .own = c->plan.stage[0].own}};
    bool all = !auto_given(s, KNOB_BIT(zero)) &&
               c->devices <= AUTO_SMALL; /* levels: which is best depends on it */
    uint32_t first = all ? 0 : c->plan.zero, last = all ? AUTO_ZEROS - 1 : c->plan.zero;
    if (auto_is_uneven(&c->plan)) {
        t.shape.replicas = 2; /* of a stage at least */
        last = last > 1 ? 1 : last;
    }
    PASS(schedule_find(c->plan.schedule, &t.schedule));
    if (auto_given(s, KNOB_BIT(bucket_bytes)) || c->baseline || !c->fits || t.shape.replicas == 1 ||
        t.schedule->split || t.schedule->asynchronous)
        return STATUS_OK;
    int64_t usual = auto_usual_bucket(s, &t.shape);
    struct strategy how = c->plan.shared;
    how.zero_keep = s->r->fixed.zero_keep || (how.zero == 3 && how.zero_keep);
    for (how.zero = first; how.zero <= last; how.zero++)
        for (int shift = BUCKET_LARGEST; shift >= BUCKET_SMALLEST && !auto_must_stop(s); shift--) {
            how.bucket_bytes = shift >= 0 ? usual << shift : usual >> -shift;
            PASS(try_bucket(s, c, how));
        }
    return try_between(s, c);
}

/* Groups from the smallest on: of replicas that are on a node, doubled, until one fits, for the
 * smaller they are, the less is sent; on small platforms all that divide them, as some lie better
 * on a torus. */
static enum status improve_try_sizes(struct auto_state *s, struct auto_candidate *c,
                                     struct strategy how, uint32_t first)
{
    bool small = c->devices <= AUTO_SMALL, fits = false;
    uint32_t replicas = c->plan.stage[0].replicas;
    for (how.zero_group = first;
         how.zero_group < replicas && how.zero_group > 0 && (small || !fits) && !auto_must_stop(s);
         how.zero_group = small ? how.zero_group + 1 : 2 * how.zero_group)
        if (replicas % how.zero_group == 0)
            PASS(try_sums(s, c, &how, &fits));
    how.zero_group = 0;
    return fits && !small ? STATUS_OK : try_sums(s, c, &how, &fits);
}

static enum status try_groups(struct auto_state *s, struct auto_candidate *c)
{
    const struct partition_request *fixed = &s->r->fixed;
    const struct plan_stage *first = &c->plan.stage[0];
    struct auto_shape shape = {
        .pipeline = (uint32_t)c->depth, .own = first->own, .placement = c->placement};
    /* which level is best depends on what is kept, and exec/ cannot do all of them */
    bool small = c->devices <= AUTO_SMALL,
         all = small && !auto_given(s, KNOB_BIT(zero)) && !s->r->executable;
    uint32_t lowest = all ? 2 : c->plan.zero, highest = all ? AUTO_ZEROS - 1 : c->plan.zero;
    uint32_t group = auto_may_group(s, &shape) ? auto_group(s, &shape) : 0;
    if (small && fixed->zero_group == 0 && first->expert_parallel == 1)
        group = 2;
    if (c->baseline || !c->fits || lowest < 2 || shape.replicas == 1 || auto_is_uneven(&c->plan))
        return STATUS_OK;
    for (uint32_t zero = lowest; zero <= highest; zero++)
        for (int keep = zero == 3 && !fixed->zero_keep; keep >= 0; keep--) {
            struct strategy how = c->plan.shared;
            bool fits;
            how.zero = zero;
            how.zero_keep = keep || fixed->zero_keep;
            how.zero_group = fixed->zero_group;
            PASS(group > 0 ? improve_try_sizes(s, c, how, group) : try_sums(s, c, &how, &fits));
        }
    return STATUS_OK;
}

/* Only the first n layers of each stage are made again. */
static enum status try_first(struct auto_state *s, struct auto_candidate *best, uint32_t n,
                             bool *fits)
{
    struct auto_candidate c;
    PASS(copy_of(best, &c));
    for (size_t k = 0; k < c.plan.stages; k++)
        c.plan.stage[k].recompute_layers = n;
    return take_better(s, &c, best, fits);
}

/* The fewer layers are made again, the faster and the larger a plan is: the least number that fits,
 * by bisection. */
enum status auto_try_layers(struct auto_state *s, struct auto_candidate *c)
{
    uint32_t most = 0, too_few = 0;
    for (size_t k = 0; k < c->plan.stages; k++) {
        uint32_t n = plan_stage_layers(&c->plan.stage[k], s->m);
        most = n > most ? n : most;
    }
    if (auto_given(s, KNOB_BIT(recompute)) || c->baseline || !c->fits ||
        c->plan.stage[0].recompute != RECOMPUTE_FULL)
        return STATUS_OK;
    while (most - too_few > 1 && !auto_must_stop(s)) {
        bool fits;
        uint32_t n = (most + too_few) / 2;
        PASS(try_first(s, c, n, &fits));
        if (fits)
            most = n;
        else
            too_few = n;
    }
    return STATUS_OK;
}

static enum status improve_candidate(struct auto_state *s, struct auto_candidate *c)
{
    PASS(try_groups(s, c));
    PASS(auto_try_layers(s, c));
    PASS(try_buckets(s, c));
    return try_groups(s, c); /* which buckets change */
}

/* What differs from the candidate, improved in its own way: which is best hangs on what hides
 * behind the passes. *better: it took the candidate's place. */
static enum status try_other(struct auto_state *s, struct auto_candidate *other,
                             struct auto_candidate *best, bool *better)
{
    PASS(auto_score(s, other));
    if (other->fits && other->quick.iteration_s < worth_it * best->quick.iteration_s)
        PASS(improve_candidate(s, other));
    *better = auto_take_better(other, best);
    return STATUS_OK;
}

static enum status improve_try_size(struct auto_state *s, struct auto_candidate *best, size_t size,
                                    bool *better)
{
    struct auto_candidate c;
    PASS(copy_of(best, &c));
    c.plan.microbatch_size = (uint32_t)size;
    c.plan.microbatches = (uint32_t)(s->r->samples / size);
    enum status st = try_other(s, &c, best, better);
    plan_free(&c.plan);
    return st;
}

static enum status improve_try_division(struct auto_state *s, struct auto_candidate *best, size_t k,
                                        bool *better)
{
    enum status st = STATUS_OK;
    struct auto_candidate c;
    PASS(copy_of(best, &c));
    if (auto_divide_otherwise(s, &c, k))
        st = try_other(s, &c, best, better);
    plan_free(&c.plan);
    return st;
}

/* The candidate's strategy in a cut for so many ranks in the pipeline, each with so many stages;
 * out->plan.stages is 0 where there is none. */
static enum status cut_otherwise(struct auto_state *s, const struct auto_candidate *like,
                                 uint32_t pipeline, uint32_t chunks, struct auto_candidate *out)
{
    struct auto_trial t = {.shape = {.pipeline = pipeline,
                                     .chunks = chunks,
                                     .microbatch_size = like->plan.microbatch_size,
                                     .shared = like->plan.shared,
                                     .own = like->plan.stage[0].own,
                                     .placement = like->placement}};
    *out = *like;
    out->plan = (struct plan){0};
    out->depth = pipeline;
    out->devices = auto_devices(&t.shape);
    t.shape.most_stages = partition_most_stages(s->m, t.shape.tensor_parallel, s->layers);
    if (out->devices > s->t->n || !auto_chunks_wanted(s, &t.shape, chunks))
        return STATUS_OK;
    PASS(schedule_find(schedule_usual(chunks > 1), &t.schedule));
    PASS(auto_cut_for(s, &t, &out->plan));
    out->plan.shared = like->plan.shared;
    for (size_t k = 0; k < out->plan.stages; k++)
        out->plan.stage[k].own = like->plan.stage[0].own;
    return STATUS_OK;
}

static enum status try_chunks(struct auto_state *s, struct auto_candidate *best, uint32_t chunks)
{
    enum status st;
    struct auto_candidate c;
    bool better = false;
    TRY(cut_otherwise(s, best, (uint32_t)best->depth, chunks, &c));
    if (c.plan.stages > 0)
        TRY(try_other(s, &c, best, &better));
    if (better)
        TRY(auto_try_neighbours(s, best));
out:
    plan_free(&c.plan);
    return st;
}

enum status auto_try_depth(struct auto_state *s, const struct auto_candidate *like, size_t depth,
                           struct auto_candidate *out)
{
    PASS(cut_otherwise(s, like, (uint32_t)depth, plan_chunks(&like->plan), out));
    if (out->plan.stages == 0)
        return STATUS_OK;
    free(out->plan.schedule);
    out->plan.schedule = NULL;
    out->verified = false;
    PASS(text_copy(like->plan.schedule, &out->plan.schedule));
    PASS(auto_score(s, out));
    return auto_improve(s, out);
}

static enum status improve_try_chunks(struct auto_state *s, struct auto_candidate *c)
{
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : AUTO_CHUNKS;
    if (c->baseline || !c->fits || auto_is_uneven(&c->plan) || c->depth == 1 ||
        s->r->fixed.schedule || c->quick.iteration_s > nearly * s->best_s)
        return STATUS_OK;
    for (uint32_t chunks = 1; chunks <= most && !auto_must_stop(s); chunks++)
        if (chunks != plan_chunks(&c->plan))
            PASS(try_chunks(s, c, chunks));
    return STATUS_OK;
}

/* The next larger (step 1) or smaller (-1) size that divides the samples over the candidate's
 * streams, 0: there is none. */
static size_t next_size(const struct auto_state *s, const struct plan *p, int step)
{
    size_t streams = plan_streams(&p->stage[0]), size = p->microbatch_size;
    while ((size += (size_t)step) > 0 && size <= s->r->samples)
        if (auto_divides(s, size, streams))
            return size;
    return 0;
}

enum status auto_improve(struct auto_state *s, struct auto_candidate *c)
{
    PASS(improve_candidate(s, c));
    PASS(auto_try_neighbours(s, c));
    PASS(improve_try_chunks(s, c));
    double before_s = c->quick.iteration_s;
    PASS(auto_search_graph(s, c));
    if (c->quick.iteration_s < before_s) {
        PASS(improve_candidate(s, c));
        PASS(auto_try_neighbours(s, c));
    }
    PASS(auto_swap_nodes(s, c));
    if (c->baseline || !c->fits || c->devices > AUTO_SMALL || auto_is_uneven(&c->plan))
        return STATUS_OK;
    for (int step = -1; step <= 1; step += 2) {
        bool better = true;
        while (better && !auto_must_stop(s)) {
            size_t size = next_size(s, &c->plan, step);
            better = false;
            if (size > 0)
                PASS(improve_try_size(s, c, size, &better));
        }
    }
    for (size_t k = 0; k < AUTO_DIVISIONS && !auto_must_stop(s); k++) {
        bool better = false;
        PASS(improve_try_division(s, c, k, &better));
        k = better ? SIZE_MAX : k; /* from the first one again */
    }
    return STATUS_OK;
}
