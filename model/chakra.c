/* The importer of Chakra's execution traces (.et), as feeders and foreline's own export write them,
 * and what those in other forms become: protocol-buffer messages after their lengths,
 * GlobalMetadata first, then nodes.
 *
 * Field numbers: mlcommons/chakra, schema/protobuf/et_def.proto at 6dc63e1, schema 0.0.4. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/data/edges.h"
#include "model/chakra.h"
#include "model/graph.h"
#include "model/import.h"
#include "model/onnx/wire.h"

enum { METADATA_VERSION = 1, METADATA_ATTR = 2 };
enum {
    NODE_ID = 1,
    NODE_NAME = 2,
    NODE_TYPE = 3,
    NODE_DATA = 5,
    NODE_DURATION = 7,
    NODE_ATTR = 10
};
enum {
    ATTR_NAME = 1,
    ATTR_FIRST = 3,
    ATTR_LAST = 20
}; /* numbers of a varint's width or packed otherwise */
enum { NAME = 120 };

/* The message behind its length. */
static enum status next_message(struct wire *w, struct wire *out)
{
    uint64_t n;
    PASS(wire_varint(w, &n));
    if (n > w->end - w->at)
        return wire_error(w, "message of %llu bytes is longer than the file",
                          (unsigned long long)n);
    *out = (struct wire){w->source, w->at, w->at + n};
    w->at += n;
    return STATUS_OK;
}

/* ---- nodes */

static bool is_called(const struct wire *name, const char *text)
{
    size_t n = strlen(text);
    return name->end - name->at == n && memcmp(name->source->memory + name->at, text, n) == 0;
}

static enum status take_attribute(struct wire w, struct chakra_node *n)
{
    struct wire name = {.source = w.source};
    uint64_t number = 0;
    for (struct wire_field f;;) {
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == ATTR_NAME)
            name = f.body;
        else if (f.number >= ATTR_FIRST && f.number <= ATTR_LAST)
            number = f.value;
    }
    if (is_called(&name, "num_ops"))
        n->flop = number;
    if (is_called(&name, "comm_size"))
        n->bytes = number;
    return STATUS_OK;
}

static enum status add_deps(struct chakra *w, struct wire_field *f)
{
    bool packed = f->kind == WIRE_BYTES;
    while (!packed || f->body.at < f->body.end) {
        uint64_t id = f->value;
        if (packed)
            PASS(wire_varint(&f->body, &id));
        PASS(chakra_add_dependency(w, id));
        if (!packed)
            break;
    }
    return STATUS_OK;
}

static enum status chakra_take_node(struct chakra *w, struct wire message)
{
    struct chakra_node n = {.first = w->deps, .name = ""};
    for (struct wire_field f;;) {
        PASS(wire_next(&message, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == NODE_ID)
            n.id = f.value;
        else if (f.number == NODE_NAME)
            n.name = message.source->memory + f.body.at, n.letters = f.body.end - f.body.at;
        else if (f.number == NODE_TYPE)
            n.type = f.value;
        else if (f.number == NODE_DURATION)
            n.duration_us = (double)f.value;
        else if (f.number == NODE_ATTR)
            PASS(take_attribute(f.body, &n));
        else if (f.number == NODE_DATA) /* control dependencies are callers */
            PASS(add_deps(w, &f));
    }
    n.deps = w->deps - n.first;
    return chakra_add_node(w, &n);
}

static enum status chakra_read_nodes(struct chakra *w, struct wire all)
{
    struct wire message;
    PASS(next_message(&all, &message)); /* the metadata */
    while (all.at < all.end) {
        PASS(next_message(&all, &message));
        PASS(chakra_take_node(w, message));
    }
    return STATUS_OK;
}

/* ---- what any form adds */

static enum status too_many(const struct chakra *w, size_t n, const char *what)
{
    char more[LIMIT_MORE];
    return error_set(STATUS_INVALID, "%s: more than %zu %s%s", w->path, n, what,
                     limit_more(LIMIT_size, more));
}

enum status chakra_add_node(struct chakra *w, const struct chakra_node *n)
{
    const size_t most = (size_t)limit_size(MOST_EVENTS);
    if (w->n >= most)
        return too_many(w, most, "nodes");
    PASS(ARRAY_ROOM(w->node, w->n));
    w->node[w->n++] = *n;
    return STATUS_OK;
}

enum status chakra_add_dependency(struct chakra *w, uint64_t id)
{
    const size_t most = (size_t)limit_size(MOST_EVENTS) * 8;
    if (w->deps >= most)
        return too_many(w, most, "dependencies");
    PASS(ARRAY_ROOM(w->dep, w->deps));
    w->dep[w->deps++] = id;
    return STATUS_OK;
}

/* ---- dependencies */

static int chakra_by_id(const void *a, const void *b)
{
    const struct chakra_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum status sort_nodes(struct chakra *w)
{
    if (w->n > 0)
        qsort(w->node, w->n, sizeof *w->node, chakra_by_id);
    for (size_t i = 1; i < w->n; i++)
        if (w->node[i].id == w->node[i - 1].id)
            return error_set(STATUS_PARSE, "%s: node %llu is listed twice", w->path,
                             (unsigned long long)w->node[i].id);
    return STATUS_OK;
}

static enum status chakra_list_edges(struct chakra *w)
{
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < w->node[i].deps; k++) {
            const struct chakra_node key = {.id = w->dep[w->node[i].first + k]};
            const struct chakra_node *from = bsearch(&key, w->node, w->n, sizeof key, chakra_by_id);
            if (!from) { /* converters leave nodes out */
                w->absent++;
                continue;
            }
            PASS(ARRAY_ROOM(w->edge, w->edges));
            w->edge[w->edges++] = (struct model_edge){(uint32_t)(from - w->node), (uint32_t)i};
        }
    return STATUS_OK;
}

/* Edges between ops. What a node of communication waits for, those behind it wait for; of several
 * the last in order, so that there are no more edges than dependencies. */
static enum status chakra_join_ops(struct chakra *w)
{
    enum status st;
    size_t cyclic, n = 0, kept = 0;
    size_t *start = NULL;
    uint32_t *order = NULL, *behind = NULL, *place = NULL, ops = 0;
    TRY(ARRAY_NEW(order, w->n));
    TRY(ARRAY_NEW(behind, w->n));
    TRY(ARRAY_NEW(place, w->n));
    TRY(ARRAY_NEW(start, w->n + 2));
    TRY(edges_order(w->n, w->edge, w->edges, place, &cyclic));
    if (cyclic < w->edges)
        FAIL(STATUS_PARSE, "%s: node %llu depends on itself", w->path,
             (unsigned long long)w->node[w->edge[cyclic].to].id);
    for (uint32_t v = 0; v < w->n; v++)
        order[place[v]] = v;
    for (uint32_t k = 0; k < w->n; k++)
        w->op[order[k]] = w->node[order[k]].type == COMP_NODE ? ops++ : MODEL_NO_OP;
    if (w->edges > 0)
        qsort(w->edge, w->edges, sizeof *w->edge, edges_compare);
    for (size_t e = 0; e < w->edges; e++)
        start[w->edge[e].to + 1]++;
    for (size_t i = 0; i < w->n; i++)
        start[i + 1] += start[i];
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t v = order[k];
        behind[v] = w->op[v];
        for (size_t e = start[v]; e < start[v + 1]; e++) {
            uint32_t from = behind[w->edge[e].from];
            if (w->op[v] != MODEL_NO_OP)
                w->edge[e].from = from; /* an op, or none */
            else if (from != MODEL_NO_OP && (behind[v] == MODEL_NO_OP || from > behind[v]))
                behind[v] = from;
        }
    }
    for (size_t e = 0; e < w->edges; e++)
        if (w->op[w->edge[e].to] != MODEL_NO_OP && w->edge[e].from != MODEL_NO_OP)
            w->edge[n++] = (struct model_edge){w->edge[e].from, w->op[w->edge[e].to]};
    if (n > 0)
        qsort(w->edge, n, sizeof *w->edge, edges_compare);
    for (size_t e = 0; e < n; e++)
        if (kept == 0 || edges_compare(&w->edge[kept - 1], &w->edge[e]) != 0)
            w->edge[kept++] = w->edge[e];
    w->edges = kept;
out:
    free(order);
    free(behind);
    free(place);
    free(start);
    return st;
}

/* ---- the model */

/* Printable, and unique by the node's id. */
static void chakra_add_op(struct graph *g, const struct chakra_node *n)
{
    char name[2 * NAME], kind[NAME];
    size_t length = 0;
    while (length < n->letters && length + 1 < sizeof kind) {
        char c = n->name[length];
        kind[length++] = c > ' ' && c <= '~' ? c : '_';
    }
    kind[length] = '\0';
    snprintf(name, sizeof name, "%s#%llu", kind, (unsigned long long)n->id);
    graph_add(g, &(struct graph_op){.name = name,
                                    .kind = "compute",
                                    .forward_flop = (double)n->flop,
                                    .shares = MODEL_NO_OP});
}

static enum status add_ops(struct chakra *w, const struct import_options *o, struct graph *g,
                           size_t *calls, double *bytes)
{
    enum status st;
    double *forward_s = NULL, *backward_s = NULL;
    uint32_t *node = NULL, ops = 0;
    bool timed = false;
    TRY(ARRAY_NEW(forward_s, w->n));
    TRY(ARRAY_NEW(backward_s, w->n));
    TRY(ARRAY_NEW(node, w->n));
    for (uint32_t i = 0; i < w->n; i++) {
        const struct chakra_node *n = &w->node[i];
        if (n->type >= COMM_SEND_NODE && n->type <= COMM_COLL_NODE) {
            ++*calls;
            *bytes += (double)n->bytes;
        }
        if (w->op[i] != MODEL_NO_OP)
            node[w->op[i]] = i;
        ops += w->op[i] != MODEL_NO_OP;
    }
    for (uint32_t k = 0; k < ops; k++) {
        const struct chakra_node *n = &w->node[node[k]];
        chakra_add_op(g, n);
        forward_s[k] = n->duration_us * 1e-6;
        timed = timed || n->duration_us > 0;
    }
    if (ops == 0)
        FAIL(STATUS_INVALID, "%s: no node of the trace is a compute node", w->path);
    if (timed)
        graph_profile(g, &(struct model_profile){.device = (char *)o->device,
                                                 .samples = o->minibatch_size,
                                                 .tensor_parallel = 1,
                                                 .forward_s = forward_s,
                                                 .backward_s = backward_s});
    for (size_t e = 0; e < w->edges; e++)
        graph_connect(g, w->edge[e].from, w->edge[e].to);
out:
    free(forward_s);
    free(backward_s);
    free(node);
    return st;
}

enum status chakra_build(struct chakra *w, const struct import_options *o, struct model *out)
{
    enum status st;
    struct graph g = graph_begin(DATA_fp32);
    size_t calls = 0;
    double bytes = 0;
    char note[400];
    TRY(sort_nodes(w));
    TRY(ARRAY_NEW(w->op, w->n));
    TRY(chakra_list_edges(w));
    TRY(chakra_join_ops(w));
    TRY(add_ops(w, o, &g, &calls, &bytes));
    snprintf(note, sizeof note,
             "Chakra execution trace, %zu nodes; all compute counts as forward; ignored: %zu "
             "communication calls of %.6g bytes, %zu dependencies on missing nodes; the trace has "
             "no sizes of tensors and parameters",
             w->n, calls, bytes, w->absent);
    TRY(graph_finish(&g, "execution trace", note, out));
out:
    graph_free(&g);
    return st;
}

void chakra_free(struct chakra *w)
{
    free(w->node);
    free(w->dep);
    free(w->op);
    free(w->edge);
}

static enum status chakra_parse(const char *path, const char *text, size_t length,
                                const struct import_options *o, struct model *out)
{
    enum status st;
    struct wire_source source = {.path = path, .memory = text, .length = length};
    struct chakra w = {.path = path};
    TRY(import_check_options(o));
    TRY(chakra_read_nodes(&w, wire_all(&source)));
    TRY(chakra_build(&w, o, out));
out:
    chakra_free(&w);
    return st;
}

/* A message of a version or attributes, and behind it one that begins with an id or a name. */
static bool chakra_recognises(const char *text, size_t length)
{
    struct wire_source source = {.path = "", .memory = text, .length = length};
    struct wire all = wire_all(&source), first, second;
    struct wire_field f, g;
    return length > 0 && next_message(&all, &first) == STATUS_OK &&
           wire_next(&first, &f) == STATUS_OK && next_message(&all, &second) == STATUS_OK &&
           wire_next(&second, &g) == STATUS_OK &&
           (f.number == METADATA_VERSION || f.number == METADATA_ATTR) && f.kind == WIRE_BYTES &&
           ((g.number == NODE_ID && g.kind == WIRE_VARINT) ||
            (g.number == NODE_NAME && g.kind == WIRE_BYTES));
}

const struct importer importer_chakra = {
    .name = "chakra",
    .summary = "Chakra execution trace of a rank, .et",
    .recognises = chakra_recognises,
    .parse = chakra_parse,
};
