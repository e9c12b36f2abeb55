/* The table of ONNX operators, and the shapes of those that join, pick, sum and make constants. */
#include "model/onnx/rules.h"

#include <math.h>
#include <string.h>

static const struct onnx_rule rules[] = {
#define RULE(op, class, way, forward, backward)                                                    \
    {#op, CLASS_##class, infer_##way, forward, backward},
#include "model/onnx/rules.def"
#undef RULE
};

static bool nothing(struct onnx_step *s)
{
    (void)s;
    return false;
}

static const struct onnx_rule unknown = {"", CLASS_UNKNOWN, nothing, 0, 0};

/* What others than ONNX define may be called the same and be something else. */
const struct onnx_rule *onnx_rule(const struct onnx_node *n)
{
    bool ours = !*n->domain || !strcmp(n->domain, "ai.onnx") ||
                (!strcmp(n->domain, "com.microsoft") && strstr(n->op, "Gelu"));
    if (n->rule)
        return n->rule;
    for (size_t i = 0; ours && i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].op, n->op) == 0)
            return &rules[i];
    return &unknown;
}

const struct onnx_value *onnx_known(const struct onnx_step *s, size_t i)
{
    const struct onnx_value *v = onnx_input(s, i);
    return v && v->is_known ? v : NULL;
}

const int64_t *onnx_numbers(const struct onnx_step *s, size_t i, const char *name, size_t *n)
{
    const struct onnx_value *v = onnx_input(s, i);
    const struct onnx_attribute *a = onnx_attribute(s->n, name);
    *n = 0;
    if (v && v->data.kept && v->data.whole) {
        *n = v->data.n;
        return v->data.whole;
    }
    if (a && !v)
        *n = a->ints;
    return *n > 0 ? a->value : NULL;
}

bool onnx_axis(int64_t axis, size_t rank, size_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return false;
    *out = (size_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return true;
}

/* ---- joining and picking */

bool infer_concat(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    int64_t dim[ONNX_RANK];
    size_t axis;
    if (!x || !onnx_axis(onnx_whole(s->n, "axis", 0), x->rank, &axis))
        return false;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    for (size_t i = 1; i < s->n->inputs; i++) {
        const struct onnx_value *v = onnx_known(s, i);
        if (!v || v->rank != x->rank || __builtin_add_overflow(dim[axis], v->dim[axis], &dim[axis]))
            return false;
        for (size_t k = 0; k < x->rank; k++)
            if (k != axis && v->dim[k] != x->dim[k])
                return false;
    }
    return onnx_shape(s, 0, x->rank, dim);
}

bool infer_gather(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0), *index = onnx_known(s, 1);
    int64_t dim[ONNX_RANK];
    size_t axis, rank = 0;
    if (!x || !index || !onnx_axis(onnx_whole(s->n, "axis", 0), x->rank, &axis) ||
        x->rank + index->rank > ONNX_RANK + 1)
        return false;
    for (size_t k = 0; k < x->rank; k++)
        if (k != axis)
            dim[rank++] = x->dim[k];
        else
            for (size_t j = 0; j < index->rank; j++)
                dim[rank++] = index->dim[j];
    return onnx_shape(s, 0, rank, dim);
}

bool infer_gather_elements(struct onnx_step *s)
{
    const struct onnx_value *index = onnx_known(s, 1);
    return index && onnx_shape(s, 0, index->rank, index->dim);
}

/* Blocks of channels become squares of positions, or the other way. */
static bool rule_add_blocks(struct onnx_step *s, bool to_space)
{
    const struct onnx_value *x = onnx_known(s, 0);
    int64_t size = onnx_whole(s->n, "blocksize", 0);
    if (!x || x->rank != 4 || size < 1 || size > 65536)
        return false;
    int64_t area = size * size;
    if (to_space ? x->dim[1] % area != 0 : x->dim[2] % size != 0 || x->dim[3] % size != 0)
        return false;
    if (!to_space) {
        const int64_t dim[] = {x->dim[0], x->dim[1] * area, x->dim[2] / size, x->dim[3] / size};
        return onnx_shape(s, 0, 4, dim);
    }
    const int64_t dim[] = {x->dim[0], x->dim[1] / area, x->dim[2] * size, x->dim[3] * size};
    return onnx_shape(s, 0, 4, dim);
}

bool infer_depth_to_space(struct onnx_step *s)
{
    return rule_add_blocks(s, true);
}

bool infer_space_to_depth(struct onnx_step *s)
{
    return rule_add_blocks(s, false);
}

/* ---- sums */

/* The axes become 1, or nothing. */
static bool rule_drop_axes(struct onnx_step *s, const struct onnx_value *x, const bool *gone)
{
    int64_t dim[ONNX_RANK];
    size_t rank = 0;
    bool keep = onnx_whole(s->n, "keepdims", 1) != 0;
    for (size_t k = 0; k < x->rank; k++)
        if (!gone[k] || keep)
            dim[rank++] = gone[k] ? 1 : x->dim[k];
    return onnx_shape(s, 0, rank, dim);
}

bool infer_reduce(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n, at;
    const int64_t *axis = onnx_numbers(s, 1, "axes", &n);
    bool gone[ONNX_RANK] = {false};
    if (!x || (onnx_input(s, 1) && !axis))
        return false;
    for (size_t k = 0; k < n; k++) {
        if (!onnx_axis(axis[k], x->rank, &at))
            return false;
        gone[at] = true;
    }
    for (size_t k = 0; k < x->rank && n == 0; k++)
        gone[k] = !onnx_whole(s->n, "noop_with_empty_axes", 0);
    return rule_drop_axes(s, x, gone);
}

bool infer_arg(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    bool gone[ONNX_RANK] = {false};
    size_t axis;
    if (!x || !onnx_axis(onnx_whole(s->n, "axis", 0), x->rank, &axis))
        return false;
    gone[axis] = true;
    return rule_drop_axes(s, x, gone);
}

/* ---- constants */

bool infer_shape(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    if (!x)
        return false;
    int64_t rank = (int64_t)x->rank, from = onnx_whole(s->n, "start", 0);
    int64_t to = onnx_whole(s->n, "end", rank);
    from = from < -rank ? 0 : from < 0 ? from + rank : from > rank ? rank : from;
    to = to < -rank ? 0 : to < 0 ? to + rank : to > rank ? rank : to;
    const int64_t n = to > from ? to - from : 0;
    return onnx_shape(s, 0, 1, &n);
}

bool infer_size(struct onnx_step *s)
{
    return onnx_known(s, 0) && onnx_shape(s, 0, 0, NULL);
}

bool infer_constant(struct onnx_step *s)
{
    static const char *const scalar[] = {"value_int", "value_float", "value_string"};
    const struct onnx_attribute *a = onnx_attribute(s->n, "value");
    if (a && a->has_tensor)
        return onnx_shape(s, 0, a->rank, a->dim);
    for (size_t k = 0; k < sizeof scalar / sizeof *scalar; k++)
        if (onnx_attribute(s->n, scalar[k]))
            return onnx_shape(s, 0, 0, NULL);
    a = onnx_attribute(s->n, "value_ints");
    const int64_t n = a ? (int64_t)a->ints : 0;
    return a && onnx_shape(s, 0, 1, &n);
}

bool infer_filled(struct onnx_step *s)
{
    size_t n;
    const struct onnx_value *to = onnx_input(s, 0);
    const int64_t *dim = onnx_numbers(s, 0, "", &n);
    return to && to->data.kept && n <= ONNX_RANK && onnx_shape(s, 0, n, dim);
}

/* The one number of an input. */
static bool scalar(const struct onnx_step *s, size_t i, double *out)
{
    const struct onnx_value *v = onnx_input(s, i);
    if (!v || !v->data.kept || v->data.n != 1)
        return false;
    *out = v->data.whole ? (double)v->data.whole[0] : v->data.real[0];
    return true;
}

bool infer_range(struct onnx_step *s)
{
    double from, to, by;
    if (!scalar(s, 0, &from) || !scalar(s, 1, &to) || !scalar(s, 2, &by))
        return false;
    double n = ceil((to - from) / by);
    if (!(n < 1e15))
        return false;
    const int64_t dim = n > 0 ? (int64_t)n : 0;
    return onnx_shape(s, 0, 1, &dim);
}
