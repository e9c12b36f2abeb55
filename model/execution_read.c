/* Nodes of execution traces, of schemas 1.0.1 (flat) to 1.1 (values, shapes and types in an object,
 * the rest in attrs). */
#include "model/execution.h"

#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* TENSORS: of a call, which are compared with each other. */
enum {
    NODES = 1 << 22,
    ARGUMENTS = 4096,
    TENSORS = 1 << 14,
    DEPTH = 3,
    TENSOR = 6,
    ATTRIBUTES = 64
};

/* ---- tensors: [tensor, storage, offset, numbers, bytes of each, device] */

struct tensor_pool {
    size_t n;
    struct execution_tensor *tensor; /* [n] */
};

static bool is_tensor(const struct json_at *at, size_t n)
{
    struct json_at last = json_item(at, TENSOR - 1), first = json_item(at, 0);
    return n >= TENSOR && json_kind(&last) == JSON_IS_TEXT && json_kind(&first) == JSON_IS_NUMBER;
}

static enum status take_tensor(const struct json_at *at, uint32_t argument, struct tensor_pool *p)
{
    struct json_at storage = json_item(at, 1), numbers = json_item(at, 3), size = json_item(at, 4);
    struct execution_tensor t = {.argument = argument};
    double n;
    int64_t each;
    PASS(json_get_integer(&storage, INT64_MIN, INT64_MAX, &t.storage));
    PASS(json_get_real(&numbers, 0, 1e15, &n));
    PASS(json_get_integer(&size, 0, 64, &each));
    t.bytes = n * (double)each;
    t.each = (uint32_t)each;
    if (p->n == TENSORS)
        return json_error(at, "an operator call has more than %d tensors", TENSORS);
    PASS(ARRAY_ROOM(p->tensor, p->n));
    p->tensor[p->n++] = t;
    return STATUS_OK;
}

static enum status execution_take_value(const struct json_at *at, uint32_t argument, int depth,
                                        struct tensor_pool *p)
{
    size_t n;
    if (json_kind(at) != JSON_IS_ARRAY)
        return STATUS_OK;
    PASS(json_get_array(at, SIZE_MAX, &n));
    if (is_tensor(at, n))
        return take_tensor(at, argument, p);
    for (size_t i = 0; i < n && depth < DEPTH; i++) {
        struct json_at item = json_item(at, i);
        PASS(execution_take_value(&item, argument, depth + 1, p));
    }
    return STATUS_OK;
}

static enum status take_side(const struct json_at *node, const char *key, struct arena *memory,
                             struct tensor_pool *p, struct execution_tensor **out, size_t *n)
{
    struct json_at side, values;
    size_t arguments;
    PASS(json_optional(node, key, &side));
    if (json_kind(&side) == JSON_IS_OBJECT)
        PASS(json_optional(&side, "values", &values));
    else
        values = side;
    p->n = 0;
    if (values.value) {
        PASS(json_get_array(&values, ARGUMENTS, &arguments));
        for (size_t i = 0; i < arguments; i++) {
            struct json_at item = json_item(&values, i);
            PASS(execution_take_value(&item, (uint32_t)i, 0, p));
        }
    }
    PASS(ARENA_NEW(memory, *out, p->n));
    if (p->n > 0)
        memcpy(*out, p->tensor, p->n * sizeof *p->tensor);
    *n = p->n;
    return STATUS_OK;
}

/* ---- nodes */

/* A whole number of a node, or of one of its attrs. */
static enum status take_number(const struct json_at *value, int64_t *out)
{
    return json_kind(value) == JSON_IS_NUMBER ? json_get_integer(value, INT64_MIN, INT64_MAX, out)
                                              : STATUS_OK;
}

static enum status take_attributes(const struct json_at *node, struct execution_node *n)
{
    struct json_at attrs;
    size_t count;
    PASS(json_optional(node, "attrs", &attrs));
    if (!attrs.value)
        return STATUS_OK;
    PASS(json_get_array(&attrs, ATTRIBUTES, &count));
    for (size_t i = 0; i < count; i++) {
        struct json_at one = json_item(&attrs, i), name, value;
        const char *text;
        PASS(json_field(&one, "name", &name));
        PASS(json_get_string(&name, &text));
        PASS(json_optional(&one, "value", &value));
        if (strcmp(text, "seq_id") == 0)
            PASS(take_number(&value, &n->sequence));
        if (strcmp(text, "op_schema") == 0 && json_kind(&value) == JSON_IS_TEXT)
            PASS(json_get_string(&value, &n->schema));
    }
    return STATUS_OK;
}

static enum status execution_take_node(struct execution *e, size_t i, struct tensor_pool *p)
{
    struct execution_node *n = &e->node[i];
    struct json_at at;
    n->at = json_item(&e->list, i);
    n->schema = "";
    n->sequence = n->parent_id = -1;
    PASS(json_need_integer(&n->at, "id", INT64_MIN, INT64_MAX, &n->id));
    PASS(json_field(&n->at, "name", &at));
    PASS(json_get_string(&at, &n->name));
    PASS(json_optional(&n->at, "parent", &at));
    if (!at.value)
        PASS(json_optional(&n->at, "ctrl_deps", &at));
    PASS(take_number(&at, &n->parent_id));
    PASS(json_optional(&n->at, "seq_id", &at));
    PASS(take_number(&at, &n->sequence));
    PASS(json_optional(&n->at, "op_schema", &at));
    if (json_kind(&at) == JSON_IS_TEXT)
        PASS(json_get_string(&at, &n->schema));
    PASS(take_attributes(&n->at, n));
    PASS(take_side(&n->at, "inputs", &e->memory, p, &n->input, &n->inputs));
    return take_side(&n->at, "outputs", &e->memory, p, &n->output, &n->outputs);
}

static int execution_by_id(const void *a, const void *b)
{
    const struct execution_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool is_communication(const struct execution_node *n)
{
    return text_begins(n->name, "c10d::") || text_begins(n->name, "nccl:") ||
           strcmp(n->name, "record_param_comms") == 0;
}

/* What follows from those around it, which began before. */
static void execution_place_node(struct execution *e, size_t i)
{
    struct execution_node *n = &e->node[i];
    const struct execution_node key = {.id = n->parent_id};
    const struct execution_node *p = bsearch(&key, e->node, i, sizeof key, execution_by_id);
    bool engine = strstr(n->name, "evaluate_function") != NULL;
    n->parent = p ? (uint32_t)(p - e->node) : EXECUTION_NONE;
    n->phase = engine                               ? EXECUTED_BACKWARD
               : text_begins(n->name, "Optimizer.") ? EXECUTED_UPDATE
               : p                                  ? p->phase
                                                    : EXECUTED_FORWARD;
    n->outer = p && p->outer != EXECUTION_NONE ? p->outer
               : *n->schema                    ? (uint32_t)i
                                               : EXECUTION_NONE;
    n->grad =
        n->phase == EXECUTED_BACKWARD && n->sequence >= 0 && (engine || strstr(n->name, "Backward"))
            ? (uint32_t)i
        : p ? p->grad
            : EXECUTION_NONE;
    n->communicates = is_communication(n) && !(p && p->in_call);
    n->in_call = n->communicates || (p && p->in_call);
}

enum status execution_read(const struct json_at *root, struct execution *out)
{
    enum status st;
    struct execution *e = out; /* cursors point into it */
    struct tensor_pool p = {0};
    *e = (struct execution){0};
    TRY(json_field(root, "nodes", &e->list));
    TRY(json_get_array(&e->list, NODES, &e->n));
    TRY(ARENA_NEW(&e->memory, e->node, e->n));
    for (size_t i = 0; i < e->n; i++)
        TRY(execution_take_node(e, i, &p));
    if (e->n > 0)
        qsort(e->node, e->n, sizeof *e->node, execution_by_id);
    for (size_t i = 1; i < e->n; i++)
        if (e->node[i].id == e->node[i - 1].id) {
            st = json_error(&e->node[i].at, "node %lld is listed twice", (long long)e->node[i].id);
            goto out;
        }
    for (size_t i = 0; i < e->n; i++)
        execution_place_node(e, i);
out:
    free(p.tensor);
    if (st != STATUS_OK)
        execution_free(e);
    return st;
}

void execution_free(struct execution *e)
{
    arena_free(&e->memory);
    *e = (struct execution){0};
}

/* ---- what a call says of its arguments */

static bool shapes_of(const struct execution_node *n, struct json_at *side, struct json_at *shapes)
{
    if (json_optional(&n->at, "inputs", side) == STATUS_OK && json_kind(side) == JSON_IS_OBJECT)
        return json_optional(side, "shapes", shapes) == STATUS_OK && shapes->value;
    return json_optional(&n->at, "input_shapes", shapes) == STATUS_OK && shapes->value;
}

size_t execution_shape(const struct execution_node *n, size_t argument,
                       double size[EXECUTION_DIMENSIONS])
{
    struct json_at side, shapes;
    size_t all, k = 0;
    if (!shapes_of(n, &side, &shapes) || json_kind(&shapes) != JSON_IS_ARRAY ||
        json_get_array(&shapes, ARGUMENTS, &all) != STATUS_OK || argument >= all)
        return 0;
    struct json_at one = json_item(&shapes, argument);
    if (json_kind(&one) != JSON_IS_ARRAY ||
        json_get_array(&one, EXECUTION_DIMENSIONS, &k) != STATUS_OK)
        return 0;
    for (size_t i = 0; i < k; i++) {
        struct json_at item = json_item(&one, i);
        if (json_kind(&item) != JSON_IS_NUMBER ||
            json_get_real(&item, 0, 1e15, &size[i]) != STATUS_OK)
            return 0;
    }
    return k;
}

/* "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor": a name is the last word
 * of its argument, before what it is by default. */
const char *execution_argument(const struct execution_node *n, size_t argument, char *name,
                               size_t size)
{
    const char *at = strchr(n->schema, '(');
    int depth = 0;
    size_t k = 0, length = 0;
    *name = '\0';
    for (at = at ? at + 1 : ""; *at && (*at != ')' || depth > 0); at++) {
        depth += *at == '(' || *at == '[';
        depth -= *at == ')' || *at == ']';
        if (*at == ',' && depth == 0) {
            k++;
            continue;
        }
        if (k != argument)
            continue;
        if (*at == '=')
            break;
        if (*at == ' ')
            length = 0;
        else if (length + 1 < size)
            name[length++] = *at;
        name[length] = '\0';
    }
    return name;
}
