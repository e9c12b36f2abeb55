#include "model/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make room for one more item; returns the array, NULL when memory runs out. */
static void *grow(void *items, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return items;
    size_t larger = *room ? 2 * *room : 64;
    void *moved = realloc(items, larger * size);
    if (moved)
        *room = larger;
    return moved;
}

/* As strdup, through an allocator that the tests can make fail. */
static char *join(const char *prefix, const char *text)
{
    size_t a = strlen(prefix), b = strlen(text);
    char *s = malloc(a + b + 1);
    if (s) {
        memcpy(s, prefix, a);
        memcpy(s + a, text, b + 1);
    }
    return s;
}

static enum status copy_attributes(const struct graph_op *from, struct model_op *to)
{
    size_t n = 0;
    while (n < GRAPH_ATTRIBUTES && from->attribute[n].name)
        n++;
    if (n == 0)
        return STATUS_OK;
    to->attribute = calloc(n, sizeof *to->attribute);
    if (!to->attribute)
        return error_set(STATUS_NOMEM, "attributes of op '%s'", from->name);
    to->attributes = n;
    for (size_t i = 0; i < n; i++) {
        to->attribute[i].value = from->attribute[i].value;
        to->attribute[i].name = join("", from->attribute[i].name);
        if (!to->attribute[i].name)
            return error_set(STATUS_NOMEM, "attributes of op '%s'", from->name);
    }
    return STATUS_OK;
}

static enum status append(struct graph *g, const struct graph_op *from)
{
    struct model *m = &g->model;
    if (m->n >= MODEL_MAX_OPS)
        return error_set(STATUS_INVALID, "more than %d ops", MODEL_MAX_OPS);
    struct model_op *op = grow(m->op, m->n, &g->op_room, sizeof *op);
    if (!op)
        return error_set(STATUS_NOMEM, "op '%s'", from->name);
    m->op = op;
    op = &m->op[m->n++];
    *op = (struct model_op){
        .name = join(g->prefix, from->name),
        .kind = join("", from->kind),
        .forward_flop = from->forward_flop,
        .backward_flop = from->backward_flop,
        .forward_bytes = from->forward_bytes,
        .backward_bytes = from->backward_bytes,
        .parameter_bytes = from->parameter_bytes,
        .shared_bytes = from->shared_bytes,
        .shares = from->shares,
        .sparse = from->sparse,
        .tensor = from->tensor,
        .exchange_bytes = from->exchange_bytes,
        .stash_bytes = from->stash_bytes,
        .output_bytes = from->output_bytes,
    };
    if (!op->name || !op->kind)
        return error_set(STATUS_NOMEM, "op '%s'", from->name);
    return copy_attributes(from, op);
}

uint32_t graph_add(struct graph *g, const struct graph_op *op)
{
    if (g->status == STATUS_OK)
        g->status = append(g, op);
    for (size_t i = 0; i < op->inputs; i++)
        graph_connect(g, op->input[i], (uint32_t)(g->model.n - 1));
    return g->status == STATUS_OK ? (uint32_t)(g->model.n - 1) : 0;
}

void graph_connect(struct graph *g, uint32_t from, uint32_t to)
{
    if (g->status != STATUS_OK)
        return;
    struct model_edge *edge = grow(g->edge, g->edges, &g->edge_room, sizeof *edge);
    if (!edge) {
        g->status = error_set(STATUS_NOMEM, "%zu edges", g->edges + 1);
        return;
    }
    g->edge = edge;
    g->edge[g->edges++] = (struct model_edge){from, to};
}

static enum status append_profile(struct model *m, const struct model_profile *p)
{
    struct model_profile *more = realloc(m->profile, (m->profiles + 1) * sizeof *more);
    if (!more)
        return error_set(STATUS_NOMEM, "%zu profiles", m->profiles + 1);
    m->profile = more;
    struct model_profile *q = &more[m->profiles++];
    *q = (struct model_profile){.samples = p->samples, .tensor_parallel = p->tensor_parallel};
    q->device = join("", p->device ? p->device : "");
    q->forward_s = calloc(m->n + 1, sizeof *q->forward_s);
    q->backward_s = calloc(m->n + 1, sizeof *q->backward_s);
    if (!q->device || !q->forward_s || !q->backward_s)
        return error_set(STATUS_NOMEM, "profile of %zu ops", m->n);
    memcpy(q->forward_s, p->forward_s, m->n * sizeof *q->forward_s);
    memcpy(q->backward_s, p->backward_s, m->n * sizeof *q->backward_s);
    return STATUS_OK;
}

void graph_profile(struct graph *g, const struct model_profile *p)
{
    if (g->status == STATUS_OK)
        g->status = append_profile(&g->model, p);
}

enum status graph_finish(struct graph *g, const char *name, const char *note, struct model *out)
{
    enum status st = STATUS_OK;

    TRY(g->status);
    g->model.name = join("", name);
    g->model.note = note ? join("", note) : NULL;
    if (!g->model.name || (note && !g->model.note)) {
        st = error_set(STATUS_NOMEM, "model '%s'", name);
        goto out;
    }
    TRY(model_finish(&g->model, g->edge, g->edges, name));
    *out = g->model;
    g->model = (struct model){0};

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
