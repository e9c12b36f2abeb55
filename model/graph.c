/* Builds models op by op. */
#include "model/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

/* Attributes up to the first without a name. */
static enum status copy_attributes(const struct graph_op *from, struct model_op *to)
{
    size_t n = 0;
    while (n < GRAPH_ATTRIBUTES && from->attribute[n].name)
        n++;
    if (n == 0)
        return STATUS_OK;
    PASS(ARRAY_NEW(to->attribute, n));
    to->attributes = n;
    for (size_t i = 0; i < n; i++) {
        to->attribute[i].value = from->attribute[i].value;
        PASS(text_copy(from->attribute[i].name, &to->attribute[i].name));
    }
    return STATUS_OK;
}

/* The op counts before it is complete, so that model_free() finds what has been copied. */
static enum status graph_append_text(struct graph *g, const struct graph_op *from)
{
    struct model *m = &g->model;
    size_t prefix = strlen(g->prefix);
    if (m->n >= MODEL_MAX_OPS)
        return error_set(STATUS_INVALID, "the model has more than %d ops", MODEL_MAX_OPS);
    PASS(ARRAY_ROOM(m->op, m->n));
    struct model_op *op = &m->op[m->n++];
    *op = (struct model_op){
        .forward_flop = from->forward_flop,
        .backward_flop = from->backward_flop,
        .forward_bytes = from->forward_bytes,
        .backward_bytes = from->backward_bytes,
        .parameter_bytes = from->parameter_bytes,
        .shared_bytes = from->shared_bytes,
        .shares = from->shares,
        .sparse = from->sparse,
        .tensor = from->tensor,
        .dtype =
            from->narrow || !data_type_narrow(m->dtype) ? DATA_ANY : data_type_beside(m->dtype),
        .exchange_bytes = from->exchange_bytes,
        .context_bytes = from->context_bytes,
        .stash_bytes = from->stash_bytes,
        .output_bytes = from->output_bytes,
    };
    PASS(ARRAY_NEW(op->name, prefix + strlen(from->name) + 1));
    memcpy(op->name, g->prefix, prefix);
    strcpy(op->name + prefix, from->name);
    PASS(text_copy(from->kind, &op->kind));
    PASS(copy_attributes(from, op));
    return STATUS_OK;
}

struct graph graph_begin(enum data_type dtype)
{
    return (struct graph){
        .model = {.dtype = dtype, .element_bytes = data_type_bytes(dtype)},
    };
}

int64_t graph_operand(const struct graph *g)
{
    return model_operand(&g->model);
}

uint32_t graph_add(struct graph *g, const struct graph_op *op)
{
    if (g->status == STATUS_OK)
        g->status = graph_append_text(g, op);
    for (size_t i = 0; i < op->inputs; i++)
        graph_connect(g, op->input[i], (uint32_t)(g->model.n - 1));
    return g->status == STATUS_OK ? (uint32_t)(g->model.n - 1) : 0;
}

void graph_connect(struct graph *g, uint32_t from, uint32_t to)
{
    if (from == MODEL_NO_OP)
        return;
    if (g->status == STATUS_OK)
        g->status = ARRAY_ROOM(g->edge, g->edges);
    if (g->status == STATUS_OK)
        g->edge[g->edges++] = (struct model_edge){from, to};
}

/* Times are copied for the ops that there are. */
static enum status append_profile(struct model *m, const struct model_profile *p)
{
    PASS(ARRAY_ROOM(m->profile, m->profiles));
    struct model_profile *q = &m->profile[m->profiles++];
    *q = (struct model_profile){.samples = p->samples, .tensor_parallel = p->tensor_parallel};
    PASS(text_copy(p->device ? p->device : "", &q->device));
    PASS(ARRAY_COPY(q->forward_s, p->forward_s, m->n));
    PASS(ARRAY_COPY(q->backward_s, p->backward_s, m->n));
    return STATUS_OK;
}

void graph_profile(struct graph *g, const struct model_profile *p)
{
    if (g->status == STATUS_OK)
        g->status = append_profile(&g->model, p);
}

/* Sums of gradients and rotations need none of what they were given. */
static bool reads_input_again(const struct model_op *op)
{
    return !model_op_is(op, OPERATOR_FORGETS);
}

/* An output is kept for its consumers: whole; as narrow as the operands of fp8 products where only
 * those read it again, and its own backward does not (attention's does); or not at all. */
enum status graph_keep_needed(struct graph *g)
{
    enum status st = g->status;
    struct model *m = &g->model;
    int64_t *kept = NULL; /* [m->n] bytes of each number */
    TRY(st);
    TRY(ARRAY_NEW(kept, m->n));
    for (size_t k = 0; k < g->edges; k++) {
        const struct model_op *reader = &m->op[g->edge[k].to];
        int64_t *bytes = &kept[g->edge[k].from];
        int64_t read = data_type_operand(model_dtype(m, reader));
        if (reads_input_again(reader))
            *bytes = read > *bytes ? read : *bytes;
    }
    for (size_t i = 0; i < m->n; i++) {
        struct model_op *o = &m->op[i];
        bool whole =
            model_op_is(o, OPERATOR_LOSS) || (model_op_is(o, OPERATOR_ATTENTION) && kept[i] > 0);
        int64_t numbers = o->output_bytes / m->element_bytes;
        if (!whole)
            o->stash_bytes -= numbers * (m->element_bytes - kept[i]);
    }
out:
    free(kept);
    return st;
}

enum status graph_finish(struct graph *g, const char *name, const char *note, struct model *out)
{
    enum status st = STATUS_OK;

    TRY(g->status);
    TRY(text_copy(name, &g->model.name));
    if (note)
        TRY(text_copy(note, &g->model.note));
    TRY(model_finish(&g->model, g->edge, g->edges, name));
    MOVE(out, g->model);

out:
    graph_free(g);
    return st;
}

void graph_free(struct graph *g)
{
    model_free(&g->model);
    free(g->edge);
    *g = (struct graph){0};
}
