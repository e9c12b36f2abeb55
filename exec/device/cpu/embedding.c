/* Embedding: y(b,t,:) = table[token(b,t),:] + positions[t,:] + types[0,:], the last two if there
 * are any (GPT-2, BERT). With `concat` the T rows of a sample count as one row of T*C channels
 * (a context window for an MLP, Bengio et al., JMLR 3 (2003) 1137): the same memory. */
#include "exec/corpus.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* token (B, T) of 0 .. V - 1, y (B, T, C). Parts: table (V, C), positions (P, C), types (S, C), one
 * after the other, all normal(0, 0.02). Nothing is saved: the backward reads the tokens again. */
static enum status embedding_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->out));
    PASS(layer_attribute(op, "vocabulary", -1, CORPUS_VOCABULARY, &l->vocabulary));
    PASS(layer_attribute(op, "positions", 0, (int64_t)l->tokens, &l->positions));
    PASS(layer_attribute(op, "types", 0, 0, &l->types));
    PASS(layer_flag(op, "concat", &l->concat));
    PASS(layer_flag(op, "scaled", &l->scaled));
    if (model_attribute(op, "borrowed", 0) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': foreline run cannot compute kind '%s' that shares the table of "
                         "another op; try --compute paced",
                         op->name, op->kind);
    l->part[0] = (struct layer_part){.n = size_times(l->vocabulary, l->out), .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = size_times(l->positions, l->out), .fill = FILL_NORMAL};
    l->part[2] = (struct layer_part){.n = size_times(l->types, l->out), .fill = FILL_NORMAL};
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

/* Offset of row `at` of a table in the parameters; false: another shard has it, or nobody. */
static bool embedding_find_row(const struct layer *l, size_t table, size_t at, size_t *offset)
{
    size_t start = 0;
    for (size_t i = 0; i < table; i++)
        start += l->part[i].n;
    if (at < l->first[table] || (at - l->first[table]) * l->out >= l->part[table].n)
        return false;
    *offset = start + (at - l->first[table]) * l->out;
    return true;
}

/* Gemma's rows of the table count sqrt(C) times. */
static real embedding_scale(const struct layer *l)
{
    return l->scaled ? (real)sqrt((double)l->out) : 1;
}
static void scaled_copy(const struct layer *l, const real *restrict x, real *restrict y)
{
    real scale = embedding_scale(l);
    for (size_t i = 0; i < l->out; i++)
        y[i] = scale * x[i];
}
static void scaled_add(const struct layer *l, const real *restrict x, real *restrict y)
{
    real scale = embedding_scale(l);
    for (size_t i = 0; i < l->out; i++)
        y[i] += scale * x[i];
}

/* A row that another shard has counts as zeros: the sum over the shards is the output. */
static void embedding_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out, at;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        real *y = io->y + row * c;
        if (embedding_find_row(l, 0, (size_t)io->token[row], &at))
            scaled_copy(l, io->parameter + at, y);
        else
            memset(y, 0, c * sizeof *y);
        if (embedding_find_row(l, 1, layer_position(l, row % l->tokens), &at))
            vector_add(y, io->parameter + at, c);
        if (embedding_find_row(l, 2, 0, &at))
            vector_add(y, io->parameter + at, c);
    }
}

/* d_table[token(b, t), :] += dy(b, t, :), and likewise the other two tables. There is no dx:
 * nothing comes before an embedding. Rows are added in the order of the batch, so the bits do not
 * depend on how often a token occurs elsewhere. */
static void embedding_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out, at;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *dy = io->dy + row * c;
        if (embedding_find_row(l, 0, (size_t)io->token[row], &at))
            scaled_add(l, dy, io->d_parameter + at);
        if (embedding_find_row(l, 1, layer_position(l, row % l->tokens), &at))
            vector_add(io->d_parameter + at, dy, c);
        if (embedding_find_row(l, 2, 0, &at))
            vector_add(io->d_parameter + at, dy, c);
    }
}

/* By rows of every table: a shard adds the rows that it has. */
static enum status embedding_divide(const struct model_op *op, const struct layer_shard *s,
                                    size_t batch, struct layer *l)
{
    (void)batch;
    const size_t rows[LAYER_PARTS] = {l->vocabulary, l->positions, l->types};
    if (op->tensor != TENSOR_ROW || l->concat)
        return layer_indivisible(op, s, "this embedding");
    for (size_t i = 0; i < LAYER_PARTS; i++) {
        l->first[i] = shard_first(rows[i], s);
        layer_divide_rows(s, rows[i], l->out, &l->part[i]);
    }
    return STATUS_OK;
}

const struct layer_kind kind_embedding = {.type = OPERATOR_embedding,
                                          .inputs = 0,
                                          .shape = embedding_shape,
                                          .forward = embedding_forward,
                                          .backward = embedding_backward,
                                          .divide = embedding_divide,
                                          .exact = true};
