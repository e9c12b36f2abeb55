/* The table of layer kinds, what all of them have in common: attributes, checks against what the
 * model says, division over shards, start values. */
#include "exec/device/cpu/kinds.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"

static const struct layer_kind *const kinds[OPERATORS] = {
#define YES(name) [OPERATOR_##name] = &kind_##name,
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) cpu(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES
};

#define SIZE_LIMIT ((size_t)1 << 40) /* numbers in any one tensor; more fits no machine */

enum element layer_half(const struct model *m)
{
    if (m->element_bytes != 2)
        return ELEMENT_FP32;
    return m->dtype == DATA_fp16 ? ELEMENT_FP16 : ELEMENT_BF16;
}

const struct layer_kind *layer_kind_of(enum operator_type type)
{
    return kinds[type];
}

/* What attributes make of a kind. */
static const struct layer_kind *kinds_layer_kind(const struct model_op *op)
{
    enum operator_type type = model_op_type(op);
    if (type == OPERATOR_attention && model_attribute(op, "relative", 0) != 0)
        type = OPERATOR_relative;
    if (type == OPERATOR_linear && model_attribute(op, "own", 0) != 0)
        type = OPERATOR_joined;
    return kinds[type];
}

/* Attributes are limited so that products of three of them fit 64 bits and strides fit an int. */
enum status layer_attribute(const struct model_op *op, const char *name, int64_t fallback,
                            int64_t low, size_t *out)
{
    const int64_t absent = INT64_MIN, high = INT_MAX / 4; /* 3 x high is still a stride for BLAS */
    int64_t value = model_attribute(op, name, fallback < 0 ? absent : fallback);
    if (value == absent)
        return error_set(STATUS_INVALID, "op '%s': attribute '%s' of kind '%s' is missing",
                         op->name, name, op->kind);
    bool is_default = fallback >= 0 && value == fallback;
    if (!is_default && (value < low || value > high))
        return error_set(STATUS_INVALID,
                         "op '%s': attribute '%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                         op->name, name, value, low, high);
    *out = (size_t)value;
    return STATUS_OK;
}

enum status layer_flag(const struct model_op *op, const char *name, bool *out)
{
    int64_t value = model_attribute(op, name, 0);
    if (value != 0 && value != 1)
        return error_set(STATUS_INVALID, "op '%s': attribute '%s' is %" PRId64 ", expected 0 or 1",
                         op->name, name, value);
    *out = value == 1;
    return STATUS_OK;
}

enum status layer_rowwise(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    l->out = l->in;
    l->input = l->output = size_times(l->tokens, l->in);
    return STATUS_OK;
}

enum status layer_is_told(const struct model_op *op, const char *attribute)
{
    if (model_attribute(op, attribute, INT64_MIN) != INT64_MIN)
        return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED,
                     "op '%s': foreline run cannot compute kind '%s': the model does not give its "
                     "'%s'; try --compute paced",
                     op->name, op->kind, attribute);
}

enum status layer_windows(const struct model_op *op, struct layer *l)
{
    struct layer_window *w = &l->window_of;
    PASS(layer_attribute(op, "height", -1, 1, &w->height));
    PASS(layer_attribute(op, "width", -1, 1, &w->width));
    PASS(layer_attribute(op, "kernel", -1, 1, &w->kernel));
    PASS(layer_attribute(op, "stride", -1, 1, &w->stride));
    PASS(layer_attribute(op, "padding", -1, 0, &w->padding));
    size_t least = w->height < w->width ? w->height : w->width;
    if (w->kernel > least + 2 * w->padding || w->padding >= w->kernel)
        return error_set(STATUS_INVALID,
                         "op '%s': windows of %zu x %zu do not fit into %zu x %zu with padding %zu",
                         op->name, w->kernel, w->kernel, w->height, w->width, w->padding);
    w->down = (w->height + 2 * w->padding - w->kernel) / w->stride + 1;
    w->across = (w->width + 2 * w->padding - w->kernel) / w->stride + 1;
    l->tokens = size_times(w->down, w->across);
    l->input = size_times(size_times(w->height, w->width), l->in);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

enum status layer_odd_kernel(const struct model_op *op, size_t *out)
{
    PASS(layer_attribute(op, "kernel", -1, 1, out));
    return *out % 2 == 1
               ? STATUS_OK
               : error_set(STATUS_INVALID, "op '%s': kernel has %zu tokens, expected an odd number",
                           op->name, *out);
}

/* What the model says of the op in bytes must be what the attributes come to. */
static enum status kinds_check_bytes(const struct model *m, const struct model_op *op,
                                     const char *what, int64_t bytes, size_t expected)
{
    size_t wanted = size_times(expected, (size_t)m->element_bytes);
    if (bytes >= 0 && (uint64_t)bytes == wanted)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "op '%s': %s takes %" PRId64
                     " bytes, but its attributes give %zu bytes (%d-bit elements)",
                     op->name, what, bytes, wanted, (int)(8 * m->element_bytes));
}

/* As many producers as the kind reads, each with an output of the size that it expects. */
static enum status kinds_check_inputs(const struct model *m, uint32_t index, const struct layer *l)
{
    const struct model_op *op = &m->op[index];
    size_t edges = m->in_start[index + 1] - m->in_start[index];
    if (edges != l->inputs)
        return error_set(STATUS_INVALID, "op '%s': kind '%s' needs %zu inputs, got %zu", op->name,
                         op->kind, l->inputs, edges);
    enum status st = STATUS_OK;
    for (size_t e = m->in_start[index]; e < m->in_start[index + 1] && st == STATUS_OK; e++) {
        const struct model_op *from = &m->op[m->in[e]];
        st = kinds_check_bytes(m, from, "output", from->output_bytes,
                               layer_input(l, e - m->in_start[index]));
        if (st != STATUS_OK)
            st = error_context(st, "op '%s' has an input of the wrong shape", op->name);
    }
    if (l->output == 0 && m->out_start[index + 1] > m->out_start[index])
        return error_set(STATUS_INVALID,
                         "op '%s': the output of kind '%s' cannot be read by other ops", op->name,
                         op->kind);
    return st;
}

/* Sizes that no machine has, or that BLAS cannot count in its ints, are refused before anything is
 * allocated. */
static enum status kinds_check_limits(const struct model_op *op, const struct layer *l,
                                      size_t batch)
{
    const size_t tensors[] = {l->parameters,
                              l->shared,
                              size_times(batch, l->input),
                              size_times(batch, l->output),
                              size_times(batch, l->saved),
                              l->work};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (tensors[i] > SIZE_LIMIT)
            return error_set(STATUS_INVALID, "op '%s': a tensor has more than 2^40 elements",
                             op->name);
    if (size_times(batch, l->tokens) > INT_MAX)
        return error_set(STATUS_INVALID,
                         "op '%s': %zu samples of %zu tokens have more than %d rows", op->name,
                         batch, l->tokens, INT_MAX);
    return STATUS_OK;
}

bool layer_borrows(const struct model *m, uint32_t op)
{
    const struct model_op *o = &m->op[op];
    return o->shares != MODEL_NO_OP && o->parameter_bytes == 0 &&
           strcmp(o->kind, m->op[o->shares].kind) == 0;
}

/* Parameters are those of all parts, or all of them are borrowed. */
static void count_parameters(struct layer *l)
{
    size_t n = 0;
    for (size_t i = 0; i < LAYER_PARTS; i++)
        n = size_plus(n, l->part[i].n);
    *(l->borrows ? &l->shared : &l->parameters) = n;
}

/* 1. the kind's own sizes from the attributes
 * 2. its parts follow each other in the op's parameters
 * 3. limits, and what the model says in bytes must be the same */
enum status layer_shape(const struct model *m, uint32_t index, size_t batch, struct layer *out)
{
    const struct model_op *op = &m->op[index];
    const struct layer_kind *kind = kinds_layer_kind(op);
    if (!kind)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': foreline run cannot compute kind '%s'; try --compute paced",
                         op->name, op->kind);
    struct layer l = {.kind = kind, .inputs = kind->inputs, .borrows = layer_borrows(m, index)};
    l.tied = op->shares != MODEL_NO_OP && !l.borrows;
    l.shards = l.spread.ranks = l.spread.shards = 1;
    PASS(kind->shape(op, &l));
    l.half = layer_half(m);
    for (size_t i = 0, from = 0; i < LAYER_PARTS; from = size_plus(from, l.part[i++].n)) {
        l.part[i].from = from;
        l.part[i].run = l.part[i].stride = l.part[i].n;
    }
    count_parameters(&l);
    PASS(kinds_check_limits(op, &l, batch));
    if (op->shares != MODEL_NO_OP && l.shared == 0)
        return error_set(STATUS_INVALID, "op '%s': kind '%s' cannot share parameters", op->name,
                         op->kind);
    PASS(kinds_check_bytes(m, op, "parameter_bytes", op->parameter_bytes, l.parameters));
    PASS(kinds_check_bytes(m, op, "shared_bytes", op->shared_bytes, l.shared));
    if (l.output > 0)
        PASS(kinds_check_bytes(m, op, "output_bytes", op->output_bytes, l.output));
    PASS(kinds_check_inputs(m, index, &l));
    *out = l;
    return STATUS_OK;
}

/* The op that reads, maybe through others that work on the same rows, what op makes, if it has
 * this trait; MODEL_NO_OP: none. */
static uint32_t read_by(const struct model *m, uint32_t op, enum operator_trait trait)
{
    for (size_t e = m->out_start[op]; e < m->out_start[op + 1]; e++) {
        const struct model_op *next = &m->op[m->out[e]];
        /* a rotation, or a norm of heads; what is made of latents is divided by heads as it is */
        bool passes =
            (model_op_is(next, OPERATOR_ROTATION) && model_attribute(next, "turned", 0) == 0) ||
            model_attribute(next, "queries", 0) > 0;
        uint32_t found = model_op_is(next, trait) ? m->out[e]
                         : passes                 ? read_by(m, m->out[e], trait)
                                                  : MODEL_NO_OP;
        if (found != MODEL_NO_OP)
            return found;
    }
    return MODEL_NO_OP;
}

/* q, k and v of attention, or the two halves that a gated activation reads, come out of one
 * product: they are divided alike. */
static void kinds_find_groups(const struct model *m, uint32_t op, struct layer_shard *s)
{
    uint32_t reader = read_by(m, op, OPERATOR_ATTENTION);
    s->groups = read_by(m, op, OPERATOR_GATED) != MODEL_NO_OP ? 2 : 1;
    if (reader == MODEL_NO_OP)
        return;
    const struct model_op *a = &m->op[reader];
    int64_t heads = model_attribute(a, "heads", 1), kv = model_attribute(a, "kv_heads", heads);
    int64_t queries = model_attribute(a, "channels", 0);
    s->groups = 3;
    s->queries = heads != kv ? (size_t)queries : 0;
    s->keys = heads != kv ? (size_t)(queries / heads * kv) : 0;
}

/* From the whole op to one shard's: the kind divides, and which side is reduced over the shards
 * follows from how the model says that the op is divided (core/data/model.h: enum model_tensor).
 * Experts are both: their first products are column-parallel. */
enum status layer_divide(const struct model *m, uint32_t index, const struct layer_shard *s,
                         size_t batch, struct layer *l)
{
    const struct model_op *op = &m->op[index];
    struct layer_shard mine = *s;
    bool experts = op->exchange_bytes > 0;
    mine.parts = experts && s->parts > 1 ? s->parts : 1;
    if (mine.parts < 2 && (s->shards < 2 || op->tensor == TENSOR_WHOLE))
        return STATUS_OK;
    kinds_find_groups(m, index, &mine);
    mine.groups = op->tensor == TENSOR_COLUMN ? mine.groups : 1;
    if (!l->kind->divide)
        return error_set(STATUS_UNSUPPORTED, "op '%s': kind '%s' cannot be divided over shards",
                         op->name, op->kind);
    PASS(l->kind->divide(op, &mine, batch, l));
    l->shards = s->shards;
    l->shard = s->shard;
    l->reduces_output = op->tensor == TENSOR_ROW && s->shards > 1;
    l->reduces_input = (op->tensor == TENSOR_COLUMN || experts) && l->inputs > 0 && s->shards > 1;
    count_parameters(l);
    return STATUS_OK;
}

void layer_divide_tokens(struct layer *l, size_t n)
{
    l->tokens /= n;
    l->input /= n;
    l->second /= n;
    l->output /= n;
    l->saved /= n;
    l->moe.slots /= n;
    if (l->kind->resize)
        l->kind->resize(l);
}

/* Every kind but attention (context.c) does the same with fewer tokens, experts that drop none
 * too. */
enum status layer_share(const struct model_op *op, size_t context, size_t position, bool swaps,
                        size_t batch, struct layer *l)
{
    if (context < 2)
        return STATUS_OK;
    bool drops = layer_drops(l);
    if (l->concat || drops || l->kind->mixes)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': kind '%s'%s does not support context parallelism", op->name,
                         op->kind, drops ? " with a capacity limit" : "");
    if (l->tokens % (2 * context) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': got sequences of %zu tokens, expected a multiple of %zu (two "
                         "chunks for each of %zu context-parallel ranks)",
                         op->name, l->tokens, 2 * context, context);
    l->context.replicas = context;
    l->context.position = position;
    l->context.swaps = swaps;
    l->context.sequence = l->tokens;
    layer_divide_tokens(l, context);
    return l->kind->share ? l->kind->share(op, batch, l) : STATUS_OK;
}

real *layer_grow(const struct layer_io *io, struct layer_array *a, size_t n)
{
    if (n <= a->n && a->data)
        return a->data;
    free(a->data);
    a->data = n <= SIZE_LIMIT ? malloc((n + 1) * sizeof *a->data) : NULL;
    *io->bytes += ((int64_t)n - (int64_t)a->n) * (int64_t)sizeof *a->data;
    a->n = a->data ? n : 0;
    if (!a->data)
        io->reduction->fail(io->reduction->self,
                            error_set(STATUS_NOMEM,
                                      "out of memory: buffer of %zu bytes for experts",
                                      size_times(n, sizeof *a->data)));
    return a->data;
}

enum status layer_indivisible(const struct model_op *op, const struct layer_shard *s,
                              const char *what)
{
    return error_set(STATUS_UNSUPPORTED, "op '%s': %s cannot be divided over %zu shards", op->name,
                     what, s->shards);
}

enum status layer_divide_heads(const struct model_op *op, const struct layer_shard *s,
                               struct layer *l)
{
    if (l->heads.n % s->shards != 0 || l->heads.kv % s->shards != 0)
        return layer_indivisible(op, s, "its number of heads");
    l->heads.n /= s->shards;
    l->heads.kv /= s->shards;
    return STATUS_OK;
}

/* Each of the groups is divided over the shards in the same way; a shard has `run` numbers of every
 * group, `stride` numbers apart. */
void layer_divide_rows(const struct layer_shard *s, size_t rows, size_t columns,
                       struct layer_part *part)
{
    size_t group = rows / s->groups;
    part->from += shard_first(group, s) * columns;
    part->run = shard_rows(group, s) * columns;
    part->stride = group * columns;
    part->n = s->groups * part->run;
}

enum status layer_divide_channels(const struct model_op *op, const struct layer_shard *s,
                                  size_t batch, struct layer *l)
{
    (void)op, (void)batch;
    l->in = l->out = shard_rows(l->in, s);
    l->input = l->output = size_times(l->tokens, l->in);
    return STATUS_OK;
}

/* A standard normal number: Box & Muller 1958, the cosine half. */
static double normal(uint64_t key, uint64_t i)
{
    const double two_pi = 6.283185307179586;
    double u = 1.0 - random_unit(key, 2 * i); /* in (0, 1] */
    return sqrt(-2.0 * log(u)) * cos(two_pi * random_unit(key, 2 * i + 1));
}

/* The start value of number `at` of the whole op. */
static double start_value(const struct layer_part *p, uint64_t key, size_t at)
{
    switch (p->fill) {
    case FILL_NORMAL:
        return 0.02 * normal(key, at);
    case FILL_FAN:
        return sqrt(2.0 / (double)p->fan) * normal(key, at);
    case FILL_ONE:
        return 1;
    case FILL_ZERO:
        break;
    }
    return 0;
}

/* Number `at` in the whole op decides the value: shards and copies of it agree with the whole. */
void layer_start(const struct layer *l, uint64_t seed, uint32_t op, size_t n, real *parameter)
{
    uint64_t key = random_key(seed, op);
    size_t i = 0;
    for (const struct layer_part *p = l->part; p < l->part + LAYER_PARTS; p++)
        for (size_t k = 0; k < p->n && i < n; k++, i++)
            parameter[i] = (real)start_value(p, key, p->from + k / p->run * p->stride + k % p->run);
}
