/* Attention by contents and distances: with queries q, keys k, values v of a head of D channels and
 * a row r_p for each distance p = i - j,
 *     y_i = sum over j of softmax_j(((q_i + u) k_j + (q_i + w) r_{i-j}) / sqrt(D)) v_j.
 * Dai et al., Transformer-XL, ACL 2019, section 3.3; to both sides and with one stream of contents,
 * as XLNet has it (Yang et al., NeurIPS 2019) where no segments are given: its parameters of those
 * are there and have no gradient. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x0 (B, T, 3 C): q, k and v; x1 (B, 2 T, C): row m is that of distance T - m; y (B, T, C); saved
 * (B, H, T, T): the softmax. Parts: u, w and what segments and another stream have,
 * `learned` numbers, normal(0, 0.02). */
static enum status relative_shape(const struct model_op *op, struct layer *l)
{
    size_t distances, learned;
    bool causal;
    PASS(layer_rowwise(op, l));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads.n));
    PASS(layer_attribute(op, "distances", -1, 1, &distances));
    PASS(layer_attribute(op, "learned", -1, 1, &learned));
    PASS(layer_flag(op, "causal", &causal));
    if (causal || learned / 2 < l->in || distances != 2 * l->tokens || l->in % l->heads.n != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': foreline run cannot compute %sattention of %zu channels in %zu "
                         "heads with relative position bias over %zu distances of %zu tokens; try "
                         "--compute paced",
                         op->name, causal ? "causal " : "", l->in, l->heads.n, distances,
                         l->tokens);
    l->heads.value = l->in / l->heads.n;
    l->in *= 3;
    l->input = size_times(l->tokens, l->in);
    l->second = size_times(distances, l->out);
    l->saved = size_times(l->heads.n, size_times(l->tokens, l->tokens));
    l->work =
        size_plus(size_times(3 * l->tokens, l->heads.value), size_times(3 * l->tokens, l->tokens));
    l->part[0] = (struct layer_part){.n = learned, .fill = FILL_NORMAL};
    return STATUS_OK;
}

/* One head of one sample. */
struct relative_head {
    struct gemm_operand k, v, r;
    const real *q;
    real *p;           /* (T, T) the softmax */
    real *with[2];     /* (T, D) q + u, q + w */
    real *far;         /* (T, 2 T) scores with distances, by rows of r */
    real *ds, *dq;     /* (T, T), (T, D) */
    size_t at, far_at; /* offsets of q and of y in theirs */
};

static struct relative_head relative_head(const struct layer *l, const struct layer_io *io,
                                          size_t b, size_t h)
{
    size_t t = l->tokens, d = l->heads.value, c = l->out;
    const real *x = io->x[0] + b * l->input + h * d;
    struct relative_head one = {.q = x,
                                .k = matrix(x + c, t, d, l->in),
                                .v = matrix(x + 2 * c, t, d, l->in),
                                .r = matrix(io->x[1] + b * l->second + h * d, 2 * t, d, c),
                                .p = io->saved + (b * l->heads.n + h) * t * t,
                                .with = {io->work, io->work + t * d},
                                .dq = io->work + 2 * t * d,
                                .far = io->work + 3 * t * d,
                                .ds = io->work + 3 * t * d + 2 * t * t,
                                .at = b * l->input + h * d,
                                .far_at = b * l->second + h * d};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < t; i++)
            for (size_t n = 0; n < d; n++)
                one.with[k][i * d + n] = one.q[i * l->in + n] + io->parameter[k * c + h * d + n];
    return one;
}

/* Row i of scores becomes that of the softmax: pair (i, j) has distance i - j, row T - i + j. */
static void weigh(size_t t, size_t i, const real *far, real scale, real *p)
{
    real sum = 0;
    for (size_t j = 0; j < t; j++)
        p[j] = scale * (p[j] + far[t - i + j]);
    real largest = vector_max(p, t);
    for (size_t j = 0; j < t; j++)
        sum += p[j] = vector_exp(p[j] - largest);
    for (size_t j = 0; j < t; j++)
        p[j] /= sum;
}

static void relative_forward(const struct layer *l, struct layer_io *io)
{
    size_t t = l->tokens, d = l->heads.value;
    real scale = (real)(1 / sqrt((double)d));
    for (size_t n = 0; n < io->batch * l->heads.n; n++) {
        size_t b = n / l->heads.n, h = n % l->heads.n;
        struct relative_head one = relative_head(l, io, b, h);
        struct gemm g = product(1, matrix(one.with[0], t, d, d), transposed(one.k), one.p, t);
        gemm(&g);
        g = product(1, matrix(one.with[1], t, d, d), transposed(one.r), one.far, 2 * t);
        gemm(&g);
        for (size_t i = 0; i < t; i++)
            weigh(t, i, one.far + 2 * t * i, scale, one.p + t * i);
        g = product(1, matrix(one.p, t, t, t), one.v, io->y + b * l->output + h * d, l->out);
        gemm(&g);
    }
}

/* ds from dp, which is in its place; far gets ds by rows of r, zeros where there is no pair. */
static void relative_scores_backward(size_t t, real scale, const struct relative_head *one)
{
    memset(one->far, 0, 2 * t * t * sizeof *one->far);
    for (size_t i = 0; i < t; i++) {
        const real *p = one->p + t * i;
        real *ds = one->ds + t * i, mean = vector_dot(p, ds, t);
        for (size_t j = 0; j < t; j++) {
            ds[j] = scale * p[j] * (ds[j] - mean);
            one->far[2 * t * i + t - i + j] = ds[j];
        }
    }
}

/* d of q + u, or of q + w: to the queries, and their sum to u or w. */
static void add_queries(const struct layer *l, const real *d, real *dq, real *d_bias)
{
    for (size_t i = 0; i < l->tokens; i++) {
        vector_add(dq + i * l->in, d + i * l->heads.value, l->heads.value);
        vector_add(d_bias, d + i * l->heads.value, l->heads.value);
    }
}

static void relative_backward(const struct layer *l, struct layer_io *io)
{
    size_t t = l->tokens, d = l->heads.value, c = l->out;
    real scale = (real)(1 / sqrt((double)d));
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t n = 0; n < io->batch * l->heads.n; n++) {
        size_t b = n / l->heads.n, h = n % l->heads.n;
        struct relative_head one = relative_head(l, io, b, h);
        struct gemm_operand dy = matrix(io->dy + b * l->output + h * d, t, d, c);
        struct gemm_operand ds = matrix(one.ds, t, t, t), far = matrix(one.far, t, 2 * t, 2 * t);
        real *dq = io->dx[0] + one.at, *d_u = io->d_parameter + h * d;
        struct gemm all[] = {
            product(1, dy, transposed(one.v), one.ds, t),                          /* dp */
            product(1, transposed(matrix(one.p, t, t, t)), dy, dq + 2 * c, l->in), /* dv */
            product(1, transposed(ds), matrix(one.with[0], t, d, d), dq + c, l->in),
            product(1, transposed(far), matrix(one.with[1], t, d, d), io->dx[1] + one.far_at, c),
            product(1, ds, one.k, one.dq, d),
            product(1, far, one.r, one.dq, d),
        };
        gemm(&all[0]);
        relative_scores_backward(t, scale, &one);
        for (size_t k = 1; k < 5; k++)
            gemm(&all[k]);
        add_queries(l, one.dq, dq, d_u);
        gemm(&all[5]);
        add_queries(l, one.dq, dq, d_u + c);
    }
}

const struct layer_kind kind_relative = {.type = OPERATOR_relative,
                                         .inputs = 2,
                                         .shape = relative_shape,
                                         .forward = relative_forward,
                                         .backward = relative_backward,
                                         .mixes = true};
