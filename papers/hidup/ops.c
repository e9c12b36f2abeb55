/* Operators that compute: shapes, work and signatures, most of them rows of ops.def. */
#include "papers/hidup/ops.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

enum { ONE = SPMD_LETTERS, LETTERS = 26 };

static char hidup_op_dimension(size_t d)
{
    return form_letter((uint8_t)(FORM_GATHER + d));
}

/* A signature by printf(); dimensions as hidup_op_dimension() writes them. */
static void sign(struct spmd_graph *g, const char *fmt, char a, char b, char c)
{
    char text[ONE];
    snprintf(text, sizeof text, fmt, a, b, c);
    spmd_sign(g, text);
}

static const struct spmd_tensor *hidup_op_tensor(const struct spmd_graph *g, uint32_t t)
{
    static const struct spmd_tensor none = {.rank = 0};
    return g->status == STATUS_OK ? &g->tensor[t] : &none;
}

uint32_t op_input(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size)
{
    spmd_add(g, SPMD_INPUT, "input", name, NULL, 0);
    uint32_t out = spmd_make(g, rank, size);
    spmd_sign_all(g, ">0 >F");
    return out;
}

uint32_t op_parameter(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size)
{
    spmd_add(g, SPMD_PARAMETER, "parameter", name, NULL, 0);
    uint32_t out = spmd_make(g, rank, size);
    spmd_sign(g, ">P");
    for (size_t d = 0; d < rank; d++)
        sign(g, ">%c", hidup_op_dimension(d), 0, 0);
    return out;
}

uint32_t op_mask(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size)
{
    spmd_add(g, SPMD_PARAMETER, "mask", name, NULL, 0);
    uint32_t out = spmd_make(g, rank, size);
    spmd_sign(g, ">P");
    return out;
}

void op_output(struct spmd_graph *g, const char *name, uint32_t loss)
{
    spmd_add(g, SPMD_OUTPUT, "output", name, &loss, 1);
    spmd_sign(g, "R>");
}

uint32_t op_linear(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b)
{
    struct spmd_tensor out = *hidup_op_tensor(g, x);
    bool bias = b != SPMD_NO_TENSOR;
    spmd_add(g, SPMD_FUNCTION, "linear", name, (uint32_t[]){x, w, b}, bias ? 3 : 2);
    if (g->status != STATUS_OK)
        return 0;
    size_t last = out.rank - 1;
    double in = (double)out.size[last];
    out.size[last] = g->tensor[w].size[0];
    uint32_t y = spmd_make(g, out.rank, out.size);
    spmd_product(g, in * spmd_elements(g, y));
    for (size_t d = 0; d < last; d++)
        sign(g, bias ? "%cFF>%c" : "%cF>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    sign(g, bias ? "F00>%c" : "F0>%c", hidup_op_dimension(last), 0, 0);
    if (!bias) {
        sign(g, "%c1>R", hidup_op_dimension(last), 0, 0);
        spmd_sign(g, "RF>R");
    }
    return y;
}

/* Rows of ops.def: operations per number, and signatures for compat false, true. */
struct hidup_op_row {
    const char *name, *equation;
    double work; /* of a number; binary ones do one operation */
    const char *sign[2];
};
static const struct hidup_op_row elementwise[] = {
#define ELEMENTWISE(name, work, sign) {#name, NULL, work, {sign, sign}},
#define BINARY(name, tensors, number)
#define EINSUM(name, equation, sign, published)
#include "papers/hidup/ops.def"
#undef ELEMENTWISE
#undef BINARY
#undef EINSUM
};
static const struct hidup_op_row binary[] = {
#define ELEMENTWISE(name, work, sign)
#define BINARY(name, tensors, number) {#name, NULL, 0, {tensors, number}},
#define EINSUM(name, equation, sign, published)
#include "papers/hidup/ops.def"
#undef ELEMENTWISE
#undef BINARY
#undef EINSUM
};
static const struct hidup_op_row einsums[] = {
#define ELEMENTWISE(name, work, sign)
#define BINARY(name, tensors, number)
#define EINSUM(name, equation, sign, published) {#name, equation, 0, {sign, published}},
#include "papers/hidup/ops.def"
#undef ELEMENTWISE
#undef BINARY
#undef EINSUM
};

static const struct hidup_op_row *
hidup_op_find(struct spmd_graph *g, const struct hidup_op_row *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    if (g->status == STATUS_OK)
        g->status = error_set(STATUS_INVALID, "unknown operator '%.40s'", name);
    return NULL;
}

uint32_t op_elementwise(struct spmd_graph *g, const char *op, const char *name, uint32_t x)
{
    const struct hidup_op_row *row =
        hidup_op_find(g, elementwise, sizeof elementwise / sizeof *elementwise, op);
    struct spmd_tensor in = *hidup_op_tensor(g, x);
    if (!row)
        return 0;
    spmd_add(g, SPMD_FUNCTION, row->name, name, &x, 1);
    uint32_t y = spmd_make(g, in.rank, in.size);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, row->work * spmd_elements(g, y));
    for (size_t d = 0; d < in.rank; d++)
        sign(g, "%c>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    spmd_sign_all(g, row->sign[0]);
    return y;
}

/* How dimension d of a result of rank r reads an operand: its own dimension, or all of it where it
 * is broadcast. */
static char operand(const struct spmd_tensor *t, size_t r, size_t d)
{
    if (d + t->rank < r || t->size[d + t->rank - r] == 1)
        return form_letter(FORM_FULL);
    return hidup_op_dimension(d + t->rank - r);
}

static uint32_t hidup_op_scalar(struct spmd_graph *g, const struct hidup_op_row *row,
                                const char *name, uint32_t x)
{
    struct spmd_tensor in = *hidup_op_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, row->name, name, &x, 1);
    uint32_t y = spmd_make(g, in.rank, in.size);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, spmd_elements(g, y));
    for (size_t d = 0; d < in.rank; d++)
        sign(g, "%c>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    spmd_sign_all(g, row->sign[1]);
    return y;
}

uint32_t op_binary(struct spmd_graph *g, const char *op, const char *name, uint32_t x, uint32_t y)
{
    const struct hidup_op_row *row = hidup_op_find(g, binary, sizeof binary / sizeof *binary, op);
    if (!row || y == SPMD_NO_TENSOR)
        return row ? hidup_op_scalar(g, row, name, x) : 0;
    const struct spmd_tensor a = *hidup_op_tensor(g, x), b = *hidup_op_tensor(g, y);
    struct spmd_tensor out = a.rank >= b.rank ? a : b;
    const struct spmd_tensor *less = a.rank >= b.rank ? &b : &a;
    for (size_t d = 0; d < less->rank; d++) {
        int64_t *size = &out.size[out.rank - less->rank + d];
        *size = *size > less->size[d] ? *size : less->size[d];
    }
    spmd_add(g, SPMD_FUNCTION, row->name, name, (uint32_t[]){x, y}, 2);
    uint32_t z = spmd_make(g, out.rank, out.size);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, spmd_elements(g, z));
    for (size_t d = 0; d < out.rank; d++)
        if (out.size[d] > 1)
            sign(g, "%c%c>%c", operand(&a, out.rank, d), operand(&b, out.rank, d),
                 hidup_op_dimension(d));
    spmd_sign_all(g, row->sign[0]);
    if (!g->compat && (!strcmp(op, "add") || !strcmp(op, "sub")))
        spmd_sign(g, "RR>R"); /* sums of summands, which the published code does not have */
    return z;
}

/* Sizes of the letters of "ab,bc->ac" out of both operands. */
static bool letter_sizes(const struct hidup_op_row *row, const struct spmd_tensor *a,
                         const struct spmd_tensor *b, int64_t size[LETTERS])
{
    const char *comma = strchr(row->equation, ','), *arrow = strstr(row->equation, "->");
    for (const char *l = row->equation; l < arrow; l++) {
        if (*l == ',')
            continue;
        size_t d = (size_t)(l < comma ? l - row->equation : l - comma - 1);
        const struct spmd_tensor *t = l < comma ? a : b;
        if (d >= t->rank || (size[*l - 'a'] && size[*l - 'a'] != t->size[d]))
            return false;
        size[*l - 'a'] = t->size[d];
    }
    return true;
}

uint32_t op_einsum(struct spmd_graph *g, const char *op, const char *name, uint32_t x, uint32_t y)
{
    const struct hidup_op_row *row =
        hidup_op_find(g, einsums, sizeof einsums / sizeof *einsums, op);
    int64_t size[LETTERS] = {0}, out[FORM_RANK];
    double pairs = 1;
    size_t rank = 0;
    if (!row)
        return 0;
    spmd_add(g, SPMD_FUNCTION, row->name, name, (uint32_t[]){x, y}, 2);
    if (g->status != STATUS_OK)
        return 0;
    if (!letter_sizes(row, &g->tensor[x], &g->tensor[y], size)) {
        g->status =
            error_set(STATUS_INVALID, "node %s: the shapes of its inputs do not fit operator %s",
                      name, row->equation);
        return 0;
    }
    for (const char *l = strstr(row->equation, "->") + 2; *l; l++)
        out[rank++] = size[*l - 'a'];
    for (size_t l = 0; l < LETTERS; l++)
        pairs *= size[l] ? (double)size[l] : 1;
    uint32_t z = spmd_make(g, rank, out);
    spmd_product(g, pairs);
    spmd_sign_all(g, row->sign[g->compat]);
    return z;
}

uint32_t op_sum(struct spmd_graph *g, const char *name, uint32_t x)
{
    size_t rank = hidup_op_tensor(g, x)->rank;
    spmd_add(g, SPMD_FUNCTION, "sum", name, &x, 1);
    uint32_t y = spmd_make(g, 0, NULL);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, spmd_elements(g, x));
    for (size_t d = 0; d < rank; d++)
        sign(g, "%c>R", hidup_op_dimension(d), 0, 0);
    spmd_sign(g, "R>R");
    return y;
}

uint32_t op_softmax(struct spmd_graph *g, const char *name, uint32_t x, size_t dim, bool log)
{
    struct spmd_tensor in = *hidup_op_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, log ? "log_softmax" : "softmax", name, &x, 1);
    uint32_t y = spmd_make(g, in.rank, in.size);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, (log ? 15 : 5) * spmd_elements(g, y));
    for (size_t d = 0; d < in.rank; d++)
        if (d != dim)
            sign(g, "%c>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    return y;
}

uint32_t op_layer_norm(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b)
{
    struct spmd_tensor in = *hidup_op_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, "layer_norm", name, (uint32_t[]){x, w, b}, 3);
    uint32_t y = spmd_make(g, in.rank, in.size);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, 10 * spmd_elements(g, y));
    for (size_t d = 0; d + 1 < in.rank; d++)
        sign(g, "%cFF>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    return y;
}

uint32_t op_embedding(struct spmd_graph *g, const char *name, uint32_t x, uint32_t table)
{
    struct spmd_tensor out = *hidup_op_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, "embedding", name, (uint32_t[]){x, table}, 2);
    if (g->status != STATUS_OK)
        return 0;
    out.size[out.rank++] = g->tensor[table].size[1];
    uint32_t y = spmd_make(g, out.rank, out.size);
    spmd_work(g, spmd_elements(g, y));
    for (size_t d = 0; d + 1 < out.rank; d++)
        sign(g, "%cF>%c", hidup_op_dimension(d), hidup_op_dimension(d), 0);
    sign(g, "F1>%c", hidup_op_dimension(out.rank - 1), 0, 0);
    return y;
}

uint32_t op_nll_loss(struct spmd_graph *g, const char *name, uint32_t x, uint32_t y)
{
    size_t rank = hidup_op_tensor(g, x)->rank;
    spmd_add(g, SPMD_FUNCTION, "nll_loss", name, (uint32_t[]){x, y}, 2);
    uint32_t z = spmd_make(g, 0, NULL);
    if (g->status != STATUS_OK)
        return 0;
    spmd_work(g, spmd_elements(g, x));
    spmd_sign(g, "00>R");
    for (size_t d = 2; d < rank; d++)
        sign(g, "%c%c>R", hidup_op_dimension(d), hidup_op_dimension(d - 1), 0);
    return z;
}

uint32_t op_conv2d(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b)
{
    spmd_add(g, SPMD_FUNCTION, "conv2d", name, (uint32_t[]){x, w, b}, 3);
    if (g->status != STATUS_OK)
        return 0;
    const int64_t *in = g->tensor[x].size, *kernel = g->tensor[w].size;
    double pairs = spmd_elements(g, x) * (double)kernel[0];
    uint32_t y =
        spmd_make(g, 4, (int64_t[]){in[0], kernel[0], in[2] / kernel[2], in[3] / kernel[3]});
    spmd_product(g, pairs);
    spmd_sign_all(g, "0FF>0 F00>1");
    return y;
}
