/* Shapes of all values of an ONNX graph, node by node. */
#include "model/onnx/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/onnx/rules.h"

struct onnx_value *onnx_input(const struct onnx_step *s, size_t i)
{
    if (i >= s->n->inputs || s->n->input[i] == ONNX_NONE)
        return NULL;
    return &s->g->value[s->n->input[i]];
}

bool onnx_shape(struct onnx_step *s, size_t k, size_t rank, const int64_t *dim)
{
    int64_t *copy;
    if (rank > ONNX_RANK || onnx_count(rank, dim) < 0)
        return false;
    if (k >= s->n->outputs || s->n->output[k] == ONNX_NONE)
        return true;
    struct onnx_value *v = &s->g->value[s->n->output[k]];
    s->st = ARENA_NEW(&s->g->memory, copy, rank);
    if (s->st != STATUS_OK)
        return false;
    for (size_t i = 0; i < rank; i++)
        copy[i] = dim[i];
    v->is_known = true;
    v->rank = rank;
    v->dim = copy;
    return true;
}

/* ---- what the file states */

/* The size of a dimension, -1: nobody says it. */
static int64_t onnx_axis_size(const struct onnx_dim *d, struct onnx_choices *c)
{
    for (size_t i = 0; d->size < 0 && d->symbol && i < c->n; i++)
        if (strcmp(c->at[i].name, d->symbol) == 0) {
            c->at[i].used = true;
            return c->at[i].value;
        }
    return d->size;
}

/* dim[ONNX_RANK] as stated; false: a dimension is not. */
static bool stated(const struct onnx_value *v, struct onnx_choices *c, int64_t *dim)
{
    bool all = v->stated;
    for (size_t k = 0; v->stated && k < v->stated_rank; k++) {
        dim[k] = onnx_axis_size(&v->stated_dim[k], c);
        all = all && dim[k] >= 0;
    }
    return all;
}

/* "[2,64,?]" */
enum { SHAPE_TEXT = 128 };
static const char *shape_text(size_t rank, const int64_t *dim, char text[SHAPE_TEXT])
{
    int used = snprintf(text, SHAPE_TEXT, "[");
    for (size_t k = 0; k < rank && used < SHAPE_TEXT - 24; k++)
        used += dim[k] < 0 ? snprintf(text + used, (size_t)(SHAPE_TEXT - used), k ? ",?" : "?")
                           : snprintf(text + used, (size_t)(SHAPE_TEXT - used), "%s%" PRId64,
                                      k ? "," : "", dim[k]);
    snprintf(text + used, (size_t)(SHAPE_TEXT - used), "]");
    return text;
}

/* What is inferred and what is stated are the same wherever both say something. */
static enum status onnx_compare_numbers(const struct onnx_graph *g, const struct onnx_value *v,
                                        struct onnx_choices *c)
{
    int64_t dim[ONNX_RANK];
    char said[SHAPE_TEXT], found[SHAPE_TEXT];
    bool equal = v->rank == v->stated_rank;
    stated(v, c, dim);
    for (size_t k = 0; equal && k < v->rank; k++)
        equal = dim[k] < 0 || dim[k] == v->dim[k];
    if (equal)
        return STATUS_OK;
    return error_set(
        STATUS_PARSE,
        "%s: shape of '%.60s' is %s according to its operators, but the file declares %s", g->path,
        v->name, shape_text(v->rank, v->dim, found), shape_text(v->stated_rank, dim, said));
}

/* ---- inputs */

/* Choose what is open of an input's dimension k; those without a name are called INPUT.K. */
static enum status open_dim(struct onnx_graph *g, const struct onnx_value *v, size_t k,
                            bool is_batch, struct onnx_choices *c, int64_t *size)
{
    char name[128];
    struct onnx_dim *d = &v->stated_dim[k];
    if (!d->symbol || !*d->symbol) {
        snprintf(name, sizeof name, "%.80s.%zu", v->name, k);
        d->symbol = arena_text(&g->memory, name);
        if (!d->symbol)
            return STATUS_NOMEM;
    }
    *size = onnx_axis_size(d, c);
    if (*size < 0 && is_batch && c->n < ONNX_RANK) { /* whoever is called the same is as large */
        *size = 1;
        c->at[c->n++] = (struct onnx_choice){d->symbol, 1, true};
    }
    if (*size >= 0)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "%s: dimension '%.60s' of input '%.60s' has no size; set it with %s:%.60s=N",
                     g->path, d->symbol, v->name, g->path, d->symbol);
}

static enum status input_shape(struct onnx_graph *g, struct onnx_value *v, bool first,
                               struct onnx_choices *c)
{
    if (!v->stated)
        return error_set(STATUS_PARSE, "%s: input '%.60s' has no shape", g->path, v->name);
    PASS(ARENA_NEW(&g->memory, v->dim, v->stated_rank));
    for (size_t k = 0; k < v->stated_rank; k++) {
        v->dim[k] = v->stated_dim[k].size;
        if (v->dim[k] < 0)
            PASS(open_dim(g, v, k, first && k == 0, c, &v->dim[k]));
    }
    if (onnx_count(v->stated_rank, v->dim) < 0)
        return error_set(STATUS_PARSE, "%s: input '%.60s' has more than 1e15 elements", g->path,
                         v->name);
    v->rank = v->stated_rank;
    v->is_known = true;
    return STATUS_OK;
}

static bool has_weights(const struct onnx_graph *g)
{
    for (size_t i = 0; i < g->values; i++)
        if (g->value[i].is_initial)
            return true;
    return false;
}

/* Older files list initialisers among the inputs; files without weights list parameters there. */
static enum status infer_inputs(struct onnx_graph *g, struct onnx_choices *c, int64_t *batch)
{
    int64_t given = 0, most = has_weights(g) && c->inputs == 0 ? INT64_MAX : c->inputs;
    most = most == 0 ? 1 : most;
    *batch = 1;
    for (size_t i = 0; i < g->inputs; i++) {
        struct onnx_value *v = &g->value[g->input[i]];
        if (v->is_initial || v->is_known)
            continue;
        PASS(input_shape(g, v, given == 0, c));
        v->role = given < most ? ONNX_GIVEN : ONNX_PARAMETER;
        v->parameter = given < most ? ONNX_NONE : g->input[i];
        if (given++ == 0 && v->rank > 0)
            *batch = v->dim[0];
    }
    if (*batch < 1)
        return error_set(STATUS_INVALID, "%s: batch size is 0", g->path);
    for (size_t i = 0; i < g->values; i++) {
        struct onnx_value *v = &g->value[i];
        if (!v->is_initial)
            continue;
        v->role = onnx_is_float(v->type) ? ONNX_PARAMETER : ONNX_CONSTANT;
        v->parameter = v->role == ONNX_PARAMETER ? (uint32_t)i : ONNX_NONE;
    }
    return STATUS_OK;
}

/* ---- nodes */

static enum onnx_type onnx_result_type(const struct onnx_step *s)
{
    const char *op = s->n->op;
    const struct onnx_attribute *a = onnx_attribute(s->n, "value");
    const struct onnx_value *x = onnx_input(s, !strcmp(op, "Where"));
    if (!strcmp(op, "Shape") || !strcmp(op, "Size") || !strncmp(op, "Arg", 3))
        return ONNX_INT64;
    if (!strcmp(op, "Cast"))
        return (enum onnx_type)(onnx_whole(s->n, "to", 0) & 63);
    if (!strcmp(op, "ConstantOfShape") || !strcmp(op, "Constant"))
        return a && a->has_tensor ? a->type
               : *op == 'C' &&
                       (!strcmp(op, "ConstantOfShape") || onnx_attribute(s->n, "value_float"))
                   ? ONNX_FLOAT
                   : ONNX_INT64;
    return x ? x->type : ONNX_ANY;
}

/* Views of a parameter are the parameter, but for copies that exporters make of initialisers that
 * are equal: those were parameters of their own. Initialisers that hold a shape, filled, are
 * parameters whose numbers somebody left out. */
static void role_of(const struct onnx_step *s, const struct onnx_rule *r, struct onnx_value *to,
                    uint32_t self)
{
    uint32_t parameter = ONNX_NONE;
    size_t parameters = 0;
    const struct onnx_value *x = onnx_input(s, 0);
    for (size_t i = 0; i < s->n->inputs && r->class != CLASS_SHAPE; i++) {
        const struct onnx_value *v = onnx_input(s, i);
        if (!v || (i > 0 && r->class == CLASS_VIEW))
            continue;
        if (v->role == ONNX_GIVEN || v->role == ONNX_MADE) {
            to->role = r->class == CLASS_VIEW ? v->role : ONNX_MADE;
            return;
        }
        if (v->role == ONNX_PARAMETER && v->parameter != parameter) {
            parameter = v->parameter;
            parameters++;
        }
    }
    to->role = parameters > 1 ? ONNX_MADE : parameters ? ONNX_PARAMETER : ONNX_CONSTANT;
    to->parameter = parameters == 1 ? parameter : ONNX_NONE;
    bool copy = !strcmp(s->n->op, "Identity") && x && x->parameter == s->n->input[0];
    bool filled = !strcmp(s->n->op, "ConstantOfShape") && x && x->is_initial;
    if ((copy && parameters == 1) || (filled && onnx_is_float(to->type))) {
        to->role = ONNX_PARAMETER;
        to->parameter = self;
    }
}

static enum status not_inferred(const struct onnx_step *s, const struct onnx_rule *r)
{
    const char *name = s->g->value[s->n->output[0]].name;
    if (r->class == CLASS_UNKNOWN)
        return error_set(
            STATUS_UNSUPPORTED,
            "%s: node '%.60s': unknown operator '%.60s'%s%.60s, and the file has no shape of its "
            "output '%.60s'. Add the shape (value_info), or export the model without this operator",
            s->g->path, s->n->name, s->n->op, *s->n->domain ? " of " : "", s->n->domain, name);
    const struct onnx_value *x = onnx_known(s, 0), *y = onnx_known(s, 1);
    char first[SHAPE_TEXT] = "none", second[SHAPE_TEXT] = "none";
    return error_set(STATUS_UNSUPPORTED,
                     "%s: node '%.60s' (%.60s): the shape of '%.60s' does not follow from its "
                     "inputs (%s, %s), and the file does not give it",
                     s->g->path, s->n->name, s->n->op, name,
                     x ? shape_text(x->rank, x->dim, first) : first,
                     y ? shape_text(y->rank, y->dim, second) : second);
}

static enum status onnx_shape_check_inputs(const struct onnx_step *s)
{
    for (size_t i = 0; i < s->n->inputs; i++) {
        const struct onnx_value *v = onnx_input(s, i);
        if (v && v->role == ONNX_UNSET)
            return error_set(
                STATUS_PARSE,
                "%s: node '%.60s' (%.60s) reads '%.60s', which no earlier node produces",
                s->g->path, s->n->name, s->n->op, v->name);
    }
    for (size_t k = 0; k < s->n->outputs; k++)
        if (s->n->output[k] != ONNX_NONE && s->g->value[s->n->output[k]].role != ONNX_UNSET)
            return error_set(STATUS_PARSE, "%s: '%.60s' is produced twice", s->g->path,
                             s->g->value[s->n->output[k]].name);
    if (s->n->outputs == 0 || s->n->output[0] == ONNX_NONE)
        return error_set(STATUS_PARSE, "%s: node '%.60s' (%.60s) has no output", s->g->path,
                         s->n->name, s->n->op);
    return STATUS_OK;
}

static enum status infer_node(struct onnx_step *s, struct onnx_choices *c)
{
    const struct onnx_rule *r = onnx_rule(s->n);
    int64_t dim[ONNX_RANK];
    PASS(onnx_shape_check_inputs(s));
    bool inferred = r->infer(s);
    PASS(s->st);
    for (size_t k = 0; k < s->n->outputs; k++) {
        uint32_t self = s->n->output[k];
        if (self == ONNX_NONE)
            continue;
        struct onnx_value *to = &s->g->value[self];
        if (!to->is_known && stated(to, c, dim) && !onnx_shape(s, k, to->stated_rank, dim))
            PASS(s->st);
        if (to->is_known && to->stated)
            PASS(onnx_compare_numbers(s->g, to, c));
        if (to->type == ONNX_ANY)
            to->type = onnx_result_type(s);
        role_of(s, r, to, self);
    }
    const struct onnx_value *to = &s->g->value[s->n->output[0]];
    if (!to->is_known)
        return not_inferred(s, r);
    if (to->role == ONNX_CONSTANT && inferred)
        onnx_fold(s);
    return s->st;
}

enum status onnx_infer(struct onnx_graph *g, struct onnx_choices *c, int64_t *batch)
{
    PASS(infer_inputs(g, c, batch));
    for (size_t i = 0; i < g->nodes; i++) {
        g->node[i].rule = onnx_rule(&g->node[i]);
        struct onnx_step s = {.g = g, .n = &g->node[i], .st = STATUS_OK};
        PASS(infer_node(&s, c));
    }
    for (size_t i = 0; i < g->outputs; i++)
        if (g->value[g->output[i]].role == ONNX_UNSET)
            return error_set(STATUS_PARSE, "%s: no node produces output '%.60s'", g->path,
                             g->value[g->output[i]].name);
    return STATUS_OK;
}
