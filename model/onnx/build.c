/* Ops of a model out of the nodes of an ONNX graph. */
#include "model/onnx/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx/emit.h"

enum { NAME = 256 };

/* ---- names */

static enum status onnx_take_name(struct onnx_build *b, const char *text, bool *fresh)
{
    uint32_t number;
    *fresh = false;
    return *text ? intern(&b->names, text, strlen(text), &number, fresh) : STATUS_OK;
}

/* "/h.0/attn/MatMul_2" is "h.0/attn" if nobody else is, else "h.0/attn/MatMul_2", or that and a
 * number. */
static enum status name_op(struct onnx_build *b, const struct onnx_node *n, char name[NAME])
{
    const char *whole = *n->name ? n->name : b->g->value[n->output[0]].name;
    char text[NAME - 24];
    bool fresh;
    whole += strspn(whole, "/");
    snprintf(text, sizeof text, "%s", *whole ? whole : n->op);
    onnx_clean(text);
    char *slash = strrchr(text, '/');
    if (slash && strncmp(slash + 1, n->op, strlen(n->op)) == 0) {
        snprintf(name, NAME, "%.*s", (int)(slash - text), text);
        PASS(onnx_take_name(b, name, &fresh));
        if (fresh)
            return STATUS_OK;
    }
    snprintf(name, NAME, "%s", text);
    PASS(onnx_take_name(b, name, &fresh));
    for (size_t k = b->out.model.n; !fresh; k++) {
        snprintf(name, NAME, "%s_%zu", text, k);
        PASS(onnx_take_name(b, name, &fresh));
    }
    return STATUS_OK;
}

/* ---- nodes */

/* Does a node only show what another op made? */
static bool onnx_build_is_view(const struct onnx_build *b, const struct onnx_node *n,
                               const struct onnx_rule *r)
{
    const struct onnx_value *index = onnx_in(b, n, 1);
    return r->class == CLASS_VIEW ||
           (r->class == CLASS_GATHER && onnx_is_active(onnx_in(b, n, 0)) && index &&
            !onnx_is_active(index));
}

static enum status onnx_build_add_node(struct onnx_build *b, uint32_t i)
{
    const struct onnx_node *n = &b->g->node[i];
    const struct onnx_match *m = &b->match[i];
    const struct onnx_rule *r = onnx_rule(n);
    char name[NAME];
    if (m->kind == KIND_INSIDE || onnx_at(b, n->output[0])->role != ONNX_MADE)
        return STATUS_OK;
    if (m->kind == KIND_VIEW || (m->kind == KIND_NODE && onnx_build_is_view(b, n, r))) {
        uint32_t x = m->kind == KIND_VIEW ? m->x : n->input[0];
        for (size_t k = 0; k < n->outputs; k++)
            if (n->output[k] != ONNX_NONE && x != ONNX_NONE)
                b->op_of[n->output[k]] = b->op_of[x];
        return STATUS_OK;
    }
    PASS(name_op(b, m->kind == KIND_NODE ? n : &b->g->node[m->first], name));
    if (m->kind == KIND_NODE)
        onnx_add_single(b, n, name, r);
    else
        PASS(onnx_add_group(b, n, name, m));
    return b->out.status;
}

/* ---- the model */

/* The type that most parameters have. */
static enum onnx_type onnx_build_type(const struct onnx_graph *g)
{
    double n[64] = {0};
    enum onnx_type most = ONNX_FLOAT;
    for (size_t i = 0; i < g->values; i++)
        if (g->value[i].role == ONNX_PARAMETER && g->value[i].parameter == i)
            n[g->value[i].type & 63] += (double)onnx_count(g->value[i].rank, g->value[i].dim);
    for (size_t t = 0; t < 64; t++)
        if (onnx_is_float((enum onnx_type)t) && n[t] > n[most])
            most = (enum onnx_type)t;
    return most;
}

static struct graph onnx_build_begin(const struct onnx_graph *g)
{
    enum onnx_type type = onnx_build_type(g);
    struct graph out = graph_begin(type == ONNX_FLOAT16    ? DATA_fp16
                                   : type == ONNX_BFLOAT16 ? DATA_bf16
                                   : type == ONNX_DOUBLE   ? DATA_ANY
                                                           : DATA_fp32);
    if (type == ONNX_DOUBLE)
        out.model.element_bytes = 8;
    /* ids of tokens come in rows */
    for (size_t i = 0; i < g->inputs; i++) {
        const struct onnx_value *v = &g->value[g->input[i]];
        if (v->role != ONNX_GIVEN)
            continue;
        if (v->rank == 2 && !onnx_is_float(v->type))
            out.model.tokens_per_sample = (double)v->dim[1];
        break;
    }
    return out;
}

static void onnx_build_describe(const struct onnx_build *b, char *note, size_t size)
{
    size_t unknown = 0;
    for (size_t i = 0; i < b->g->nodes; i++)
        unknown += onnx_rule(&b->g->node[i])->class == CLASS_UNKNOWN;
    int used = snprintf(note, size, "ONNX of %.40s, opset %lld, %zu nodes in %zu ops; no loss",
                        *b->g->producer ? b->g->producer : "an unnamed program",
                        (long long)b->g->opset, b->g->nodes, b->out.model.n);
    if (b->batch > 1)
        used += snprintf(note + used, size - (size_t)used, "; a batch of %lld divided out",
                         (long long)b->batch);
    if (unknown)
        used += snprintf(note + used, size - (size_t)used,
                         "; unknown operators count as memory traffic (%zu nodes)", unknown);
    if (b->borrowers)
        snprintf(note + used, size - (size_t)used,
                 "; parameters that an op shares with a second op are left out (%zu)",
                 b->borrowers);
    onnx_clean(note);
}

static const char *onnx_name(const struct onnx_graph *g)
{
    const char *slash = strrchr(g->path, '/');
    return slash ? slash + 1 : g->path;
}

enum status onnx_build(struct onnx_graph *g, int64_t batch, struct model *out)
{
    enum status st;
    struct onnx_build b = {.g = g, .batch = batch};
    char note[320], name[NAME];
    TRY(ARRAY_NEW(b.op_of, g->values));
    TRY(ARRAY_NEW(b.owner, g->values));
    TRY(ARRAY_NEW(b.learns, g->nodes));
    TRY(ARRAY_NEW(b.linked, g->nodes));
    for (size_t i = 0; i < g->values; i++)
        b.op_of[i] = b.owner[i] = MODEL_NO_OP;
    TRY(onnx_find_groups(g, &b.match));
    b.out = onnx_build_begin(g);
    for (uint32_t i = 0; i < g->nodes; i++)
        TRY(onnx_build_add_node(&b, i));
    if (b.out.model.n == 0)
        FAIL(STATUS_INVALID, "%s: no node reads an input of the model", g->path);
    onnx_build_describe(&b, note, sizeof note);
    snprintf(name, sizeof name, "%s", onnx_name(g));
    onnx_clean(name);
    TRY(graph_finish(&b.out, name, note, out));
out:
    graph_free(&b.out);
    interner_free(&b.names);
    free(b.match);
    free(b.op_of);
    free(b.owner);
    free(b.learns);
    free(b.linked);
    return st;
}
