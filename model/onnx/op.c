/* What ops of an imported ONNX graph are linked to: other ops, parameters. */
#include "model/onnx/op.h"

/* ---- sizes */

const struct onnx_value *onnx_at(const struct onnx_build *b, uint32_t v)
{
    return v == ONNX_NONE ? NULL : &b->g->value[v];
}

const struct onnx_value *onnx_in(const struct onnx_build *b, const struct onnx_node *n, size_t i)
{
    return i < n->inputs ? onnx_at(b, n->input[i]) : NULL;
}

int64_t onnx_size(const struct onnx_build *b, const struct onnx_value *v)
{
    int64_t n = v && v->is_known ? onnx_count(v->rank, v->dim) : 0;
    return n / b->batch + (n % b->batch != 0);
}

bool onnx_is_active(const struct onnx_value *v)
{
    return v && (v->role == ONNX_GIVEN || v->role == ONNX_MADE);
}

int64_t onnx_last(const struct onnx_value *v)
{
    return v->rank > 0 && v->dim[v->rank - 1] > 0 ? v->dim[v->rank - 1] : 1;
}

/* ---- what ops are linked to */

/* Op reads a value; several values of one op are one edge. */
static void link_value(struct onnx_build *b, uint32_t op, uint32_t v)
{
    uint32_t from = v == ONNX_NONE ? MODEL_NO_OP : b->op_of[v];
    if (from == MODEL_NO_OP || b->linked[from] == op + 1)
        return;
    b->linked[from] = op + 1;
    b->learns[op] = b->learns[op] || b->learns[from];
    graph_connect(&b->out, from, op);
}

/* Op has a parameter, or borrows it if another has it already; what is no parameter by itself but
 * is used as one becomes so. */
static void onnx_claim_node(struct onnx_build *b, uint32_t op, uint32_t v)
{
    const struct onnx_value *x = onnx_at(b, v);
    if (!x || onnx_is_active(x) || b->out.status != STATUS_OK)
        return;
    uint32_t self = x->role == ONNX_PARAMETER ? x->parameter : v;
    const struct onnx_value *whole = onnx_at(b, self);
    int64_t bytes = onnx_count(whole->rank, whole->dim) * b->out.model.element_bytes;
    struct model_op *o = &b->out.model.op[op];
    b->learns[op] = true;
    if (b->owner[self] == MODEL_NO_OP) {
        b->owner[self] = op;
        o->parameter_bytes += bytes;
    } else if (b->owner[self] != op && (o->shares == MODEL_NO_OP || o->shares == b->owner[self])) {
        o->shares = b->owner[self];
        o->shared_bytes += bytes;
    } else if (b->owner[self] != op) {
        b->borrowers++;
    }
}

void onnx_finish_op(struct onnx_build *b, const struct onnx_node *n, uint32_t op,
                    const uint32_t *read, size_t reads, const uint32_t *own, size_t owns)
{
    if (b->out.status != STATUS_OK)
        return;
    struct model_op *o = &b->out.model.op[op];
    o->parameter_bytes = o->shared_bytes = 0;
    o->shares = MODEL_NO_OP;
    for (size_t i = 0; i < reads; i++)
        link_value(b, op, read[i]);
    bool product = model_op_is(o, OPERATOR_PRODUCT);
    if (!b->learns[op] && product) {
        o->backward_flop = o->forward_flop;
        o->backward_bytes = o->forward_bytes;
    }
    for (size_t i = 0; i < owns; i++)
        onnx_claim_node(b, op, own[i]);
    if (!b->learns[op]) {
        o->backward_flop = o->backward_bytes = 0;
        o->stash_bytes = 0;
    }
    for (size_t k = 0; k < n->outputs; k++)
        if (n->output[k] != ONNX_NONE)
            b->op_of[n->output[k]] = op;
}

void onnx_finish_node(struct onnx_build *b, const struct onnx_node *n, uint32_t op)
{
    onnx_finish_op(b, n, op, n->input, n->inputs, NULL, 0);
    for (size_t i = 0; i < n->inputs && b->out.status == STATUS_OK; i++)
        if (onnx_at(b, n->input[i]) && onnx_at(b, n->input[i])->role == ONNX_PARAMETER)
            onnx_claim_node(b, op, n->input[i]);
}
