/* The importer of PyTorch's execution traces (ExecutionTraceObserver; also those that Chakra's
 * tools read): the operators of a forward that are called by no other become ops.
 *
 * Work is counted by the shapes of their arguments (execution_flop.c), traffic is the tensors that
 * they read and write. An op reads what the last one before it wrote to the same memory, so views
 * cost nothing; weights and biases, by the operators' schemas, that nothing wrote are parameters of
 * their first reader. The backward of an op is what runs below autograd's node of the same sequence
 * number. Of several iterations, which end with Optimizer.step, the second counts. All is divided
 * by minibatch_size. Not in such a file: times, and what moves over which links. O(n log n).
 *
 * Format: pytorch/pytorch torch/csrc/profiler/standalone/execution_trace_observer.cpp, schemas
 * 1.0.1 to 1.1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "model/execution.h"
#include "model/graph.h"
#include "model/import.h"

enum { NAME = 128, NOTE = 400 };
static const double most_bytes = 1e18;

/* An op of the model; and what memory holds. */
struct op {
    uint32_t node;
    double forward_flop, backward_flop, forward_bytes, backward_bytes;
    double parameter_bytes, shared_bytes, output_bytes;
    uint32_t shares;
};

struct execution_storage {
    int64_t storage;
    uint32_t writer; /* op; MODEL_NO_OP: none yet */
    uint32_t owner;  /* op whose parameters it is; MODEL_NO_OP */
};

struct import {
    struct execution e;
    uint32_t *op_of; /* [e.n] op of an outermost operator; MODEL_NO_OP */
    bool *counted;   /* [e.n] its FLOP are those of one around it */
    size_t ops, memories, edges;
    struct op *op;                    /* [ops] */
    struct execution_storage *memory; /* [memories] by storage */
    struct model_edge *edge;          /* [edges] */
    int64_t first, last;              /* ids of the iteration: first <= id < last */
    size_t iterations, calls, backwards;
    double call_bytes;
    uint32_t element_bytes; /* of the first parameter; 0: none */
};

/* ---- memory */

static int by_storage(const void *a, const void *b)
{
    const struct execution_storage *x = a, *y = b;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

static struct execution_storage *execution_memory(const struct import *w, int64_t storage)
{
    const struct execution_storage key = {.storage = storage};
    return bsearch(&key, w->memory, w->memories, sizeof key, by_storage);
}

static enum status list_memory(struct import *w)
{
    size_t all = 0, n = 0;
    for (size_t i = 0; i < w->e.n; i++)
        all += w->e.node[i].inputs + w->e.node[i].outputs;
    PASS(ARRAY_NEW(w->memory, all));
    for (size_t i = 0; i < w->e.n; i++) {
        const struct execution_node *x = &w->e.node[i];
        for (size_t k = 0; k < x->inputs + x->outputs; k++)
            w->memory[n++] = (struct execution_storage){
                k < x->inputs ? x->input[k].storage : x->output[k - x->inputs].storage, MODEL_NO_OP,
                MODEL_NO_OP};
    }
    if (n > 0)
        qsort(w->memory, n, sizeof *w->memory, by_storage);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || w->memory[i].storage != w->memory[w->memories - 1].storage)
            w->memory[w->memories++] = w->memory[i];
    return STATUS_OK;
}

/* ---- ops */

static bool in_iteration(const struct import *w, const struct execution_node *n)
{
    return n->id >= w->first && n->id < w->last;
}

/* Between the first end of an iteration and the second, so that what is made once is left out; a
 * file with fewer ends is one iteration. */
static void find_iteration(struct import *w)
{
    static const char step[] = "Optimizer.step";
    w->first = INT64_MIN;
    w->last = INT64_MAX;
    for (size_t i = 0; i < w->e.n; i++) {
        if (strncmp(w->e.node[i].name, step, strlen(step)) != 0)
            continue;
        if (w->iterations == 0)
            w->first = w->e.node[i].id;
        if (w->iterations == 1)
            w->last = w->e.node[i].id;
        w->iterations++;
    }
    if (w->iterations < 2)
        w->first = INT64_MIN;
}

/* Does it show memory of its input otherwise, or make what nothing computed? */
static bool execution_is_view(const struct execution_node *n)
{
    for (size_t o = 0; o < n->outputs; o++) {
        bool shown = false;
        for (size_t i = 0; i < n->inputs; i++)
            shown = shown || n->input[i].storage == n->output[o].storage;
        if (!shown)
            return n->inputs == 0;
    }
    /* operators that write in place end with '_' */
    size_t length = strlen(n->name);
    return length == 0 || n->name[length - 1] != '_' || n->inputs == 0;
}

static enum status execution_add_edge(struct import *w, uint32_t from, uint32_t to)
{
    for (size_t i = w->edges; i-- > 0 && w->edge[i].to == to;)
        if (w->edge[i].from == from)
            return STATUS_OK;
    PASS(ARRAY_ROOM(w->edge, w->edges));
    w->edge[w->edges++] = (struct model_edge){from, to};
    return STATUS_OK;
}

static bool execution_is_parameter(const struct execution_node *n, const struct execution_tensor *t)
{
    char name[32];
    bool linear = strcmp(n->name, "aten::addmm") ==
                  0; /* bias, input, weight: what Conv1D of transformers calls */
    execution_argument(n, t->argument, name, sizeof name);
    return strcmp(name, "weight") == 0 || strcmp(name, "bias") == 0 ||
           (linear && (strcmp(name, "self") == 0 || strcmp(name, "mat2") == 0));
}

static enum status take_input(struct import *w, const struct execution_node *n,
                              const struct execution_tensor *t, uint32_t at)
{
    struct execution_storage *m = execution_memory(w, t->storage);
    struct op *op = &w->op[at];
    if (m->writer != MODEL_NO_OP) {
        op->forward_bytes += t->bytes;
        return m->writer == at ? STATUS_OK : execution_add_edge(w, m->writer, at);
    }
    if (!execution_is_parameter(n, t)) {
        op->forward_bytes += t->bytes;
    } else if (m->owner == MODEL_NO_OP) {
        m->owner = at;
        w->element_bytes = w->element_bytes ? w->element_bytes : t->each;
        op->parameter_bytes += t->bytes;
    } else if (m->owner != at) { /* of several only one is kept */
        op->shares = m->owner;
        op->shared_bytes = t->bytes;
    }
    return STATUS_OK;
}

static enum status execution_take_op(struct import *w, size_t i)
{
    const struct execution_node *n = &w->e.node[i];
    uint32_t at = (uint32_t)w->ops;
    if (w->ops == MODEL_MAX_OPS)
        return json_error(&n->at, "more than %d ops", MODEL_MAX_OPS);
    PASS(ARRAY_ROOM(w->op, w->ops));
    w->op[w->ops++] = (struct op){.node = (uint32_t)i, .shares = MODEL_NO_OP};
    w->op_of[i] = at;
    for (size_t k = 0; k < n->inputs; k++)
        PASS(take_input(w, n, &n->input[k], at));
    for (size_t k = 0; k < n->outputs; k++) {
        w->op[at].forward_bytes += n->output[k].bytes;
        w->op[at].output_bytes += n->output[k].bytes;
        execution_memory(w, n->output[k].storage)->writer = at;
    }
    return STATUS_OK;
}

static enum status list_ops(struct import *w)
{
    for (size_t i = 0; i < w->e.n; i++) {
        const struct execution_node *n = &w->e.node[i];
        w->op_of[i] = MODEL_NO_OP;
        if (!in_iteration(w, n))
            continue;
        if (n->communicates) {
            w->calls++;
            for (size_t k = 0; k < n->inputs; k++)
                w->call_bytes += n->input[k].bytes;
        }
        if (n->phase == EXECUTED_FORWARD && n->outer == i && !n->communicates &&
            !execution_is_view(n))
            PASS(execution_take_op(w, i));
    }
    return STATUS_OK;
}

/* ---- work */

static int by_sequence(const void *a, const void *b)
{
    const struct execution_node *x = *(struct execution_node *const *)a;
    const struct execution_node *y = *(struct execution_node *const *)b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The op whose forward made a node of autograd's: the last one before it with its number. */
static uint32_t execution_maker(const struct import *w, const struct execution_node *const *by,
                                size_t n, const struct execution_node *node)
{
    size_t before = array_before(&node, by, n, sizeof *by, by_sequence);
    const struct execution_node *f = before > 0 ? by[before - 1] : NULL;
    if (!f || f->sequence != node->sequence || f->outer == EXECUTION_NONE)
        return MODEL_NO_OP;
    return w->op_of[f->outer];
}

static void add_work(struct import *w, uint32_t op, size_t i)
{
    const struct execution_node *n = &w->e.node[i];
    bool within = n->parent != EXECUTION_NONE && w->counted[n->parent];
    double flop = within ? 0 : execution_flop(n);
    struct op *to = op == MODEL_NO_OP ? NULL : &w->op[op];
    w->counted[i] = within || flop > 0;
    if (to && n->phase == EXECUTED_FORWARD)
        to->forward_flop += flop;
    if (!to || n->phase != EXECUTED_BACKWARD)
        return;
    to->backward_flop += flop;
    for (size_t k = 0; n->outer == i && !execution_is_view(n) && k < n->inputs + n->outputs; k++)
        to->backward_bytes += k < n->inputs ? n->input[k].bytes : n->output[k - n->inputs].bytes;
}

static enum status count_work(struct import *w)
{
    const struct execution_node **by = NULL;
    size_t n = 0;
    PASS(ARRAY_NEW(by, w->e.n));
    for (size_t i = 0; i < w->e.n; i++)
        if (w->e.node[i].sequence >= 0 && w->e.node[i].phase == EXECUTED_FORWARD)
            by[n++] = &w->e.node[i];
    if (n > 0)
        qsort(by, n, sizeof *by, by_sequence);
    for (size_t i = 0; i < w->e.n; i++) {
        const struct execution_node *x = &w->e.node[i];
        uint32_t op = MODEL_NO_OP;
        if (!in_iteration(w, x))
            continue;
        if (x->phase == EXECUTED_FORWARD && x->outer != EXECUTION_NONE)
            op = w->op_of[x->outer];
        if (x->phase == EXECUTED_BACKWARD && x->grad != EXECUTION_NONE) {
            op = execution_maker(w, by, n, &w->e.node[x->grad]);
            w->backwards += op != MODEL_NO_OP;
        }
        add_work(w, op, i);
    }
    free(by);
    return STATUS_OK;
}

/* ---- the model */

static int64_t per_sample(double bytes, double samples)
{
    return llround(fmin(bytes / samples, most_bytes));
}

static void execution_add_op(struct graph *g, const struct import *w, size_t i, double samples)
{
    const struct op *o = &w->op[i];
    const char *name = w->e.node[o->node].name;
    char text[NAME], kind[NAME];
    name = strncmp(name, "aten::", 6) == 0 ? name + 6 : name;
    snprintf(kind, sizeof kind, "%.*s", NAME - 1, name);
    snprintf(text, sizeof text, "%.*s.%zu", NAME - 24, name, i);
    graph_add(g, &(struct graph_op){.name = text,
                                    .kind = kind,
                                    .forward_flop = o->forward_flop / samples,
                                    .backward_flop = o->backward_flop / samples,
                                    .forward_bytes = o->forward_bytes / samples,
                                    .backward_bytes = o->backward_bytes / samples,
                                    .parameter_bytes = per_sample(o->parameter_bytes, 1),
                                    .shared_bytes = per_sample(o->shared_bytes, 1),
                                    .shares = o->shares,
                                    .stash_bytes = per_sample(o->output_bytes, samples),
                                    .output_bytes = per_sample(o->output_bytes, samples)});
}

static void put_note(const struct import *w, char note[NOTE])
{
    int n = snprintf(note, NOTE, "execution trace of PyTorch, %zu nodes, %zu ops%s%s", w->e.n,
                     w->ops, w->iterations > 1 ? ", of its second iteration" : "",
                     w->backwards > 0 ? "" : "; no backward in it");
    if (w->calls > 0)
        n += snprintf(note + n, NOTE - (size_t)n,
                      "; ignored: %zu communication calls of %.6g bytes", w->calls, w->call_bytes);
    snprintf(note + n, NOTE - (size_t)n,
             "; the trace has no times, does not name the 16-bit type, and lacks parameters that "
             "operators copied");
}

static enum status execution_build_model(struct import *w, const struct import_options *o,
                                         struct model *out)
{
    struct graph g = graph_begin(w->element_bytes == 2 ? DATA_bf16 : DATA_fp32);
    char note[NOTE];
    if (w->ops == 0)
        return json_error(&w->e.list,
                          "the trace has no forward operator that reads or writes tensors");
    for (size_t i = 0; i < w->ops; i++)
        execution_add_op(&g, w, i, o->minibatch_size);
    for (size_t i = 0; i < w->edges; i++)
        graph_connect(&g, w->edge[i].from, w->edge[i].to);
    put_note(w, note);
    return graph_finish(&g, "execution trace", note, out);
}

/* "1.0.1", "1.1.1-chakra.0.0.4": later ones may name the same things otherwise. */
static enum status check_schema(const struct json_at *root)
{
    struct json_at at;
    const char *text;
    PASS(json_field(root, "schema", &at));
    PASS(json_get_string(&at, &text));
    if (strncmp(text, "1.0.", 4) == 0 || strncmp(text, "1.1.", 4) == 0)
        return STATUS_OK;
    return json_error(&at, "unsupported execution trace schema '%.40s', expected 1.0 or 1.1", text);
}

static enum status read_json(const struct json_at *root, const struct import_options *o,
                             struct model *out)
{
    enum status st;
    struct import w = {0};
    PASS(import_check_options(o));
    PASS(check_schema(root));
    TRY(execution_read(root, &w.e));
    TRY(ARRAY_NEW(w.op_of, w.e.n));
    TRY(ARRAY_NEW(w.counted, w.e.n));
    TRY(list_memory(&w));
    find_iteration(&w);
    TRY(list_ops(&w));
    TRY(count_work(&w));
    TRY(execution_build_model(&w, o, out));
out:
    free(w.op_of);
    free(w.counted);
    free(w.op);
    free(w.memory);
    free(w.edge);
    execution_free(&w.e);
    return st;
}

static bool recognises_json(const struct json_at *root)
{
    struct json_at nodes, schema;
    return json_optional(root, "nodes", &nodes) == STATUS_OK &&
           json_optional(root, "schema", &schema) == STATUS_OK &&
           json_kind(&nodes) == JSON_IS_ARRAY && json_kind(&schema) == JSON_IS_TEXT;
}

const struct importer importer_execution = {
    .name = "execution",
    .summary = "execution trace of PyTorch (ExecutionTraceObserver), JSON",
    .recognises_json = recognises_json,
    .read_json = read_json,
};
