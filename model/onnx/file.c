/* Reads ONNX files: one function per message. */
#include "model/onnx/file.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_NODES = 1 << 18,
    MAX_VALUES = 1 << 19,
    MAX_STATED = 1 << 19, /* attributes, and shapes */
    MAX_INPUTS = 65536,   /* of a node */
    MAX_ATTRIBUTES = 256,
    MAX_INTS = 2 * ONNX_RANK
};
static const int64_t max_numbers = 1000000000000000;

bool onnx_is_float(enum onnx_type type)
{
    return type == ONNX_FLOAT || type == ONNX_FLOAT16 || type == ONNX_DOUBLE ||
           type == ONNX_BFLOAT16;
}

int64_t onnx_count(size_t rank, const int64_t *dim)
{
    int64_t n = 1;
    bool none = false;
    for (size_t i = 0; i < rank; i++) {
        if (dim[i] < 0)
            return -1;
        none = none || dim[i] == 0;
    }
    for (size_t i = 0; i < rank && !none; i++) {
        if (dim[i] > max_numbers / n)
            return -1;
        n *= dim[i];
    }
    return none ? 0 : n;
}

const struct onnx_attribute *onnx_attribute(const struct onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->attributes; i++)
        if (strcmp(n->attribute[i].name, name) == 0)
            return &n->attribute[i];
    return NULL;
}

int64_t onnx_whole(const struct onnx_node *n, const char *name, int64_t fallback)
{
    const struct onnx_attribute *a = onnx_attribute(n, name);
    return a ? a->whole : fallback;
}

/* ir_version is the first field of what all programs write, and the next is one of few. */
bool onnx_looks_so(const char *head, size_t length)
{
    static const unsigned char next[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42};
    return length > 2 && head[0] == 0x08 && head[1] > 0 && head[1] < 64 &&
           memchr(next, (unsigned char)head[2], sizeof next);
}

/* ---- values by name */

/* A field of bytes: a message, or a text. */
static enum status onnx_open_field(const struct wire_field *f, struct wire *out)
{
    if (f->kind != WIRE_BYTES)
        return wire_error(out, "protocol buffer field %u is not a message", f->number);
    *out = f->body;
    return STATUS_OK;
}

/* The value of that name; "" is none. */
static enum status onnx_find_value(struct onnx_graph *g, const char *name, uint32_t *out)
{
    bool fresh = false;
    *out = ONNX_NONE;
    if (!*name)
        return STATUS_OK;
    PASS(intern(&g->names, name, strlen(name), out, &fresh));
    if (!fresh)
        return STATUS_OK;
    if (g->values == MAX_VALUES)
        return error_set(STATUS_PARSE, "%s: more than %d values", g->path, MAX_VALUES);
    PASS(ARENA_ROOM(&g->memory, g->value, g->values));
    g->value[g->values++] = (struct onnx_value){.name = name, .parameter = ONNX_NONE};
    return STATUS_OK;
}

static enum status onnx_named_value(struct onnx_graph *g, const struct wire_field *f, uint32_t *out)
{
    const char *name;
    PASS(wire_text(f, ONNX_NAME, &g->memory, &name));
    return onnx_find_value(g, name, out);
}

static enum status onnx_append_value(struct onnx_graph *g, uint32_t **list, size_t *n,
                                     uint32_t value)
{
    PASS(ARENA_ROOM(&g->memory, *list, *n));
    (*list)[(*n)++] = value;
    return STATUS_OK;
}

/* ---- tensors */

struct onnx_tensor_field {
    const char *name;
    enum onnx_type type;
    size_t rank;
    int64_t *dim;
    struct onnx_data data;
};

static size_t onnx_type_width(enum onnx_type type)
{
    return type == ONNX_INT64 || type == ONNX_DOUBLE  ? 8
           : type == ONNX_INT32 || type == ONNX_FLOAT ? 4
           : type == ONNX_BOOL                        ? 1
                                                      : 0;
}

static double real_of(int64_t bits, enum onnx_type type)
{
    uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return type == ONNX_DOUBLE ? wide : (double)narrow;
}

/* bits[n] as numbers of the tensor's type. */
static enum status onnx_keep_numbers(struct arena *a, struct onnx_tensor_field *t,
                                     const int64_t *bits, size_t n)
{
    t->data.n = n;
    t->data.kept = true;
    if (t->type == ONNX_FLOAT || t->type == ONNX_DOUBLE) {
        PASS(ARENA_NEW(a, t->data.real, n));
        for (size_t i = 0; i < n; i++)
            t->data.real[i] = real_of(bits[i], t->type);
        return STATUS_OK;
    }
    PASS(ARENA_NEW(a, t->data.whole, n));
    for (size_t i = 0; i < n; i++)
        t->data.whole[i] = t->type == ONNX_INT32 ? (int32_t)bits[i] : bits[i];
    return STATUS_OK;
}

enum { DIMS = 1, TYPE = 2, FLOATS = 4, INT32S = 5, INT64S = 7, NAME = 8, RAW = 9, DOUBLES = 10 };

static enum status read_tensor(struct wire w, struct arena *a, struct onnx_tensor_field *out)
{
    struct onnx_tensor_field t = {.name = ""};
    int64_t dim[ONNX_RANK], bits[ONNX_KEPT];
    uint64_t rank = 0, given = 0;
    struct wire begin = w, raw = {0};
    for (struct wire_field f;;) {
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == DIMS)
            PASS(wire_numbers(&f, 0, ONNX_RANK, dim, &rank));
        else if (f.number == TYPE)
            t.type = f.value < 64 ? (enum onnx_type)f.value : ONNX_ANY;
        else if (f.number == FLOATS || f.number == DOUBLES)
            PASS(wire_numbers(&f, f.number == FLOATS ? 4 : 8, ONNX_KEPT, bits, &given));
        else if (f.number == INT32S || f.number == INT64S)
            PASS(wire_numbers(&f, 0, ONNX_KEPT, bits, &given));
        else if (f.number == NAME)
            PASS(wire_text(&f, ONNX_NAME, a, &t.name));
        else if (f.number == RAW)
            raw = f.body;
    }
    if (rank > ONNX_RANK)
        return wire_error(&begin, "a tensor has more than %d dimensions", ONNX_RANK);
    t.rank = (size_t)rank;
    PASS(ARENA_NEW(a, t.dim, t.rank));
    memcpy(t.dim, dim, t.rank * sizeof *dim);
    int64_t n = onnx_count(t.rank, t.dim);
    if (n < 0)
        return wire_error(&begin, "tensor '%.60s': negative dimension, or more than 1e15 elements",
                          t.name);
    size_t width = onnx_type_width(t.type);
    if (width > 0 && n <= ONNX_KEPT && raw.source) {
        struct wire_field packed = {.kind = WIRE_BYTES, .body = raw};
        given = 0;
        PASS(wire_numbers(&packed, width, ONNX_KEPT, bits, &given));
    }
    if (width > 0 && n <= ONNX_KEPT && given == (uint64_t)n)
        PASS(onnx_keep_numbers(a, &t, bits, (size_t)n));
    *out = t;
    return STATUS_OK;
}

/* ---- nodes */

static enum status onnx_file_read_attribute(struct wire w, struct arena *arena,
                                            struct onnx_attribute *a)
{
    struct onnx_tensor_field t = {0};
    struct wire begin = w;
    int64_t ints[MAX_INTS];
    uint64_t n = 0;
    *a = (struct onnx_attribute){.name = "", .text = ""};
    for (struct wire_field f;;) {
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        switch (f.number) {
        case 1:
            PASS(wire_text(&f, ONNX_NAME, arena, &a->name));
            break;
        case 2:
            a->real = real_of((int64_t)f.value, ONNX_FLOAT);
            break;
        case 3:
            a->whole = (int64_t)f.value;
            break;
        case 4: /* any bytes: only short ones are asked for */
            a->has_text = f.body.end - f.body.at < 64 && f.kind == WIRE_BYTES &&
                          wire_text(&f, 64, arena, &a->text) == STATUS_OK;
            break;
        case 5: {
            struct wire body = w;
            PASS(onnx_open_field(&f, &body));
            PASS(read_tensor(body, arena, &t));
            a->has_tensor = true;
            break;
        }
        case 8:
            PASS(wire_numbers(&f, 0, MAX_INTS, ints, &n));
            a->has_ints = true;
            break;
        default:
            break;
        }
    }
    if (a->has_ints && n > MAX_INTS)
        return wire_error(&begin, "attribute '%.60s' has more than %d numbers", a->name, MAX_INTS);
    a->ints = (size_t)n;
    PASS(ARENA_NEW(arena, a->value, a->ints));
    memcpy(a->value, ints, a->ints * sizeof *ints);
    a->type = t.type;
    a->rank = t.rank;
    a->dim = t.dim;
    a->data = t.data;
    return STATUS_OK;
}

static enum status count_stated(struct onnx_graph *g)
{
    if (g->stated++ == MAX_STATED)
        return error_set(STATUS_PARSE, "%s: more than %d attributes and shapes", g->path,
                         MAX_STATED);
    return STATUS_OK;
}

static enum status onnx_file_read_node(struct onnx_graph *g, struct wire w, struct onnx_node *n)
{
    *n = (struct onnx_node){.name = "", .op = "", .domain = ""};
    for (struct wire_field f;;) {
        uint32_t value;
        struct wire body = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == 1 || f.number == 2) {
            PASS(onnx_named_value(g, &f, &value));
            PASS(f.number == 1 ? onnx_append_value(g, &n->input, &n->inputs, value)
                               : onnx_append_value(g, &n->output, &n->outputs, value));
        } else if (f.number == 3) {
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &n->name));
        } else if (f.number == 4) {
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &n->op));
        } else if (f.number == 7) {
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &n->domain));
        } else if (f.number == 5) {
            PASS(onnx_open_field(&f, &body));
            PASS(count_stated(g));
            PASS(ARENA_ROOM(&g->memory, n->attribute, n->attributes));
            PASS(onnx_file_read_attribute(body, &g->memory, &n->attribute[n->attributes++]));
        }
        if (n->inputs > MAX_INPUTS || n->outputs > MAX_INPUTS || n->attributes > MAX_ATTRIBUTES)
            return wire_error(&w,
                              "a node has more than %d inputs, more than that many outputs, or "
                              "more than %d attributes",
                              MAX_INPUTS, MAX_ATTRIBUTES);
    }
    return STATUS_OK;
}

/* ---- what is stated of values */

static enum status read_dim(struct wire w, struct arena *a, struct onnx_dim *out)
{
    *out = (struct onnx_dim){.size = -1};
    for (struct wire_field f;;) {
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            return STATUS_OK;
        if (f.number == 1 && f.kind == WIRE_VARINT)
            out->size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
        else if (f.number == 2)
            PASS(wire_text(&f, ONNX_NAME, a, &out->symbol));
    }
}

static enum status onnx_file_read_shape(struct wire w, struct arena *a, struct onnx_value *v)
{
    v->stated = true;
    v->stated_rank = 0;
    for (struct wire_field f;;) {
        struct wire body = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            return STATUS_OK;
        if (f.number != 1)
            continue;
        PASS(onnx_open_field(&f, &body));
        if (v->stated_rank == ONNX_RANK)
            return wire_error(&w, "the shape of '%.60s' has more than %d dimensions", v->name,
                              ONNX_RANK);
        if (v->stated_rank == 0)
            PASS(ARENA_NEW(a, v->stated_dim, ONNX_RANK));
        PASS(read_dim(body, a, &v->stated_dim[v->stated_rank++]));
    }
}

static enum status read_tensor_type(struct wire w, struct arena *a, struct onnx_value *v)
{
    for (struct wire_field f;;) {
        struct wire shape = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            return STATUS_OK;
        if (f.number == 1)
            v->type = f.value < 64 ? (enum onnx_type)f.value : ONNX_ANY;
        if (f.number != 2)
            continue;
        PASS(onnx_open_field(&f, &shape));
        PASS(onnx_file_read_shape(shape, a, v));
    }
}

/* TypeProto, of which only tensors are read. */
static enum status onnx_file_read_type(struct wire w, struct arena *a, struct onnx_value *v)
{
    for (struct wire_field f;;) {
        struct wire tensor = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            return STATUS_OK;
        if (f.number != 1)
            continue;
        PASS(onnx_open_field(&f, &tensor));
        PASS(read_tensor_type(tensor, a, v));
    }
}

static enum status onnx_file_read_value(struct onnx_graph *g, struct wire w, uint32_t *value)
{
    struct wire begin = w;
    struct onnx_value v = {.name = ""};
    PASS(count_stated(g));
    for (struct wire_field f;;) {
        struct wire body = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == 1) {
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &v.name));
        } else if (f.number == 2) {
            PASS(onnx_open_field(&f, &body));
            PASS(onnx_file_read_type(body, &g->memory, &v));
        }
    }
    PASS(onnx_find_value(g, v.name, value));
    if (*value == ONNX_NONE)
        return wire_error(&begin, "value has no name");
    struct onnx_value *to = &g->value[*value];
    if (to->type == ONNX_ANY)
        to->type = v.type;
    if (!to->stated) {
        to->stated = v.stated;
        to->stated_rank = v.stated_rank;
        to->stated_dim = v.stated_dim;
    }
    return STATUS_OK;
}

/* ---- the graph and the model */

static enum status read_initialiser(struct onnx_graph *g, struct wire w)
{
    struct onnx_tensor_field t;
    uint32_t value;
    struct wire begin = w;
    PASS(read_tensor(w, &g->memory, &t));
    PASS(onnx_find_value(g, t.name, &value));
    if (value == ONNX_NONE || g->value[value].is_initial)
        return wire_error(&begin, "initialiser '%.60s' is given twice or has no name", t.name);
    struct onnx_value *v = &g->value[value];
    v->is_initial = v->is_known = true;
    v->type = t.type;
    v->rank = t.rank;
    v->dim = t.dim;
    v->data = t.data;
    return STATUS_OK;
}

static enum status read_graph(struct onnx_graph *g, struct wire w)
{
    for (struct wire_field f;;) {
        struct wire body = w;
        uint32_t value;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            return STATUS_OK;
        if (f.number == 2)
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &g->name));
        if (f.number != 1 && f.number != 5 && f.number != 11 && f.number != 12 && f.number != 13)
            continue;
        PASS(onnx_open_field(&f, &body));
        if (f.number == 1) {
            if (g->nodes == MAX_NODES)
                return wire_error(&w, "more than %d nodes", MAX_NODES);
            PASS(ARENA_ROOM(&g->memory, g->node, g->nodes));
            PASS(onnx_file_read_node(g, body, &g->node[g->nodes++]));
            continue;
        }
        if (f.number == 5) {
            PASS(read_initialiser(g, body));
            continue;
        }
        PASS(onnx_file_read_value(g, body, &value));
        if (f.number == 11)
            PASS(onnx_append_value(g, &g->input, &g->inputs, value));
        else if (f.number == 12)
            PASS(onnx_append_value(g, &g->output, &g->outputs, value));
    }
}

/* The version of the main set of operators, which has no domain. */
static enum status read_opset(struct onnx_graph *g, struct wire w)
{
    const char *domain = "";
    int64_t version = 0;
    for (struct wire_field f;;) {
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == 1)
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &domain));
        else if (f.number == 2)
            version = (int64_t)f.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0)
        g->opset = version;
    return STATUS_OK;
}

static enum status read_model(struct onnx_graph *g, struct wire w)
{
    bool found = false;
    struct wire begin = w;
    for (struct wire_field f;;) {
        struct wire body = w;
        PASS(wire_next(&w, &f));
        if (f.number == WIRE_END)
            break;
        if (f.number == 2)
            PASS(wire_text(&f, ONNX_NAME, &g->memory, &g->producer));
        if (f.number != 7 && f.number != 8)
            continue;
        PASS(onnx_open_field(&f, &body));
        if (f.number == 7 && found)
            return wire_error(&w, "model has a second graph, expected one");
        found = found || f.number == 7;
        PASS(f.number == 7 ? read_graph(g, body) : read_opset(g, body));
    }
    if (!found || g->nodes == 0)
        return wire_error(&begin, "ONNX model has no %s", found ? "nodes" : "a graph");
    return STATUS_OK;
}

enum status onnx_read(struct wire w, struct onnx_graph *out)
{
    enum status st;
    struct onnx_graph g = {.path = w.source->path, .name = "", .producer = ""};
    TRY(read_model(&g, w));
    MOVE(out, g);
out:
    onnx_free(&g);
    return st;
}

void onnx_free(struct onnx_graph *g)
{
    interner_free(&g->names);
    arena_free(&g->memory);
    *g = (struct onnx_graph){0};
}
