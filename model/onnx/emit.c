/* Ops of an imported ONNX graph, with the formulas of layers.h. */
#include "model/onnx/emit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/layers.h"

enum { KIND = 64 };

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

void onnx_clean(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '_';
}

/* ---- products */

static void onnx_emit_add_linear(struct onnx_build *b, const struct onnx_node *n, const char *name,
                                 const struct onnx_match *m, int64_t in)
{
    const struct onnx_value *y = onnx_at(b, n->output[0]);
    int64_t out = onnx_last(y);
    const struct linear_shape s = {.tokens = onnx_size(b, y) / out,
                                   .in = in,
                                   .out = out,
                                   .bias = m->bias != ONNX_NONE,
                                   .tied = MODEL_NO_OP};
    const uint32_t own[] = {m->weight, m->bias};
    uint32_t op = layer_linear(&b->out, name, MODEL_NO_OP, &s);
    onnx_finish_op(b, n, op, &m->x, 1, own, 2);
}

/* By a matrix of parameters it is linear; else a product of what is made. */
static void add_matmul(struct onnx_build *b, const struct onnx_node *n, const char *name)
{
    const struct onnx_value *x = onnx_in(b, n, 0), *w = onnx_in(b, n, 1),
                            *y = onnx_at(b, n->output[0]);
    if (onnx_is_active(x) && w && w->role == ONNX_PARAMETER && w->rank == 2) {
        const struct onnx_match m = {.x = n->input[0], .weight = n->input[1], .bias = ONNX_NONE};
        onnx_emit_add_linear(b, n, name, &m, w->dim[0]);
        return;
    }
    double work = 2.0 * (double)onnx_size(b, y) * (double)(x && x->is_known ? onnx_last(x) : 1);
    int64_t read =
        (onnx_is_active(x) ? onnx_size(b, x) : 0) + (onnx_is_active(w) ? onnx_size(b, w) : 0);
    onnx_finish_node(b, n,
                     layer_plain(&b->out, name, MODEL_NO_OP,
                                 &(struct plain_shape){.kind = "matmul",
                                                       .read = read,
                                                       .written = onnx_size(b, y),
                                                       .forward = work,
                                                       .backward = 2 * work,
                                                       .again = true}));
}

static void add_gemm(struct onnx_build *b, const struct onnx_node *n, const char *name)
{
    const struct onnx_value *w = onnx_in(b, n, 1), *x = onnx_in(b, n, 0);
    bool transposed = onnx_whole(n, "transB", 0) != 0;
    if (!onnx_is_active(x) || !w || onnx_is_active(w) || w->rank != 2) {
        add_matmul(b, n, name);
        return;
    }
    const struct onnx_match m = {
        .x = n->input[0], .weight = n->input[1], .bias = n->inputs > 2 ? n->input[2] : ONNX_NONE};
    onnx_emit_add_linear(b, n, name, &m, w->dim[transposed]);
}

static void add_convolution(struct onnx_build *b, const struct onnx_node *n, const char *name,
                            bool transposed)
{
    const struct onnx_value *x = onnx_in(b, n, 0), *w = onnx_in(b, n, 1),
                            *y = onnx_at(b, n->output[0]);
    int64_t groups = at_least_one(onnx_whole(n, "group", 1));
    if (!x || !w || x->rank < 3 || w->rank != x->rank || y->rank != x->rank || onnx_is_active(w) ||
        x->dim[1] % groups != 0) {
        add_matmul(b, n, name);
        return;
    }
    const struct convolution_shape s = {
        .in = x->dim[1],
        .out = y->dim[1],
        .groups = groups,
        .window = onnx_count(w->rank - 2, w->dim + 2),
        .read = onnx_size(b, x) / at_least_one(x->dim[1]),
        .written = onnx_size(b, y) / at_least_one(y->dim[1]),
        .bias = n->inputs > 2,
        .transposed = transposed,
    };
    if (onnx_count(w->rank, w->dim) != s.in / groups * s.out * s.window) {
        add_matmul(b, n, name);
        return;
    }
    uint32_t op = layer_convolution(&b->out, name, MODEL_NO_OP, &s);
    onnx_finish_op(b, n, op, n->input, 1, n->input + 1, n->inputs > 2 ? 2 : 1);
}

/* ---- norms, gelu, attention */

/* Of channels along the last dimension, or the second one of images. */
static void add_norm(struct onnx_build *b, const struct onnx_node *n, const char *name, uint32_t x,
                     const uint32_t *own, size_t owns, enum onnx_class class)
{
    const struct onnx_value *y = onnx_at(b, n->output[0]);
    bool images = strcmp(n->op, "InstanceNormalization") == 0 ||
                  strcmp(n->op, "GroupNormalization") == 0 || class == CLASS_BATCHNORM;
    int64_t channels = images && y->rank > 1 ? at_least_one(y->dim[1]) : onnx_last(y);
    int64_t rows = onnx_size(b, y) / channels;
    uint32_t op =
        class == CLASS_BATCHNORM ? layer_batchnorm(&b->out, name, MODEL_NO_OP, channels, rows)
        : class == CLASS_RMSNORM
            ? layer_rmsnorm(
                  &b->out, name, MODEL_NO_OP,
                  &(struct rms_shape){.tokens = rows, .width = channels, .channels = channels})
            : layer_norm(&b->out, name, MODEL_NO_OP, rows, channels);
    onnx_finish_op(b, n, op, &x, 1, own, owns);
}

static void add_gelu(struct onnx_build *b, const struct onnx_node *n, const char *name, uint32_t x)
{
    const struct onnx_value *y = onnx_at(b, n->output[0]);
    int64_t channels = onnx_last(y);
    uint32_t op =
        layer_gelu(&b->out, name, MODEL_NO_OP, onnx_size(b, y) / channels, channels, TENSOR_WHOLE);
    onnx_finish_op(b, n, op, &x, 1, NULL, 0);
}

/* The scores say how many heads there are and how many tokens see how many. */
static enum status add_attention(struct onnx_build *b, const struct onnx_node *n, const char *name,
                                 const struct onnx_match *m)
{
    const struct onnx_value *p = onnx_at(b, b->g->node[m->first].output[0]);
    int64_t tokens = p->dim[p->rank - 2], seen = p->dim[p->rank - 1];
    int64_t heads = onnx_size(b, p) / at_least_one(tokens * seen);
    const struct onnx_value *mask = onnx_at(b, m->mask);
    struct attention_shape s = {
        .tokens = tokens,
        .heads = at_least_one(heads),
        .head = onnx_last(onnx_at(b, m->x)),
        .value = onnx_last(onnx_at(b, m->values)),
        .memory = seen == tokens ? 0 : seen,
        .causal = mask && !onnx_is_active(mask),
    };
    s.kv_heads = s.heads;
    double all = (double)s.heads * (double)(s.head + s.value) * (double)(tokens + seen);
    if (!(all < 1e15))
        return error_set(STATUS_INVALID, "%s: an attention op has more than 1e15 elements",
                         b->g->path);
    const uint32_t read[] = {m->x, m->keys, m->values, m->mask};
    uint32_t op = layer_attention(&b->out, name, MODEL_NO_OP, MODEL_NO_OP, &s);
    onnx_finish_op(b, n, op, read, 4, NULL, 0);
    return STATUS_OK;
}

/* ---- tables, sums, the rest */

/* Rows of a table of parameters; what is picked out of what is made by a constant is a view of
 * it. */
static void add_gather(struct onnx_build *b, const struct onnx_node *n, const char *name)
{
    const struct onnx_value *x = onnx_in(b, n, 0), *y = onnx_at(b, n->output[0]);
    if (onnx_is_active(x)) {
        onnx_finish_node(b, n,
                         layer_plain(&b->out, name, MODEL_NO_OP,
                                     &(struct plain_shape){.kind = "gather",
                                                           .read = onnx_size(b, y),
                                                           .written = onnx_size(b, y)}));
        return;
    }
    int64_t channels = x && x->rank > 1 ? at_least_one(onnx_count(x->rank - 1, x->dim + 1)) : 1;
    const struct embedding_shape s = {.tokens = onnx_size(b, y) / channels,
                                      .channels = channels,
                                      .vocabulary = x && x->rank > 0 ? x->dim[0] : 1};
    uint32_t op = layer_embedding(&b->out, name, &s);
    onnx_finish_op(b, n, op, n->input, n->inputs, n->input, 1);
}

static bool onnx_emit_same_shape(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0);
}

/* Sums of two ops' rows, and of learned rows by position, are layers of their own. */
static bool onnx_emit_add_sum(struct onnx_build *b, const struct onnx_node *n, const char *name)
{
    const struct onnx_value *x = onnx_in(b, n, 0), *z = onnx_in(b, n, 1),
                            *y = onnx_at(b, n->output[0]);
    if ((strcmp(n->op, "Add") != 0 && strcmp(n->op, "Sum") != 0) || n->inputs != 2 || !x || !z)
        return false;
    int64_t channels = onnx_last(y), tokens = onnx_size(b, y) / channels;
    if (x->role == ONNX_MADE && z->role == ONNX_MADE && onnx_emit_same_shape(x, z) &&
        b->op_of[n->input[0]] != b->op_of[n->input[1]]) {
        onnx_finish_node(b, n,
                         layer_residual(&b->out, name, MODEL_NO_OP, MODEL_NO_OP, tokens, channels));
        return true;
    }
    const struct onnx_value *p = x->role == ONNX_PARAMETER ? x : z;
    if (p->role != ONNX_PARAMETER || p->rank < 2 || onnx_last(p) != channels ||
        onnx_count(p->rank, p->dim) <= channels)
        return false;
    const struct onnx_value *whole = onnx_at(b, p->parameter);
    int64_t rows = onnx_count(whole->rank, whole->dim) / channels;
    onnx_finish_node(b, n, layer_positions(&b->out, name, MODEL_NO_OP, tokens, channels, rows, 0));
    return true;
}

static void add_plain(struct onnx_build *b, const struct onnx_node *n, const char *name,
                      const struct onnx_rule *r)
{
    const struct onnx_value *y = onnx_at(b, n->output[0]);
    const struct onnx_attribute *window = onnx_attribute(n, "kernel_shape");
    char kind[KIND];
    int64_t read = 0, written = onnx_size(b, y);
    if (onnx_emit_add_sum(b, n, name))
        return;
    for (size_t i = 0; i < n->inputs; i++)
        if (onnx_is_active(onnx_in(b, n, i)) && read < INT64_MAX / 64)
            read += onnx_size(b, onnx_in(b, n, i));
    snprintf(kind, sizeof kind, "%s", n->op);
    onnx_clean(kind);
    for (char *c = kind; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    double each = r->class == CLASS_REDUCE ? (double)read : (double)written;
    for (size_t k = 0; window && r->class == CLASS_POOL && k < window->ints; k++)
        each *= (double)window->value[k];
    bool linear = !strcmp(n->op, "Add") || !strcmp(n->op, "Sub") || !strcmp(n->op, "Sum") ||
                  r->class == CLASS_COPY || r->class == CLASS_REDUCE;
    onnx_finish_node(b, n,
                     layer_plain(&b->out, name, MODEL_NO_OP,
                                 &(struct plain_shape){.kind = kind,
                                                       .read = read,
                                                       .written = written,
                                                       .forward = r->forward * each,
                                                       .backward = r->backward * each,
                                                       .again = !linear}));
}

/* ---- nodes */

enum status onnx_add_group(struct onnx_build *b, const struct onnx_node *n, const char *name,
                           const struct onnx_match *m)
{
    const uint32_t own[] = {m->weight, m->bias};
    switch (m->kind) {
    case KIND_GELU:
        add_gelu(b, n, name, m->x);
        return STATUS_OK;
    case KIND_LINEAR:
        onnx_emit_add_linear(b, n, name, m, onnx_at(b, m->weight)->dim[0]);
        return STATUS_OK;
    case KIND_ATTENTION:
        return add_attention(b, n, name, m);
    default:
        add_norm(b, n, name, m->x, own, 2,
                 m->kind == KIND_NORM  ? CLASS_LAYERNORM
                 : m->kind == KIND_RMS ? CLASS_RMSNORM
                                       : CLASS_BATCHNORM);
        return STATUS_OK;
    }
}

void onnx_add_single(struct onnx_build *b, const struct onnx_node *n, const char *name,
                     const struct onnx_rule *r)
{
    uint32_t own[2] = {n->inputs > 1 ? n->input[1] : ONNX_NONE,
                       n->inputs > 2 ? n->input[2] : ONNX_NONE};
    if (r->class == CLASS_MATMUL)
        add_matmul(b, n, name);
    else if (r->class == CLASS_GEMM)
        add_gemm(b, n, name);
    else if (r->class == CLASS_CONVOLUTION || r->class == CLASS_TRANSPOSED)
        add_convolution(b, n, name, r->class == CLASS_TRANSPOSED);
    else if (r->class == CLASS_BATCHNORM || r->class == CLASS_LAYERNORM ||
             r->class == CLASS_RMSNORM)
        add_norm(b, n, name, n->input[0], own, 2, r->class);
    else if (r->class == CLASS_GELU)
        add_gelu(b, n, name, n->input[0]);
    else if (r->class == CLASS_GATHER)
        add_gather(b, n, name);
    else
        add_plain(b, n, name, r);
}
