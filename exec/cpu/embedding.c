/* Embedding: y(b,t,:) = table[token(b,t),:] + positions[t,:] + types[0,:], the last two if there
 * are any (GPT-2, BERT). With `concat` the T rows of a sample count as one row of T*C channels
 * (a context window for an MLP, Bengio et al., JMLR 3 (2003) 1137): the same memory. */
#include "exec/corpus.h"
#include "exec/cpu/kinds.h"
#include "exec/cpu/vector.h"

static enum status shape(const struct model_op *op, struct layer *l)
{
    enum status st;
    TRY(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    TRY(layer_attribute(op, "channels", -1, 1, &l->out));
    TRY(layer_attribute(op, "vocabulary", -1, CORPUS_VOCABULARY, &l->vocabulary));
    TRY(layer_attribute(op, "positions", 0, (int64_t)l->tokens, &l->positions));
    TRY(layer_attribute(op, "types", 0, 0, &l->types));
    TRY(layer_flag(op, "concat", &l->concat));
    l->part[0] = (struct layer_part){size_times(l->vocabulary, l->out), FILL_NORMAL};
    l->part[1] = (struct layer_part){size_times(l->positions, l->out), FILL_NORMAL};
    l->part[2] = (struct layer_part){size_times(l->types, l->out), FILL_NORMAL};
    l->output = size_times(l->tokens, l->out);
out:
    return st;
}

static void forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out;
    const real *positions = io->parameter + l->part[0].n, *types = positions + l->part[1].n;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *table = io->parameter + (size_t)io->token[row] * c;
        real *y = io->y + row * c;
        memcpy(y, table, c * sizeof *y);
        if (l->positions > 0)
            vector_add(y, positions + row % l->tokens * c, c);
        if (l->types > 0)
            vector_add(y, types, c);
    }
}

static void backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out;
    real *positions = io->d_parameter + l->part[0].n, *types = positions + l->part[1].n;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *dy = io->dy + row * c;
        vector_add(io->d_parameter + (size_t)io->token[row] * c, dy, c);
        if (l->positions > 0)
            vector_add(positions + row % l->tokens * c, dy, c);
        if (l->types > 0)
            vector_add(types, dy, c);
    }
}

const struct layer_kind kind_embedding = {"embedding", 0, shape, forward, backward, NULL};
