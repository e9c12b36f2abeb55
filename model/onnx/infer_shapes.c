/* Shapes of the outputs of ONNX operators: element-wise ones, products, and views. */
#include "model/onnx/rules.h"

#include <string.h>

/* ---- elements */

bool infer_same(struct onnx_step *s)
{
    const struct onnx_value *v = onnx_known(s, 0);
    return v && onnx_shape(s, 0, v->rank, v->dim);
}

/* numpy's rule. dim[ONNX_RANK] and *rank grow by another shape. */
static bool onnx_widen_shape(int64_t *dim, size_t *rank, size_t more, const int64_t *by)
{
    for (; *rank < more; (*rank)++) {
        memmove(dim + 1, dim, *rank * sizeof *dim);
        dim[0] = 1;
    }
    for (size_t k = 0; k < more; k++) {
        int64_t *d = &dim[*rank - more + k];
        if (*d != by[k] && *d != 1 && by[k] != 1)
            return false;
        *d = *d == 1 ? by[k] : *d;
    }
    return true;
}

bool infer_broadcast(struct onnx_step *s)
{
    int64_t dim[ONNX_RANK];
    size_t rank = 0;
    for (size_t i = 0; i < s->n->inputs; i++) {
        const struct onnx_value *v = onnx_known(s, i);
        if (!v || !onnx_widen_shape(dim, &rank, v->rank, v->dim))
            return false;
    }
    return s->n->inputs > 0 && onnx_shape(s, 0, rank, dim);
}

bool infer_expand(struct onnx_step *s)
{
    const struct onnx_value *v = onnx_known(s, 0);
    size_t n, rank;
    const int64_t *to = onnx_numbers(s, 1, "shape", &n);
    int64_t dim[ONNX_RANK];
    if (!v || !to || n > ONNX_RANK)
        return false;
    rank = v->rank;
    memcpy(dim, v->dim, rank * sizeof *dim);
    return onnx_widen_shape(dim, &rank, n, to) && onnx_shape(s, 0, rank, dim);
}

bool infer_tile(struct onnx_step *s)
{
    const struct onnx_value *v = onnx_known(s, 0);
    size_t n;
    const int64_t *times = onnx_numbers(s, 1, "repeats", &n);
    int64_t dim[ONNX_RANK];
    if (!v || !times || n != v->rank)
        return false;
    for (size_t k = 0; k < n; k++)
        if (__builtin_mul_overflow(v->dim[k], times[k], &dim[k]))
            return false;
    return onnx_shape(s, 0, n, dim);
}

bool infer_pad(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n;
    const int64_t *by = onnx_numbers(s, 1, "pads", &n);
    int64_t dim[ONNX_RANK];
    if (!x || !by || n != 2 * x->rank)
        return false;
    for (size_t k = 0; k < x->rank; k++)
        if (__builtin_add_overflow(x->dim[k], by[k], &dim[k]) ||
            __builtin_add_overflow(dim[k], by[k + x->rank], &dim[k]))
            return false;
    return onnx_shape(s, 0, x->rank, dim);
}

/* ---- products */

/* numpy's rule, where vectors are matrices of one row or column that is dropped again. */
bool infer_matmul(struct onnx_step *s)
{
    const struct onnx_value *a = onnx_known(s, 0), *b = onnx_known(s, 1);
    int64_t dim[ONNX_RANK];
    size_t rank = 0;
    if (!a || !b || a->rank == 0 || b->rank == 0)
        return false;
    int64_t inner = b->rank == 1 ? b->dim[0] : b->dim[b->rank - 2];
    if (a->dim[a->rank - 1] != inner)
        return false;
    if (a->rank > 2 && !onnx_widen_shape(dim, &rank, a->rank - 2, a->dim))
        return false;
    if (b->rank > 2 && !onnx_widen_shape(dim, &rank, b->rank - 2, b->dim))
        return false;
    if (a->rank > 1)
        dim[rank++] = a->dim[a->rank - 2];
    if (b->rank > 1)
        dim[rank++] = b->dim[b->rank - 1];
    return onnx_shape(s, 0, rank, dim);
}

bool infer_gemm(struct onnx_step *s)
{
    const struct onnx_value *a = onnx_known(s, 0), *b = onnx_known(s, 1);
    if (!a || !b || a->rank != 2 || b->rank != 2)
        return false;
    bool ta = onnx_whole(s->n, "transA", 0) != 0, tb = onnx_whole(s->n, "transB", 0) != 0;
    const int64_t dim[] = {a->dim[ta], b->dim[!tb]};
    return a->dim[!ta] == b->dim[tb] && onnx_shape(s, 0, 2, dim);
}

/* ---- views */

bool infer_reshape(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n;
    const int64_t *to = onnx_numbers(s, 1, "shape", &n);
    int64_t dim[ONNX_RANK], rest = 1;
    size_t open = ONNX_RANK;
    if (!x || n > ONNX_RANK || (!to && !(onnx_input(s, 1) && onnx_input(s, 1)->data.kept)))
        return false;
    for (size_t k = 0; k < n; k++) {
        dim[k] = to[k];
        if (to[k] == 0 && k < x->rank && !onnx_whole(s->n, "allowzero", 0))
            dim[k] = x->dim[k];
        if (to[k] == -1 && open != ONNX_RANK)
            return false;
        if (to[k] == -1)
            open = k;
        else if (__builtin_mul_overflow(rest, dim[k], &rest))
            return false;
    }
    int64_t all = onnx_count(x->rank, x->dim);
    if (open < ONNX_RANK && (rest <= 0 || all % rest != 0))
        return false;
    if (open < ONNX_RANK)
        dim[open] = all / rest;
    return (open < ONNX_RANK || rest == all) && onnx_shape(s, 0, n, dim);
}

bool infer_transpose(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    const struct onnx_attribute *a = onnx_attribute(s->n, "perm");
    int64_t dim[ONNX_RANK];
    if (!x || (a && a->ints != x->rank))
        return false;
    for (size_t k = 0; k < x->rank; k++) {
        int64_t from = a ? a->value[k] : (int64_t)(x->rank - 1 - k);
        if (from < 0 || from >= (int64_t)x->rank)
            return false;
        dim[k] = x->dim[from];
    }
    return onnx_shape(s, 0, x->rank, dim);
}

bool infer_flatten(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    int64_t axis = onnx_whole(s->n, "axis", 1);
    if (!x)
        return false;
    axis += axis < 0 ? (int64_t)x->rank : 0;
    if (axis < 0 || axis > (int64_t)x->rank)
        return false;
    const int64_t dim[] = {onnx_count((size_t)axis, x->dim),
                           onnx_count(x->rank - (size_t)axis, x->dim + axis)};
    return onnx_shape(s, 0, 2, dim);
}

/* marks[rank] of the axes that are named; false: one is none. */
static bool mark_axes(const int64_t *axis, size_t n, size_t rank, bool *marks)
{
    size_t at;
    memset(marks, 0, ONNX_RANK * sizeof *marks);
    for (size_t k = 0; k < n; k++) {
        if (!onnx_axis(axis[k], rank, &at))
            return false;
        marks[at] = true;
    }
    return true;
}

bool infer_squeeze(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n, rank = 0;
    const int64_t *axis = onnx_numbers(s, 1, "axes", &n);
    bool drop[ONNX_RANK];
    int64_t dim[ONNX_RANK];
    if (!x || !mark_axes(axis, n, x->rank, drop))
        return false;
    for (size_t k = 0; k < x->rank; k++)
        if (!(axis ? drop[k] : x->dim[k] == 1))
            dim[rank++] = x->dim[k];
    return onnx_shape(s, 0, rank, dim);
}

bool infer_unsqueeze(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n, from = 0;
    const int64_t *axis = onnx_numbers(s, 1, "axes", &n);
    bool added[ONNX_RANK];
    int64_t dim[ONNX_RANK];
    if (!x || !axis || x->rank + n > ONNX_RANK || !mark_axes(axis, n, x->rank + n, added))
        return false;
    for (size_t k = 0; k < x->rank + n; k++) {
        if (!added[k] && from == x->rank)
            return false; /* an axis twice */
        dim[k] = added[k] ? 1 : x->dim[from++];
    }
    return onnx_shape(s, 0, x->rank + n, dim);
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* How many of n numbers a slice has. */
static int64_t slice_of(int64_t n, int64_t begin, int64_t end, int64_t step)
{
    if (step == 0 || step == INT64_MIN)
        return -1;
    begin = clamp(begin < 0 && begin >= -n ? begin + n : begin, step > 0 ? 0 : -1, n);
    end = clamp(end < 0 && end >= -n ? end + n : end, step > 0 ? 0 : -1, n);
    if (step < 0)
        begin = begin > n - 1 ? n - 1 : begin;
    int64_t span = step > 0 ? end - begin : begin - end, by = step > 0 ? step : -step;
    return span <= 0 ? 0 : (span - 1) / by + 1;
}

bool infer_slice(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n, ends, axes, steps, at;
    const int64_t *begin = onnx_numbers(s, 1, "starts", &n),
                  *end = onnx_numbers(s, 2, "ends", &ends);
    const int64_t *axis = onnx_numbers(s, 3, "axes", &axes),
                  *step = onnx_numbers(s, 4, "steps", &steps);
    int64_t dim[ONNX_RANK];
    if (!x || !begin || !end || ends != n || (axis && axes != n) || (step && steps != n))
        return false;
    if ((onnx_input(s, 3) && !axis) || (onnx_input(s, 4) && !step))
        return false;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    for (size_t k = 0; k < n; k++) {
        if (!onnx_axis(axis ? axis[k] : (int64_t)k, x->rank, &at))
            return false;
        dim[at] = slice_of(x->dim[at], begin[k], end[k], step ? step[k] : 1);
    }
    return onnx_shape(s, 0, x->rank, dim);
}

bool infer_split(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    size_t n, axis, parts = s->n->outputs;
    const int64_t *size = onnx_numbers(s, 1, "split", &n);
    int64_t dim[ONNX_RANK], left;
    if (!x || !onnx_axis(onnx_whole(s->n, "axis", 0), x->rank, &axis) || (size && n != parts))
        return false;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    left = x->dim[axis];
    int64_t even = (left + (int64_t)parts - 1) / (int64_t)parts;
    for (size_t k = 0; k < parts; k++) {
        dim[axis] = size ? size[k] : clamp(even, 0, left);
        left -= dim[axis];
        if (left < 0 || !onnx_shape(s, k, x->rank, dim))
            return false;
    }
    return left == 0;
}
