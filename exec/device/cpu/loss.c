/* Softmax cross-entropy: x (B, T, V) are logits; a row with target k >= 0 costs
 * log sum_i exp(x_i) - x_k, other rows nothing. The loss of the step is the mean over all targets:
 * io->scale is one over their number. `masked` says where targets come from (exec/corpus.h). */
#include "exec/corpus.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, V), target (B, T), no y; saved (B, T, 2); work [V], and with p shards a struct loss_row
 * for each of the (B, T, p). */
static enum status loss_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "vocabulary", -1, CORPUS_VOCABULARY, &l->vocabulary));
    PASS(layer_flag(op, "masked", &l->masked));
    l->in = l->vocabulary;
    l->input = size_times(l->tokens, l->in);
    l->saved = 2 * l->tokens; /* largest logit and 1 / sum of exp(x - largest) of each row */
    l->work = l->vocabulary;
    return STATUS_OK;
}

/* Largest logit, sum of exp(x - largest) and logit of the target of one row, as far as this shard
 * has them; the target's is 0 elsewhere. */
struct loss_row {
    real largest, sum, target;
};

VECTOR_CLONES static struct loss_row loss_scan_row(const struct layer *l, const real *x,
                                                   size_t target, real *work)
{
    struct loss_row r = {.largest = vector_max(x, l->in)};
    for (size_t i = 0; i < l->in; i++)
        work[i] = vector_exp(x[i] - r.largest);
    r.sum = vector_sum(work, l->in);
    if (target - l->first[0] < l->in)
        r.target = x[target - l->first[0]];
    return r;
}

/* What all shards have seen of one row: sums of exp(x - largest) with different largest ones add up
 * after each is scaled by exp(largest - the largest of all), as in the parallel
 * online normalizer of Milakov & Gimelshein 2018, arXiv:1805.02867. */
static struct loss_row loss_join_shards(const struct loss_row *part, size_t shards)
{
    struct loss_row all = part[0];
    for (size_t k = 1; k < shards; k++) {
        real largest = all.largest > part[k].largest ? all.largest : part[k].largest;
        all.sum = all.sum * vector_exp(all.largest - largest) +
                  part[k].sum * vector_exp(part[k].largest - largest);
        all.target += part[k].target;
        all.largest = largest;
    }
    return all;
}

/* Does the target of a row have the largest of its logits, and is it among the five largest? Of
 * equal ones the first counts: who tells nothing apart hits by chance. */
VECTOR_CLONES static void count_hits(const struct layer *l, const real *x, size_t target,
                                     double hits[LOSS_HITS])
{
    enum { FIVE = 5 };
    size_t larger = 0;
    for (size_t i = 0; i < l->in; i++)
        larger += x[i] > x[target] || (i < target && x[i] >= x[target]);
    hits[0] += larger == 0;
    hits[1] += larger < FIVE;
}

/* Every shard tells all others what it has seen, as a sum in which it is alone in its place. */
static void loss_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    struct loss_row one,
        *part = l->shards > 1 ? (struct loss_row *)(void *)(io->work + l->in) : &one;
    if (l->shards > 1)
        memset(part, 0, rows * l->shards * sizeof *part);
    for (size_t row = 0; row < rows && l->shards > 1; row++)
        if (io->target[row] >= 0)
            part[row * l->shards + l->shard] =
                loss_scan_row(l, io->x[0] + row * l->in, (size_t)io->target[row], io->work);
    if (l->shards > 1)
        io->reduction->sum(io->reduction->self, ELEMENT_FP32, io->work + l->in,
                           3 * rows * l->shards);
    io->loss = 0;
    io->hits[0] = io->hits[1] = l->shards > 1 ? NAN : 0;
    for (size_t row = 0; row < rows; row++) {
        if (io->target[row] < 0)
            continue;
        struct loss_row all = l->shards > 1 ? loss_join_shards(part + row * l->shards, l->shards)
                                            : loss_scan_row(l, io->x[0] + row * l->in,
                                                            (size_t)io->target[row], io->work);
        io->saved[2 * row] = all.largest;
        io->saved[2 * row + 1] = 1 / all.sum;
        io->loss += log((double)all.sum) + (double)(all.largest - all.target);
        if (l->shards == 1)
            count_hits(l, io->x[0] + row * l->in, (size_t)io->target[row], io->hits);
    }
    if (l->shard > 0)
        io->loss = 0; /* the first shard tells */
}

/* dx (B, T, V) = scale (softmax(x) - one at the target), from the largest logit and the sum that
 * the forward has saved; zeros for rows that predict nothing. dy is not looked at: the loss is
 * the end. */
VECTOR_CLONES static void loss_backward(const struct layer *l, struct layer_io *io)
{
    size_t v = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * v;
        real *dx = io->dx[0] + row * v;
        if (io->target[row] < 0) {
            memset(dx, 0, v * sizeof *dx);
            continue;
        }
        real largest = io->saved[2 * row], scale = io->saved[2 * row + 1] * io->scale;
        for (size_t i = 0; i < v; i++)
            dx[i] = vector_exp(x[i] - largest) * scale;
        size_t target = (size_t)io->target[row] - l->first[0];
        if (target < v)
            dx[target] -= io->scale;
    }
}

/* By classes, as the product that makes the logits. */
static enum status loss_divide(const struct model_op *op, const struct layer_shard *s, size_t batch,
                               struct layer *l)
{
    if (op->tensor != TENSOR_SPLIT)
        return layer_indivisible(op, s, "this loss");
    l->first[0] = shard_first(l->vocabulary, s);
    l->in = shard_rows(l->vocabulary, s);
    l->input = size_times(l->tokens, l->in);
    l->work = size_plus(l->in, size_times(3 * s->shards, size_times(batch, l->tokens)));
    return STATUS_OK;
}

const struct layer_kind kind_loss = {.type = OPERATOR_loss,
                                     .inputs = 1,
                                     .shape = loss_shape,
                                     .forward = loss_forward,
                                     .backward = loss_backward,
                                     .divide = loss_divide};
