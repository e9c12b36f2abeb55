/* The norm of all gradients of the model, for clipping where several ranks have them.
 *
 * Every rank adds up the squares of the gradients that it is the one to count (double, in the order
 * of the parameters), and puts the sum into its own two numbers of an array that has two for each
 * rank. All others are zero, so the all-reduce changes no bit, in whatever order it adds; then
 * everybody adds the ranks' sums in the order of ranks. A parameter counts once:
 *   - of replicas that all keep the whole the first one counts; of parts (ZeRO) each its own;
 *   - of a weight that stages share the owner's copy counts, and borrowed ones do not;
 *   - of what tensor shards hold alike (norms, biases) the first shard that has it counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "exec/device/cpu/stage_parts.h"

/* Parameters of a stage that another rank, or another stage of this one, counts. */
struct elsewhere {
    size_t n;
    struct program_range *part; /* [n] by first number; may overlap */
};

static enum status norm_add_squares(struct elsewhere *e, size_t first, size_t n)
{
    PASS(ARRAY_ROOM(e->part, e->n));
    e->part[e->n++] = (struct program_range){first, n};
    return STATUS_OK;
}

/* Is part i of shard's layer a part of a shard before it, too? */
static enum status add_alike(const struct stage *s, const struct stage_op *o, struct elsewhere *e)
{
    bool alike[LAYER_PARTS] = {0};
    struct layer_shard before = s->share.shard;
    for (before.shard = 0; before.shard < s->share.shard.shard; before.shard++) {
        struct layer l;
        PASS(layer_shape(s->model, o->index, s->layout.batch, &l));
        PASS(layer_divide(s->model, o->index, &before, s->layout.batch, &l));
        for (size_t i = 0; i < LAYER_PARTS; i++)
            alike[i] = alike[i] || (l.part[i].n > 0 && l.part[i].n == o->layer.part[i].n &&
                                    l.part[i].from == o->layer.part[i].from);
    }
    for (size_t i = 0, first = o->parameter; i < LAYER_PARTS; first += o->layer.part[i++].n)
        if (alike[i])
            PASS(norm_add_squares(e, first, o->layer.part[i].n));
    return STATUS_OK;
}

static int norm_by_first(const void *a, const void *b)
{
    const struct program_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static enum status find_elsewhere(const struct stage *s, struct elsewhere *e)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        uint32_t owner = s->model->op[o->index].shares;
        if (owner != MODEL_NO_OP && stage_find(s, owner) == NOWHERE)
            PASS(norm_add_squares(e, o->shared, o->layer.shared));
        if (s->share.shard.shard > 0 && !o->layer.borrows)
            PASS(add_alike(s, o, e));
    }
    if (e->n > 0)
        qsort(e->part, e->n, sizeof *e->part, norm_by_first);
    return STATUS_OK;
}

static double norm_squares(const real *gradient, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    return sum;
}

/* Of the own part of a bucket. */
static double bucket_squares(const struct stage *s, const struct stage_bucket *p,
                             const struct elsewhere *e)
{
    size_t first = p->first + p->own.first, at = first, end = first + p->own.n;
    const real *gradient = s->state.sum ? s->state.sum + p->at : s->state.gradient + first;
    double sum = 0;
    for (size_t i = 0; i < e->n && at < end; i++) {
        size_t from = e->part[i].first, to = from + e->part[i].n;
        if (from > at)
            sum += norm_squares(gradient + (at - first), (from < end ? from : end) - at);
        at = to > at ? to : at;
    }
    return sum + (at < end ? norm_squares(gradient + (at - first), end - at) : 0);
}

/* Is this replica the one to count the bucket, or its part of it? The last buckets may be of spread
 * experts, of which neighbouring replicas have different ones. */
static bool norm_counts(const struct stage *s, size_t bucket)
{
    bool experts = bucket >= s->share.buckets;
    if (s->share.zero > 0)
        return experts || s->share.me < s->share.members;
    return s->share.me < (experts ? s->share.experts : 1);
}

static enum status stage_squares(struct stage *s, double *out)
{
    enum status st;
    struct elsewhere e = {0};
    TRY(find_elsewhere(s, &e));
    if (s->share.zero < 2)
        stage_fold(s);
    for (size_t b = 0; b < s->share.regions; b++)
        if (norm_counts(s, b))
            *out += bucket_squares(s, &s->share.bucket[b], &e) * s->state.scale * s->state.scale;
out:
    free(e.part);
    return st;
}

enum status cpu_norm_begin(struct stage_set *c, real **data, size_t *n)
{
    const struct stage *s = c->stage;
    double sum = 0;
    *n = 2 * s->program->ranks;
    if (!c->norm)
        PASS(ARRAY_NEW(c->norm, *n));
    memset(c->norm, 0, *n * sizeof *c->norm);
    PASS(cpu_sum_ties(c, s->model));
    for (size_t k = 0; k < c->stages; k++)
        PASS(stage_squares(&c->stage[k], &sum));
    real *own = c->norm + 2 * (size_t)s->rank;
    own[0] = (real)sum;
    own[1] = isfinite(own[0]) ? (real)(sum - (double)own[0]) : 0; /* what fp32 has no room for */
    *data = c->norm;
    return STATUS_OK;
}

void cpu_norm_end(struct stage_set *c)
{
    double sum = 0, most = c->stage->state.optimizer.clip;
    for (size_t r = 0; r < c->stage->program->ranks; r++)
        sum += (double)c->norm[2 * r] + (double)c->norm[2 * r + 1];
    for (size_t k = 0; k < c->stages; k++) {
        c->stage[k].state.clipped = sqrt(sum) > most ? most / sqrt(sum) : 1;
        c->stage[k].state.is_clipped = true;
    }
}
