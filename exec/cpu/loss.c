/* Softmax cross-entropy: x (B, T, V) are logits; a row with target k >= 0 costs
 * log sum_i exp(x_i) - x_k, other rows nothing. The loss of the step is the mean over all targets:
 * io->scale is one over their number. `masked` says where targets come from (exec/corpus.h). */
#include "exec/corpus.h"
#include "exec/cpu/kinds.h"
#include "exec/cpu/vector.h"

static enum status shape(const struct model_op *op, struct layer *l)
{
    enum status st;
    TRY(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    TRY(layer_attribute(op, "vocabulary", -1, CORPUS_VOCABULARY, &l->vocabulary));
    TRY(layer_flag(op, "masked", &l->masked));
    l->in = l->vocabulary;
    l->input = size_times(l->tokens, l->in);
    l->saved = 2 * l->tokens; /* largest logit and 1 / sum of exp(x - largest) of each row */
    l->work = l->vocabulary;
out:
    return st;
}

static void forward(const struct layer *l, struct layer_io *io)
{
    size_t v = l->vocabulary;
    io->loss = 0;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * v;
        if (io->target[row] < 0)
            continue;
        real largest = vector_max(x, v);
        for (size_t i = 0; i < v; i++)
            io->work[i] = vector_exp(x[i] - largest);
        real sum = vector_sum(io->work, v);
        io->saved[2 * row] = largest;
        io->saved[2 * row + 1] = 1 / sum;
        io->loss += log((double)sum) + (double)(largest - x[io->target[row]]);
    }
}

/* dx = scale (softmax(x) - one at the target) */
static void backward(const struct layer *l, struct layer_io *io)
{
    size_t v = l->vocabulary;
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
        dx[io->target[row]] -= io->scale;
    }
}

const struct layer_kind kind_loss = {"loss", 1, shape, forward, backward, NULL};
