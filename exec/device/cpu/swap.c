/* Attention where replicas share sequences and change tokens for heads: each has 1/c of the
 * tokens of all heads, and for attention all tokens of 1/c of the heads, as attention.c computes
 * it. All-to-all before and after, forward and backward. Keys and values of fewer heads than
 * replicas go to several of them, whose gradients are added. Jacobs et al., DeepSpeed Ulysses,
 * 2023.
 *
 * What a replica attends to, (B, T, (H' + G') D + G' V), is kept from the forward to the
 * backward. */
#include <string.h>

#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

struct layer swap_inner(const struct layer *l)
{
    struct layer a = *l;
    a.context.replicas = 1;
    a.context.swaps = false;
    a.tokens = l->context.sequence;
    a.heads.n = l->heads.n / l->context.replicas;
    a.heads.kv = l->heads.kv > l->context.replicas ? l->heads.kv / l->context.replicas : 1;
    attention_size(&a);
    return a;
}

/* saved: what is attended to, then what attention saves, of a sample each. work: parts sent and
 * come; the inner output, or its gradient, and the gradient of what is attended to; attention's
 * own. */
enum status swap_size(const struct model_op *op, size_t batch, struct layer *l)
{
    size_t replicas = l->context.replicas;
    bool shared = l->heads.kv < replicas && replicas % l->heads.kv == 0;
    if (l->heads.n % replicas != 0 || (l->heads.kv % replicas != 0 && !shared))
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': %zu heads cannot be divided over %zu replicas", op->name,
                         l->heads.n, replicas);
    if (l->attention.sinks)
        return error_set(
            STATUS_UNSUPPORTED,
            "op '%s': attention sinks are unsupported with --context-exchange alltoall", op->name);
    struct layer a = swap_inner(l);
    size_t in = size_times(batch, a.input), out = size_times(batch, a.output);
    l->saved = size_plus(a.input, a.saved);
    l->work = size_plus(size_plus(size_times(3, in), out), a.work);
    return STATUS_OK;
}

/* First heads that replica k attends with, of queries and of keys and values. */
static size_t first_query(const struct layer *l, size_t k)
{
    return k * (l->heads.n / l->context.replicas);
}
static size_t swap_first_key(const struct layer *l, size_t k)
{
    return first_query(l, k) / (l->heads.n / l->heads.kv);
}

/* The channels of a row (H + G) D + G V that belong to replica k, in the order of its own rows,
 * copied to `to` or, `back`, added to from there where others may have added. */
static void move_row(const struct layer *l, const struct layer *a, size_t k, real *row, real *part,
                     bool back)
{
    size_t d = l->heads.depth, keys = l->heads.n * d, values = keys + l->heads.kv * d;
    const size_t from[] = {first_query(l, k) * d, keys + swap_first_key(l, k) * d,
                           values + swap_first_key(l, k) * l->heads.value},
                 n[] = {a->heads.n * d, a->heads.kv * d, a->heads.kv * l->heads.value};
    for (size_t i = 0; i < 3; part += n[i++])
        if (back)
            vector_add(row + from[i], part, n[i]);
        else
            memcpy(part, row + from[i], n[i] * sizeof *part);
}

/* Parts of `width` numbers per own token for all replicas, and from them: [2][c][B * L][width]. */
static real *swap_part(const struct layer *l, const struct layer_io *io, bool come, size_t k,
                       size_t width)
{
    return io->work + ((come ? l->context.replicas : 0) + k) * io->batch * l->tokens * width;
}

static void swap_heads(const struct layer *l, struct layer_io *io, size_t width)
{
    size_t n = io->batch * l->tokens * width;
    memcpy(swap_part(l, io, true, l->context.position, width),
           swap_part(l, io, false, l->context.position, width), n * sizeof(real));
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, OP_ALLTOALL, io->work,
                            2 * l->context.replicas * n);
}

/* Rows of all tokens [B][T], `stride` apart per sample, from the parts that have come, or `out`,
 * to the parts to send: those of the tokens that each replica has. */
static void swap_move_all(const struct layer *l, const struct layer_io *io, real *all,
                          size_t stride, size_t width, bool out)
{
    for (size_t k = 0; k < l->context.replicas; k++) {
        real *part = swap_part(l, io, !out, k, width);
        for (size_t row = 0; row < io->batch * l->tokens; row++, part += width) {
            size_t b = row / l->tokens, at = layer_place(l, k, row % l->tokens);
            real *here = all + b * stride + at * width;
            memcpy(out ? part : here, out ? here : part, width * sizeof *part);
        }
    }
}

/* Own tokens of the heads [k of c], `width` channels each, from or to rows of all heads. */
static void move_heads(const struct layer *l, const struct layer_io *io, real *all, size_t width,
                       bool out)
{
    for (size_t k = 0; k < l->context.replicas; k++)
        for (size_t row = 0; row < io->batch * l->tokens; row++) {
            real *part = swap_part(l, io, !out, k, width) + row * width;
            real *here = all + row * l->out + k * width;
            memcpy(out ? part : here, out ? here : part, width * sizeof *part);
        }
}

/* The call of the inner layer on sample b, and where its arrays are. */
static struct layer_io inner_io(const struct layer *l, const struct layer *a,
                                const struct layer_io *io, size_t b)
{
    size_t parts = 2 * io->batch * a->input;
    real *saved = io->saved + b * l->saved, *out = io->work + parts;
    return (struct layer_io){.batch = 1,
                             .x = {saved},
                             .saved = saved + a->input,
                             .y = out + b * a->output,
                             .dy = out + b * a->output,
                             .dx = {out + io->batch * a->output + b * a->input},
                             .work = out + io->batch * (a->output + a->input)};
}

void swap_forward(const struct layer *l, struct layer_io *io)
{
    struct layer a = swap_inner(l);
    real *y = io->work + 2 * io->batch * a.input;
    for (size_t k = 0; k < l->context.replicas; k++)
        for (size_t row = 0; row < io->batch * l->tokens; row++) {
            move_row(l, &a, k, (real *)(uintptr_t)(io->x[0] + row * l->in),
                     swap_part(l, io, false, k, a.in) + row * a.in, false);
        }
    swap_heads(l, io, a.in);
    swap_move_all(l, io, io->saved, l->saved, a.in, false);
    for (size_t b = 0; b < io->batch; b++) {
        struct layer_io inner = inner_io(l, &a, io, b);
        kind_attention.forward(&a, &inner);
    }
    swap_move_all(l, io, y, a.output, a.out, true);
    swap_heads(l, io, a.out);
    move_heads(l, io, io->y, a.out, false);
}

void swap_backward(const struct layer *l, struct layer_io *io)
{
    struct layer a = swap_inner(l);
    real *dy = io->work + 2 * io->batch * a.input, *dx = dy + io->batch * a.output;
    size_t rows = io->batch * l->tokens;
    move_heads(l, io, (real *)(uintptr_t)io->dy, a.out, true);
    swap_heads(l, io, a.out);
    swap_move_all(l, io, dy, a.output, a.out, false);
    for (size_t b = 0; b < io->batch; b++) {
        struct layer_io inner = inner_io(l, &a, io, b);
        kind_attention.backward(&a, &inner);
    }
    swap_move_all(l, io, dx, a.input, a.in, true);
    swap_heads(l, io, a.in);
    memset(io->dx[0], 0, rows * l->in * sizeof(real));
    for (size_t k = 0; k < l->context.replicas; k++)
        for (size_t row = 0; row < rows; row++)
            move_row(l, &a, k, io->dx[0] + row * l->in,
                     swap_part(l, io, true, k, a.in) + row * a.in, true);
}
