/* Operators that only move numbers: parts, items, views, transposes, class tokens. They take no
 * time in the published model. */

#include "papers/hidup/ops.h"

/* The tensor x gathered along d becomes (or stays) one gathered along e; `parts` times. */
static void sign_moved(struct spmd_graph *g, uint8_t from, uint8_t to, size_t parts)
{
    char text[SPMD_LETTERS];
    text[0] = form_letter(from);
    text[1] = '>';
    for (size_t i = 0; i < parts; i++)
        text[2 + i] = form_letter(to);
    text[2 + parts] = '\0';
    spmd_sign(g, text);
}

static struct spmd_tensor shape_ops_tensor(const struct spmd_graph *g, uint32_t t)
{
    return g->status == STATUS_OK ? g->tensor[t] : (struct spmd_tensor){.rank = 0};
}

static uint8_t shape_ops_gathered(size_t d)
{
    return (uint8_t)(FORM_GATHER + d);
}

uint32_t op_chunk(struct spmd_graph *g, const char *name, uint32_t x, size_t parts, size_t dim)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    uint32_t first = 0;
    if (g->status == STATUS_OK && (parts == 0 || parts > SPMD_MAKES || dim >= t.rank))
        g->status = error_set(STATUS_INVALID,
                              "chunk node '%s': expected 1 to %d parts of an existing dimension",
                              name, SPMD_MAKES);
    if (g->status != STATUS_OK)
        return 0;
    t.size[dim] /= (int64_t)parts;
    spmd_add(g, SPMD_FUNCTION, "chunk", name, &x, 1);
    for (size_t i = 0; i < parts; i++) {
        uint32_t made = spmd_make(g, t.rank, t.size);
        first = i == 0 ? made : first;
    }
    for (size_t d = 0; d < t.rank; d++)
        if (d != dim)
            sign_moved(g, shape_ops_gathered(d), shape_ops_gathered(d), parts);
    sign_moved(g, FORM_REDUCE, FORM_REDUCE, parts);
    return first;
}

uint32_t op_item(struct spmd_graph *g, const char *name, uint32_t x)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    spmd_add(g, SPMD_ADAPTIVE, "item", name, &x, 1);
    uint32_t y = spmd_make(g, t.rank, t.size);
    spmd_sign_all(g, "F>F R>R");
    for (size_t d = 0; d < t.rank; d++)
        sign_moved(g, shape_ops_gathered(d), shape_ops_gathered(d), 1);
    return y;
}

/* Besides summands, which is all that the published code knows: dimensions with the same size and
 * as many numbers before them in both shapes stay what they are. */
uint32_t op_view(struct spmd_graph *g, const char *name, uint32_t x, size_t rank,
                 const int64_t *size)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, "view", name, &x, 1);
    uint32_t y = spmd_make(g, rank, size);
    spmd_sign(g, "R>R");
    if (g->status != STATUS_OK)
        return 0;
    double before = 1;
    for (size_t d = 0; d < t.rank && !g->compat; d++) {
        double other = 1;
        for (size_t e = 0; e < rank; e++) {
            if (other == before && size[e] == t.size[d] && size[e] > 1)
                sign_moved(g, shape_ops_gathered(d), shape_ops_gathered(e), 1);
            other *= (double)size[e];
        }
        before *= (double)t.size[d];
    }
    return y;
}

uint32_t op_transpose(struct spmd_graph *g, const char *name, uint32_t x, size_t a, size_t b)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    if (g->status == STATUS_OK && (a >= t.rank || b >= t.rank))
        g->status = error_set(
            STATUS_INVALID, "transpose node '%s': the tensor does not have these dimensions", name);
    if (g->status != STATUS_OK)
        return 0;
    int64_t size = t.size[a];
    t.size[a] = t.size[b];
    t.size[b] = size;
    spmd_add(g, SPMD_FUNCTION, "transpose", name, &x, 1);
    uint32_t y = spmd_make(g, t.rank, t.size);
    spmd_argue(g, (int64_t)a);
    spmd_argue(g, (int64_t)b);
    for (size_t d = 0; d < t.rank; d++)
        sign_moved(g, shape_ops_gathered(d), shape_ops_gathered(d == a ? b : d == b ? a : d), 1);
    sign_moved(g, FORM_REDUCE, FORM_REDUCE, 1);
    return y;
}

uint32_t op_flatten(struct spmd_graph *g, const char *name, uint32_t x, size_t start)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    if (g->status == STATUS_OK && start >= t.rank)
        g->status =
            error_set(STATUS_INVALID,
                      "flatten node '%s': the tensor does not have the start dimension", name);
    if (g->status != STATUS_OK)
        return 0;
    for (size_t d = start + 1; d < t.rank; d++)
        t.size[start] *= t.size[d];
    spmd_add(g, SPMD_FUNCTION, "flatten", name, &x, 1);
    uint32_t y = spmd_make(g, start + 1, t.size);
    for (size_t d = 0; d < start; d++)
        sign_moved(g, shape_ops_gathered(d), shape_ops_gathered(d), 1);
    return y;
}

uint32_t op_append_class(struct spmd_graph *g, const char *name, uint32_t x, uint32_t row)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, "append_cls", name, (uint32_t[]){x, row}, 2);
    t.size[1]++;
    uint32_t y = spmd_make(g, t.rank, t.size);
    spmd_sign_all(g, "0F>0 22>2");
    return y;
}

uint32_t op_get_class(struct spmd_graph *g, const char *name, uint32_t x)
{
    struct spmd_tensor t = shape_ops_tensor(g, x);
    spmd_add(g, SPMD_FUNCTION, "get_cls", name, &x, 1);
    uint32_t y = spmd_make(g, 2, (int64_t[]){t.size[0], t.size[2]});
    spmd_sign_all(g, "0>0 2>1");
    return y;
}
