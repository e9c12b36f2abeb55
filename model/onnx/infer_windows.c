/* Shapes of the outputs of ONNX operators that move windows over space: convolutions, pools,
 * resizing. */
#include "model/onnx/rules.h"

#include <string.h>

struct onnx_window {
    size_t dims; /* of space */
    int64_t size[ONNX_RANK], stride[ONNX_RANK], dilation[ONNX_RANK], before[ONNX_RANK],
        after[ONNX_RANK], more[ONNX_RANK];
};

static bool in_range(int64_t v, int64_t least)
{
    return v >= least && v <= INT32_MAX;
}

static bool fill_attribute(const struct onnx_node *n, const char *name, size_t dims, int64_t usual,
                           int64_t least, int64_t *out)
{
    const struct onnx_attribute *a = onnx_attribute(n, name);
    for (size_t k = 0; k < dims; k++) {
        out[k] = a && k < a->ints ? a->value[k] : usual;
        if (!in_range(out[k], least))
            return false;
    }
    return !a || a->ints == dims;
}

static bool read_window(const struct onnx_step *s, const struct onnx_value *x,
                        struct onnx_window *w)
{
    const struct onnx_node *n = s->n;
    const struct onnx_attribute *kernel = onnx_attribute(n, "kernel_shape");
    const struct onnx_attribute *pads = onnx_attribute(n, "pads");
    const struct onnx_value *weight = onnx_known(s, 1);
    w->dims = x->rank - 2;
    for (size_t k = 0; k < w->dims; k++) {
        if (!kernel && (!weight || weight->rank != x->rank))
            return false;
        if (kernel && kernel->ints != w->dims)
            return false;
        w->size[k] = kernel ? kernel->value[k] : weight->dim[k + 2];
        w->before[k] = pads && k < pads->ints ? pads->value[k] : 0;
        w->after[k] = pads && k + w->dims < pads->ints ? pads->value[k + w->dims] : 0;
        if (!in_range(w->size[k], 1) || !in_range(w->before[k], 0) || !in_range(w->after[k], 0) ||
            x->dim[k + 2] > INT32_MAX)
            return false;
    }
    return fill_attribute(n, "strides", w->dims, 1, 1, w->stride) &&
           fill_attribute(n, "dilations", w->dims, 1, 1, w->dilation) &&
           fill_attribute(n, "output_padding", w->dims, 0, 0, w->more);
}

/* Positions of a window along dimension k of `in` numbers; -1: it does not fit. */
static int64_t window_positions(const struct onnx_node *n, const struct onnx_window *w, size_t k,
                                int64_t in)
{
    const struct onnx_attribute *way = onnx_attribute(n, "auto_pad");
    int64_t extent = (w->size[k] - 1) * w->dilation[k] + 1, stride = w->stride[k];
    if (way && strncmp(way->text, "SAME", 4) == 0)
        return (in + stride - 1) / stride;
    int64_t room = in + w->before[k] + w->after[k] - extent;
    if (room < 0)
        return -1;
    int64_t out = room / stride + 1;
    /* a window more, unless it begins behind what is there */
    if (onnx_whole(n, "ceil_mode", 0) && room % stride != 0 && out * stride < in + w->before[k])
        out++;
    return out;
}

static bool window_count(struct onnx_step *s, int64_t channels)
{
    const struct onnx_value *x = onnx_known(s, 0);
    struct onnx_window w = {0};
    int64_t dim[ONNX_RANK];
    if (!x || x->rank < 3 || !read_window(s, x, &w))
        return false;
    dim[0] = x->dim[0];
    dim[1] = channels;
    for (size_t k = 0; k < w.dims; k++)
        dim[k + 2] = window_positions(s->n, &w, k, x->dim[k + 2]);
    return onnx_shape(s, 0, x->rank, dim);
}

bool infer_pool(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    return x && x->rank >= 3 && window_count(s, x->dim[1]);
}

/* Weights are (outputs, inputs of a group, kernel). */
bool infer_convolution(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0), *w = onnx_known(s, 1);
    int64_t groups = onnx_whole(s->n, "group", 1);
    return x && w && x->rank >= 3 && w->rank == x->rank && groups >= 1 && w->dim[1] <= INT32_MAX &&
           groups <= INT32_MAX && w->dim[1] * groups == x->dim[1] && window_count(s, w->dim[0]);
}

/* Weights are (inputs, outputs of a group, kernel). */
bool infer_transposed(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0), *weight = onnx_known(s, 1);
    struct onnx_window w = {0};
    int64_t dim[ONNX_RANK], groups = onnx_whole(s->n, "group", 1);
    if (!x || !weight || x->rank < 3 || weight->rank != x->rank || !read_window(s, x, &w) ||
        !in_range(groups, 1) || !in_range(weight->dim[1], 0) || weight->dim[0] != x->dim[1])
        return false;
    dim[0] = x->dim[0];
    dim[1] = weight->dim[1] * groups;
    for (size_t k = 0; k < w.dims; k++)
        dim[k + 2] = w.stride[k] * (x->dim[k + 2] - 1) + w.more[k] +
                     (w.size[k] - 1) * w.dilation[k] + 1 - w.before[k] - w.after[k];
    return onnx_shape(s, 0, x->rank, dim);
}

bool infer_global(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0);
    int64_t dim[ONNX_RANK];
    if (!x || x->rank < 2)
        return false;
    for (size_t k = 0; k < x->rank; k++)
        dim[k] = k < 2 ? x->dim[k] : 1;
    return onnx_shape(s, 0, x->rank, dim);
}

/* Sizes, or factors of the input's. */
bool infer_resize(struct onnx_step *s)
{
    const struct onnx_value *x = onnx_known(s, 0), *scales, *sizes = onnx_input(s, 3);
    int64_t dim[ONNX_RANK];
    if (!x)
        return false;
    if (sizes && sizes->data.kept && sizes->data.whole && sizes->data.n == x->rank)
        return onnx_shape(s, 0, x->rank, sizes->data.whole);
    scales = onnx_input(s, s->n->inputs > 2 ? 2 : 1);
    if (!scales || !scales->data.kept || !scales->data.real || scales->data.n != x->rank)
        return false;
    for (size_t k = 0; k < x->rank; k++) {
        double size = (double)x->dim[k] * scales->data.real[k];
        if (!(size >= 0 && size < 1e15))
            return false;
        dim[k] = (int64_t)size;
    }
    return onnx_shape(s, 0, x->rank, dim);
}
