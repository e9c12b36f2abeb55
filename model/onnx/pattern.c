/* Finds the groups of nodes that are one op. */
#include "model/onnx/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 8 }; /* nodes between two products of an attention */

struct pattern_finder {
    const struct onnx_graph *g;
    uint32_t *maker; /* [values] node, ONNX_NONE: none */
    uint32_t *user;  /* [values] one of its users */
    size_t *users;   /* [values], outputs of the graph count */
    struct onnx_match *match;
};

static const struct onnx_node *pattern_maker(const struct pattern_finder *f, uint32_t value,
                                             uint32_t *node)
{
    *node = value == ONNX_NONE ? ONNX_NONE : f->maker[value];
    return *node == ONNX_NONE ? NULL : &f->g->node[*node];
}

/* The only node that reads what node i makes, NULL: none, or others too. */
static const struct onnx_node *reader(const struct pattern_finder *f, uint32_t i, uint32_t *node)
{
    uint32_t value = f->g->node[i].output[0];
    *node = f->users[value] == 1 ? f->user[value] : ONNX_NONE;
    return *node == ONNX_NONE ? NULL : &f->g->node[*node];
}

static bool pattern_is_op(const struct onnx_node *n, const char *op)
{
    return n && strcmp(n->op, op) == 0;
}

static const struct onnx_value *pattern_value_at(const struct pattern_finder *f, uint32_t value)
{
    return value == ONNX_NONE ? NULL : &f->g->value[value];
}

static bool is_scalar(const struct pattern_finder *f, uint32_t value)
{
    const struct onnx_value *v = pattern_value_at(f, value);
    return v && (v->role == ONNX_CONSTANT || v->role == ONNX_PARAMETER) &&
           onnx_count(v->rank, v->dim) == 1;
}

static bool is_number(const struct pattern_finder *f, uint32_t value, double number)
{
    const struct onnx_value *v = pattern_value_at(f, value);
    if (!v || !v->data.kept || v->data.n != 1)
        return false;
    return (v->data.whole ? (double)v->data.whole[0] : v->data.real[0]) == number;
}

static bool pattern_is_parameter(const struct pattern_finder *f, uint32_t value)
{
    const struct onnx_value *v = pattern_value_at(f, value);
    return v && v->role == ONNX_PARAMETER;
}

/* Does a node of two inputs read `value`, and what else? */
static bool other(const struct onnx_node *n, uint32_t value, uint32_t *rest)
{
    if (!n || n->inputs != 2 || (n->input[0] != value && n->input[1] != value))
        return false;
    *rest = n->input[n->input[0] == value];
    return *rest != ONNX_NONE;
}

/* How often do node[n] read that value? */
static size_t reads(const struct pattern_finder *f, const uint32_t *node, size_t n, uint32_t value)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < f->g->node[node[i]].inputs && k < STEPS; k++)
            count += f->g->node[node[i]].input[k] == value;
    return count;
}

/* Is every node of a group still free, and what all but the last make read by the group alone? Then
 * they are inside. */
static bool pattern_claim_node(struct pattern_finder *f, const uint32_t *node, size_t n,
                               const struct onnx_match *m)
{
    for (size_t i = 0; i < n; i++) {
        const struct onnx_node *o = &f->g->node[node[i]];
        if (f->match[node[i]].kind != KIND_NODE)
            return false;
        for (size_t k = 0; i + 1 < n && k < o->outputs; k++)
            if (o->output[k] != ONNX_NONE &&
                f->users[o->output[k]] != reads(f, node, n, o->output[k]))
                return false;
    }
    if (m->x == ONNX_NONE)
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        f->match[node[i]].kind = KIND_INSIDE;
    f->match[node[n - 1]] = *m;
    return true;
}

/* Behind node `at`, a product with a parameter, and a sum with another: both join the group. */
static void affine(const struct pattern_finder *f, uint32_t *node, size_t *n, struct onnx_match *m)
{
    static const char *const op[] = {"Mul", "Add"};
    for (size_t k = 0; k < 2; k++) {
        uint32_t next, parameter;
        const struct onnx_node *o = reader(f, node[*n - 1], &next);
        if (!pattern_is_op(o, op[k]) || !other(o, f->g->node[node[*n - 1]].output[0], &parameter) ||
            !pattern_is_parameter(f, parameter))
            return;
        node[(*n)++] = next;
        *(k == 0 ? &m->weight : &m->bias) = parameter;
    }
}

/* ---- norms */

/* Is node `i` a square of something? Of what? */
static bool square_of(const struct pattern_finder *f, const struct onnx_node *n, uint32_t *x)
{
    if (!n || n->inputs != 2)
        return false;
    *x = n->input[0];
    return (pattern_is_op(n, "Pow") && is_number(f, n->input[1], 2)) ||
           (pattern_is_op(n, "Mul") && n->input[0] == n->input[1]);
}

/* From Sqrt upwards: Add of a small number, ReduceMean, a square. */
static bool pattern_root(const struct pattern_finder *f, uint32_t root, uint32_t *node, uint32_t *x)
{
    uint32_t eps = ONNX_NONE, sum;
    const struct onnx_node *n = &f->g->node[root], *add = pattern_maker(f, n->input[0], &sum);
    if (!pattern_is_op(add, "Add") || add->inputs != 2)
        return false;
    bool swapped = is_scalar(f, add->input[0]);
    eps = add->input[!swapped];
    const struct onnx_node *mean = pattern_maker(f, add->input[swapped], &node[1]);
    if (!is_scalar(f, eps) || !pattern_is_op(mean, "ReduceMean") || mean->inputs < 1)
        return false;
    const struct onnx_node *square = pattern_maker(f, mean->input[0], &node[0]);
    node[2] = sum;
    node[3] = root;
    return square_of(f, square, x);
}

/* x / root, or x times its reciprocal; the node that makes it. */
static bool pattern_divisor(const struct pattern_finder *f, uint32_t root, uint32_t *node,
                            size_t *n, uint32_t x)
{
    uint32_t next, rest;
    const struct onnx_node *o = reader(f, root, &next);
    uint32_t value = f->g->node[root].output[0];
    if (pattern_is_op(o, "Div") && o->inputs == 2 && o->input[0] == x && o->input[1] == value) {
        node[(*n)++] = next;
        return true;
    }
    if (!pattern_is_op(o, "Reciprocal") &&
        !(pattern_is_op(o, "Div") && o->inputs == 2 && is_number(f, o->input[0], 1)))
        return false;
    node[(*n)++] = next;
    o = reader(f, next, &next);
    if (!pattern_is_op(o, "Mul") || !other(o, f->g->node[node[*n - 1]].output[0], &rest) ||
        rest != x)
        return false;
    node[(*n)++] = next;
    return true;
}

static void find_norm(struct pattern_finder *f, uint32_t root)
{
    uint32_t node[STEPS + 4], x, mean_at;
    size_t n = 4;
    struct onnx_match m = {.kind = KIND_RMS, .weight = ONNX_NONE, .bias = ONNX_NONE};
    if (f->g->node[root].inputs < 1 || !pattern_root(f, root, node, &x) ||
        !pattern_divisor(f, root, node, &n, x))
        return;
    uint32_t centred;
    const struct onnx_node *sub = pattern_maker(f, x, &centred);
    m.x = x;
    if (pattern_is_op(sub, "Sub") && sub->inputs == 2) {
        const struct onnx_node *mean = pattern_maker(f, sub->input[1], &mean_at);
        if (pattern_is_op(mean, "ReduceMean") && mean->inputs > 0 &&
            mean->input[0] == sub->input[0]) {
            m.kind = KIND_NORM;
            m.x = sub->input[0];
            memmove(node + 2, node, n * sizeof *node);
            node[0] = mean_at;
            node[1] = centred;
            n += 2;
        }
    }
    affine(f, node, &n, &m);
    if (m.kind == KIND_RMS && m.bias != ONNX_NONE) { /* the sum is another's */
        m.bias = ONNX_NONE;
        n--;
    }
    m.first = node[n - 1];
    pattern_claim_node(f, node, n, &m);
}

/* ---- gelu */

/* From its Erf or Tanh down: 1 is added, and x and a half multiplied in any order; x may have been
 * halved before. node[] gets what belongs to it. */
static bool gelu_end(const struct pattern_finder *f, uint32_t at, uint32_t x, uint32_t *node,
                     size_t *n)
{
    uint32_t next, rest, half;
    bool with_x = false, with_half = false;
    const struct onnx_node *o = reader(f, at, &next);
    if (!pattern_is_op(o, "Add") || !other(o, f->g->node[at].output[0], &rest) ||
        !is_number(f, rest, 1))
        return false;
    node[(*n)++] = next;
    for (int k = 0; k < 2 && !(with_x && with_half); k++) {
        o = reader(f, node[*n - 1], &next);
        if (!pattern_is_op(o, "Mul") || !other(o, f->g->node[node[*n - 1]].output[0], &rest))
            return false;
        const struct onnx_node *before = pattern_maker(f, rest, &half);
        uint32_t scale;
        if (rest == x && !with_x) {
            with_x = true;
        } else if (is_number(f, rest, 0.5) && !with_half) {
            with_half = true;
        } else if (pattern_is_op(before, "Mul") && other(before, x, &scale) &&
                   is_number(f, scale, 0.5) && f->users[rest] == 1 && !with_x && !with_half) {
            with_x = with_half = true;
            memmove(node + 1, node, *n * sizeof *node);
            node[0] = half;
            (*n)++;
        } else {
            return false;
        }
        node[(*n)++] = next;
    }
    return with_x && with_half;
}

/* x divided by, or times, a number. */
static bool scaled(const struct pattern_finder *f, uint32_t value, uint32_t *node, uint32_t *x)
{
    const struct onnx_node *n = pattern_maker(f, value, node);
    if ((!pattern_is_op(n, "Div") && !pattern_is_op(n, "Mul")) || n->inputs != 2 ||
        f->users[value] != 1)
        return false;
    bool swapped = pattern_is_op(n, "Mul") && is_scalar(f, n->input[0]);
    *x = n->input[swapped];
    return is_scalar(f, n->input[!swapped]);
}

/* c (x + c x^3), with the cube as Pow 3. */
static bool cubic(const struct pattern_finder *f, uint32_t value, uint32_t *node, uint32_t *x)
{
    uint32_t sum, cube, rest;
    const struct onnx_node *add, *pow;
    if (!scaled(f, value, &node[3], &sum) || !(add = pattern_maker(f, sum, &node[2])) ||
        !pattern_is_op(add, "Add") || add->inputs != 2)
        return false;
    for (size_t k = 0; k < 2; k++) {
        *x = add->input[k];
        rest = add->input[!k];
        if (scaled(f, rest, &node[1], &cube) && (pow = pattern_maker(f, cube, &node[0])) &&
            pattern_is_op(pow, "Pow") && pow->inputs == 2 && pow->input[0] == *x &&
            is_number(f, pow->input[1], 3))
            return f->users[sum] == 1 && f->users[cube] == 1;
    }
    return false;
}

static void find_gelu(struct pattern_finder *f, uint32_t i)
{
    uint32_t node[2 * STEPS], x = ONNX_NONE;
    const struct onnx_node *o = &f->g->node[i];
    size_t n = pattern_is_op(o, "Erf") ? 1 : 4;
    if (o->inputs != 1 || !(pattern_is_op(o, "Erf") ? scaled(f, o->input[0], node, &x)
                                                    : cubic(f, o->input[0], node, &x)))
        return;
    node[n++] = i;
    if (gelu_end(f, i, x, node, &n))
        pattern_claim_node(
            f, node, n,
            &(struct onnx_match){
                .kind = KIND_GELU, .first = i, .x = x, .weight = ONNX_NONE, .bias = ONNX_NONE});
}

/* ---- linear, batchnorm */

static void find_linear(struct pattern_finder *f, uint32_t i)
{
    const struct onnx_node *o = &f->g->node[i];
    uint32_t node[2] = {i, ONNX_NONE}, bias;
    if (o->inputs != 2 || !pattern_is_parameter(f, o->input[1]) ||
        pattern_is_parameter(f, o->input[0]))
        return;
    const struct onnx_value *w = pattern_value_at(f, o->input[1]);
    const struct onnx_node *add = reader(f, i, &node[1]);
    if (w->rank != 2 || !pattern_is_op(add, "Add") || !other(add, o->output[0], &bias) ||
        !pattern_is_parameter(f, bias) || pattern_value_at(f, bias)->rank != 1 ||
        pattern_value_at(f, bias)->dim[0] != w->dim[1])
        return;
    pattern_claim_node(f, node, 2,
                       &(struct onnx_match){.kind = KIND_LINEAR,
                                            .first = i,
                                            .x = o->input[0],
                                            .weight = o->input[1],
                                            .bias = bias});
}

static void find_scale(struct pattern_finder *f, uint32_t i)
{
    uint32_t node[3] = {i};
    size_t n = 1;
    struct onnx_match m = {.kind = KIND_SCALED,
                           .first = i,
                           .x = f->g->node[i].input[0],
                           .weight = ONNX_NONE,
                           .bias = ONNX_NONE};
    affine(f, node, &n, &m);
    if (n == 3)
        pattern_claim_node(f, node, n, &m);
}

/* ---- attention */

static bool passes(const struct onnx_node *n)
{
    return (pattern_is_op(n, "Identity") || pattern_is_op(n, "Dropout") ||
            pattern_is_op(n, "Cast")) &&
           n->inputs > 0;
}

/* One step up from the softmax towards the scores: the scores are divided, masked, or passed on. */
static bool step_up(const struct pattern_finder *f, const struct onnx_node *n, uint32_t *value,
                    uint32_t *mask)
{
    uint32_t node;
    if (passes(n) || ((pattern_is_op(n, "Div") || pattern_is_op(n, "Mul")) && n->inputs == 2)) {
        bool swapped = pattern_is_op(n, "Mul") && is_scalar(f, n->input[0]);
        *value = n->input[swapped];
        return passes(n) || is_scalar(f, n->input[!swapped]);
    }
    if (pattern_is_op(n, "Where") && n->inputs == 3) {
        bool chosen = is_scalar(f, n->input[2]);
        *value = n->input[chosen ? 1 : 2];
        *mask = n->input[0];
        return chosen || is_scalar(f, n->input[1]);
    }
    if (!pattern_is_op(n, "Add") || n->inputs != 2)
        return false;
    /* the scores are what a product made, perhaps scaled */
    const struct onnx_node *first = pattern_maker(f, n->input[0], &node);
    bool swapped = !first || pattern_value_at(f, n->input[0])->role == ONNX_CONSTANT ||
                   !(pattern_is_op(first, "MatMul") || pattern_is_op(first, "Div") ||
                     pattern_is_op(first, "Mul"));
    *value = n->input[swapped];
    *mask = n->input[!swapped];
    return true;
}

/* A scaling of queries or keys before their product is part of it: it becomes a view. */
static void absorb_scale(struct pattern_finder *f, uint32_t value)
{
    for (int k = 0; k < STEPS; k++) {
        uint32_t node, x;
        const struct onnx_node *n = pattern_maker(f, value, &node);
        if (!n || f->users[value] != 1 || f->match[node].kind != KIND_NODE)
            return;
        if (scaled(f, value, &node, &x)) {
            f->match[node] = (struct onnx_match){.kind = KIND_VIEW, .first = node, .x = x};
            return;
        }
        if ((!pattern_is_op(n, "Transpose") && !pattern_is_op(n, "Reshape")) || n->inputs < 1)
            return;
        value = n->input[0];
    }
}

static bool is_made(const struct pattern_finder *f, uint32_t value)
{
    const struct onnx_value *v = pattern_value_at(f, value);
    return v && v->rank >= 2 && (v->role == ONNX_MADE || v->role == ONNX_GIVEN);
}

static void find_attention(struct pattern_finder *f, uint32_t softmax)
{
    uint32_t node[2 * STEPS + 4], at = softmax, value, mask = ONNX_NONE;
    size_t n = 2 * STEPS;
    const struct onnx_node *o = &f->g->node[softmax];
    const struct onnx_value *p = pattern_value_at(f, o->output[0]);
    int64_t axis = onnx_whole(o, "axis", f->g->opset >= 13 ? -1 : 1);
    if (o->inputs != 1 || p->rank < 3 || (axis != -1 && axis != (int64_t)p->rank - 1))
        return;
    node[--n] = softmax;
    for (value = o->input[0]; n > STEPS; node[--n] = at) {
        const struct onnx_node *up = pattern_maker(f, value, &at);
        if (!up || f->users[value] != 1)
            return;
        if (pattern_is_op(up, "MatMul"))
            break;
        if (!step_up(f, up, &value, &mask))
            return;
    }
    const struct onnx_node *scores = &f->g->node[at];
    if (n <= STEPS || scores->inputs != 2 || !is_made(f, scores->input[0]) ||
        !is_made(f, scores->input[1]))
        return;
    node[--n] = at;
    size_t end = 2 * STEPS;
    at = softmax;
    do {
        o = reader(f, at, &at);
        if (!o || end == 2 * STEPS + 4)
            return;
        node[end++] = at;
    } while (passes(o));
    if (!pattern_is_op(o, "MatMul") || o->inputs != 2 || !is_made(f, o->input[1]) ||
        o->input[0] != f->g->node[node[end - 2]].output[0])
        return;
    struct onnx_match m = {.kind = KIND_ATTENTION,
                           .first = softmax,
                           .x = scores->input[0],
                           .weight = ONNX_NONE,
                           .bias = ONNX_NONE,
                           .keys = scores->input[1],
                           .values = o->input[1],
                           .mask = mask};
    if (!pattern_claim_node(f, node + n, end - n, &m))
        return;
    absorb_scale(f, m.x);
    absorb_scale(f, m.keys);
}

/* ---- all */

static enum status index_uses(struct pattern_finder *f)
{
    const struct onnx_graph *g = f->g;
    PASS(ARRAY_NEW(f->maker, g->values));
    PASS(ARRAY_NEW(f->user, g->values));
    PASS(ARRAY_NEW(f->users, g->values));
    for (size_t i = 0; i < g->values; i++)
        f->maker[i] = ONNX_NONE;
    for (size_t i = 0; i < g->nodes; i++) {
        const struct onnx_node *n = &g->node[i];
        for (size_t k = 0; k < n->outputs; k++)
            if (n->output[k] != ONNX_NONE)
                f->maker[n->output[k]] = (uint32_t)i;
        for (size_t k = 0; k < n->inputs; k++)
            if (n->input[k] != ONNX_NONE) {
                f->user[n->input[k]] = (uint32_t)i;
                f->users[n->input[k]]++;
            }
    }
    for (size_t i = 0; i < g->outputs; i++)
        f->users[g->output[i]] += 2; /* whoever reads it is not the only one */
    return STATUS_OK;
}

enum status onnx_find_groups(const struct onnx_graph *g, struct onnx_match **match)
{
    static const struct {
        const char *op;
        void (*find)(struct pattern_finder *f, uint32_t node);
    } kinds[] = {{"Sqrt", find_norm},     {"Erf", find_gelu},
                 {"Tanh", find_gelu},     {"BatchNormalization", find_scale},
                 {"MatMul", find_linear}, {"Softmax", find_attention}};
    enum status st;
    struct pattern_finder f = {.g = g};
    TRY(ARRAY_NEW(f.match, g->nodes));
    TRY(index_uses(&f));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t i = 0; i < g->nodes; i++)
            if (f.match[i].kind == KIND_NODE && pattern_is_op(&g->node[i], kinds[k].op) &&
                g->value[g->node[i].output[0]].role == ONNX_MADE)
                kinds[k].find(&f, i);
    *match = f.match;
    f.match = NULL;
out:
    free(f.match);
    free(f.maker);
    free(f.user);
    free(f.users);
    return st;
}
