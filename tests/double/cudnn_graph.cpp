/* What cuDNN's graphs compute: an operation at a time on whole tensors, which nothing fuses. */
#include "tests/double/blas.h"
#include "tests/double/cudnn.h"
#include "tests/double/double.h"

#include <math.h>
#include <set>

namespace dbl
{

placed::placed(const described *t)
{
    auto sizes = t->all<int64_t>(CUDNN_TENSOR_SIZES),
         strides = t->all<int64_t>(CUDNN_TENSOR_STRIDES);
    for (size_t k = 0; k < 4; k++) {
        size[k] = sizes[k];
        stride[k] = strides[k];
    }
    data = t->one<int>(CUDNN_TENSOR_DATA);
}

size_t placed::numbers() const
{
    return (size_t)(size[0] * size[1] * size[2] * size[3]);
}

size_t placed::bytes() const
{
    return data == CUDNN_BF16 ? sizeof(uint16_t) : sizeof(float);
}

size_t placed::span() const
{
    int64_t last = 0;
    for (size_t k = 0; k < 4; k++)
        last += (size[k] - 1) * stride[k];
    return ((size_t)last + 1) * bytes();
}

namespace
{

struct operation {
    std::vector<const described *> in;
    const described *out;
};

operation operation_of(const described *o)
{
    operation made = {{}, nullptr};
    auto reads = [&](int attribute) {
        if (o->to(attribute))
            made.in.push_back(o->to(attribute));
    };
    switch (o->kind) {
    case CUDNN_MATMUL_OPERATION:
        reads(CUDNN_MATMUL_A);
        reads(CUDNN_MATMUL_B);
        made.out = o->to(CUDNN_MATMUL_C);
        break;
    case CUDNN_POINTWISE_OPERATION:
        reads(CUDNN_POINTWISE_X);
        reads(CUDNN_POINTWISE_B);
        reads(CUDNN_POINTWISE_T);
        made.out = o->to(CUDNN_POINTWISE_Y);
        break;
    case CUDNN_REDUCTION_OPERATION:
        reads(CUDNN_REDUCTION_X);
        made.out = o->to(CUDNN_REDUCTION_Y);
        break;
    default:
        reads(CUDNN_RESHAPE_X);
        made.out = o->to(CUDNN_RESHAPE_Y);
    }
    return made;
}

int mode_of(const described *o)
{
    return o->to(CUDNN_POINTWISE_HOW)->one<int>(CUDNN_POINTWISE_MODE);
}

bool is_virtual(const described *t)
{
    return t->one<char>(CUDNN_TENSOR_IS_VIRTUAL) != 0;
}

bool is_by_value(const described *t)
{
    return t->one<char>(CUDNN_TENSOR_IS_BY_VALUE) != 0;
}

int64_t id_of(const described *t)
{
    return t->one<int64_t>(CUDNN_TENSOR_ID);
}

/* ---- checks */

std::string fault_of_matmul(const placed &a, const placed &b, const placed &c)
{
    if (a.data != CUDNN_BF16 && a.data != CUDNN_FP32)
        return "a product of neither bf16 nor fp32";
    if (a.size[2] != c.size[2] || a.size[3] != b.size[2] || b.size[3] != c.size[3])
        return "a product of matrices that do not fit";
    for (size_t k = 0; k < 2; k++)
        if (a.size[k] != c.size[k] || c.size[k] % b.size[k] != 0)
            return "a product of batches that do not fit";
    return "";
}

/* How many inputs a mode has; 0: the double does not know it. */
size_t inputs_of(int mode)
{
    switch (mode) {
    case CUDNN_MUL:
    case CUDNN_ADD:
    case CUDNN_DIV:
    case CUDNN_SUB:
    case CUDNN_IS_GREATER_OR_EQUAL:
        return 2;
    case CUDNN_EXP:
    case CUDNN_LOG:
    case CUDNN_INDEX:
        return 1;
    case CUDNN_SELECT:
        return 3;
    default:
        return 0;
    }
}

std::string fault_of_pointwise(const described *o, const operation &made)
{
    int mode = mode_of(o);
    placed y(made.out);
    if (inputs_of(mode) == 0)
        return "pointwise mode " + std::to_string(mode) + ", which the double does not know";
    if (made.in.size() != inputs_of(mode))
        return "pointwise mode " + std::to_string(mode) + " of " + std::to_string(made.in.size());
    if ((mode == CUDNN_IS_GREATER_OR_EQUAL) != (y.data == CUDNN_BOOLEAN) ||
        (mode == CUDNN_INDEX) != (y.data == CUDNN_INT32))
        return "a pointwise result of another type";
    if (mode == CUDNN_SELECT && placed(made.in[2]).data != CUDNN_BOOLEAN)
        return "a selection by what is not boolean";
    int64_t axis = o->to(CUDNN_POINTWISE_HOW)->one<int64_t>(CUDNN_POINTWISE_AXIS, -1);
    if ((mode == CUDNN_INDEX) != (axis >= 0) || axis > 3)
        return "an index without an axis, or an axis without an index";
    for (const described *t : made.in)
        for (size_t k = 0; k < 4; k++)
            if (placed(t).size[k] != y.size[k] && placed(t).size[k] != 1)
                return "pointwise operands that do not fit";
    return "";
}

std::string fault_of_reduction(const described *o, const placed &x, const placed &y)
{
    int what = o->to(CUDNN_REDUCTION_HOW)->one<int>(CUDNN_REDUCTION_WHAT);
    if (what != CUDNN_SUM && what != CUDNN_LARGEST)
        return "reduction " + std::to_string(what) + ", which the double does not know";
    for (size_t k = 0; k < 4; k++)
        if (x.size[k] % y.size[k] != 0)
            return "a reduction to what does not fit";
    return "";
}

} // namespace

std::string fault_of_operation(const described *o)
{
    const operation made = operation_of(o);
    if (!made.out || is_by_value(made.out))
        return "an operation without a result";
    switch (o->kind) {
    case CUDNN_MATMUL_OPERATION:
        return fault_of_matmul(placed(made.in[0]), placed(made.in[1]), placed(made.out));
    case CUDNN_POINTWISE_OPERATION:
        return fault_of_pointwise(o, made);
    case CUDNN_REDUCTION_OPERATION:
        return fault_of_reduction(o, placed(made.in[0]), placed(made.out));
    default:
        return placed(made.in[0]).numbers() == placed(made.out).numbers()
                   ? ""
                   : "a reshape to more or less";
    }
}

std::string fault_of_graph(const described *graph)
{
    std::map<int64_t, const described *> by_id;
    std::set<const described *> written;
    for (const described *o : graph->all<described *>(CUDNN_GRAPH_OPERATIONS)) {
        const operation made = operation_of(o);
        auto known = [&](const described *t) {
            return by_id.emplace(id_of(t), t).first->second == t;
        };
        for (const described *t : made.in)
            if (!known(t))
                return "two tensors of one id";
            else if (is_virtual(t) && !written.count(t))
                return "a virtual tensor is read before it is made";
        if (!known(made.out))
            return "two tensors of one id";
        if (!written.insert(made.out).second)
            return "a tensor is made twice";
    }
    return by_id.empty() ? "no operations" : "";
}

std::map<int64_t, const described *> operands_of(const described *graph)
{
    std::map<int64_t, const described *> found;
    for (const described *o : graph->all<described *>(CUDNN_GRAPH_OPERATIONS)) {
        operation made = operation_of(o);
        made.in.push_back(made.out);
        for (const described *t : made.in)
            if (!is_virtual(t))
                found[id_of(t)] = t;
    }
    return found;
}

bool writes(const described *graph, const described *tensor)
{
    for (const described *o : graph->all<described *>(CUDNN_GRAPH_OPERATIONS))
        if (operation_of(o).out == tensor)
            return true;
    return false;
}

/* ---- numbers */

namespace
{

typedef std::vector<float> numbers; /* of a tensor, rows of its dimensions one after the other */

/* A place of `t`, where dimensions of 1, or fewer, stand for all. */
struct walk {
    const placed &t;
    size_t step[4];

    explicit walk(const placed &tensor) : t(tensor)
    {
        size_t each = 1;
        for (size_t k = 4; k-- > 0; each *= (size_t)t.size[k])
            step[k] = each;
    }
    size_t at(const int64_t place[4]) const
    {
        size_t n = 0;
        for (size_t k = 0; k < 4; k++)
            n += step[k] * (size_t)(place[k] < t.size[k] ? place[k] : t.size[k] == 1 ? 0 : -1);
        return n;
    }
};

template <typename F> void each(const placed &t, F f)
{
    int64_t p[4];
    size_t n = 0;
    for (p[0] = 0; p[0] < t.size[0]; p[0]++)
        for (p[1] = 0; p[1] < t.size[1]; p[1]++)
            for (p[2] = 0; p[2] < t.size[2]; p[2]++)
                for (p[3] = 0; p[3] < t.size[3]; p[3]++)
                    f(n++, p);
}

size_t offset(const placed &t, const int64_t p[4])
{
    int64_t n = 0;
    for (size_t k = 0; k < 4; k++)
        n += p[k] * t.stride[k];
    return (size_t)n;
}

numbers load(const placed &t, const char *data)
{
    numbers out(t.numbers());
    each(t, [&](size_t n, const int64_t *p) {
        const char *at = data + offset(t, p) * t.bytes();
        out[n] = t.data == CUDNN_BF16
                     ? widened_as<__nv_bfloat16>(*(const uint16_t *)(const void *)at)
                     : *(const float *)(const void *)at;
    });
    return out;
}

void store(const placed &t, const numbers &from, char *data)
{
    each(t, [&](size_t n, const int64_t *p) {
        char *at = data + offset(t, p) * t.bytes();
        if (t.data == CUDNN_BF16)
            *(uint16_t *)(void *)at = narrowed_as<__nv_bfloat16>(from[n]);
        else
            *(float *)(void *)at = from[n];
    });
}

/* b's batches are shared by so many of c's that follow each other. A row of c at a time. */
void matmul(const placed &a, const placed &b, const placed &c, const numbers &x, const numbers &w,
            numbers &y)
{
    size_t m = (size_t)c.size[2], n = (size_t)c.size[3], k = (size_t)a.size[3],
           heads = (size_t)c.size[1];
    size_t shared[2] = {(size_t)(c.size[0] / b.size[0]), heads / (size_t)b.size[1]};
    bool half = b.data == CUDNN_BF16;
    for (size_t batch = 0; batch < (size_t)c.size[0] * heads; batch++) {
        size_t other = batch / heads / shared[0] * (size_t)b.size[1] + batch % heads / shared[1];
        for (size_t i = 0; i < m; i++)
            for (size_t l = 0; l < k; l++) {
                float value = x[(batch * m + i) * k + l];
                value = half ? widened_as<__nv_bfloat16>(narrowed_as<__nv_bfloat16>(value))
                             : value; /* operands are alike there */
                for (size_t j = 0; j < n; j++)
                    y[(batch * m + i) * n + j] += value * w[(other * k + l) * n + j];
            }
    }
}

float apply(int mode, float x, float b, float t)
{
    switch (mode) {
    case CUDNN_MUL:
        return x * b;
    case CUDNN_ADD:
        return x + b;
    case CUDNN_DIV:
        return x / b;
    case CUDNN_SUB:
        return x - b;
    case CUDNN_IS_GREATER_OR_EQUAL:
        return x >= b;
    case CUDNN_EXP:
        return expf(x);
    case CUDNN_LOG:
        return logf(x);
    default:
        return t != 0 ? x : b;
    }
}

void pointwise(const described *o, const operation &made, const std::vector<const numbers *> &in,
               const placed &y, numbers &out)
{
    int mode = mode_of(o);
    int64_t axis = o->to(CUDNN_POINTWISE_HOW)->one<int64_t>(CUDNN_POINTWISE_AXIS, 0);
    std::vector<placed> at;
    std::vector<walk> walks;
    for (const described *t : made.in)
        at.emplace_back(t);
    for (const placed &t : at)
        walks.emplace_back(t);
    each(y, [&](size_t n, const int64_t *p) {
        float v[3] = {0, 0, 0};
        for (size_t k = 0; k < in.size(); k++)
            v[k] = (*in[k])[walks[k].at(p)];
        out[n] = mode == CUDNN_INDEX ? (float)p[axis] : apply(mode, v[0], v[1], v[2]);
    });
}

void reduce(const described *o, const placed &x, const placed &y, const numbers &in, numbers &out)
{
    bool sums = o->to(CUDNN_REDUCTION_HOW)->one<int>(CUDNN_REDUCTION_WHAT) == CUDNN_SUM;
    const walk to(y);
    std::fill(out.begin(), out.end(), sums ? 0 : -INFINITY);
    each(x, [&](size_t n, const int64_t *p) {
        int64_t q[4];
        for (size_t k = 0; k < 4; k++)
            q[k] = p[k] / (x.size[k] / y.size[k]);
        float &value = out[to.at(q)];
        value = sums ? value + in[n] : fmaxf(value, in[n]);
    });
}

/* Where strides order the dimensions of x and y in one way, the numbers are the same in memory. */
void reshape(const placed &x, const placed &y, const numbers &in, numbers &out)
{
    std::vector<size_t> from(x.span() / x.bytes());
    each(x, [&](size_t n, const int64_t *p) { from[offset(x, p)] = n; });
    each(y, [&](size_t n, const int64_t *p) { out[n] = in[from[offset(y, p)]]; });
}

} // namespace

void compute(const described *graph, const std::map<int64_t, char *> &data)
{
    std::map<const described *, numbers> value;
    for (const described *o : graph->all<described *>(CUDNN_GRAPH_OPERATIONS)) {
        const operation made = operation_of(o);
        std::vector<const numbers *> in;
        for (const described *t : made.in) {
            if (!value.count(t))
                value[t] = load(placed(t), data.at(id_of(t)));
            in.push_back(&value[t]);
        }
        placed x(made.in[0]), y(made.out);
        numbers out(y.numbers());
        if (o->kind == CUDNN_MATMUL_OPERATION)
            matmul(x, placed(made.in[1]), y, *in[0], *in[1], out);
        else if (o->kind == CUDNN_POINTWISE_OPERATION)
            pointwise(o, made, in, y, out);
        else if (o->kind == CUDNN_REDUCTION_OPERATION)
            reduce(o, x, y, *in[0], out);
        else
            reshape(x, y, *in[0], out);
        for (float &number : out)
            number = y.data == CUDNN_BF16
                         ? widened_as<__nv_bfloat16>(narrowed_as<__nv_bfloat16>(number))
                         : number;
        value[made.out] = out;
        if (!is_virtual(made.out))
            store(y, out, data.at(id_of(made.out)));
    }
}

} // namespace dbl
