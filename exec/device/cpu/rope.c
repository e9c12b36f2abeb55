/* Rotary positions: of every head of queries and keys, channels i and i + D/2 are the two
 * coordinates of a point that is turned by t base^(-2 i / D) at token t; values pass. Su et al.,
 * RoFormer, 2021, arXiv:2104.09864, with the pairs of channels as GPT-NeoX and Llama have them. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, (H + 2 G) D) as attention reads it; work (T, D/2, 2): cosine and sine. */
static void set_sizes(struct layer *l)
{
    l->in = l->out = (l->heads + 2 * l->kv_heads) * l->depth;
    l->input = l->output = size_times(l->tokens, l->in);
    l->work = size_times(l->tokens, l->depth);
}

static enum status shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads));
    PASS(layer_attribute(op, "kv_heads", -1, 1, &l->kv_heads));
    PASS(layer_attribute(op, "head", -1, 2, &l->depth));
    PASS(layer_attribute(op, "base", 10000, 2, &l->normal));
    if (l->depth % 2 != 0)
        return error_set(STATUS_UNSUPPORTED, "op '%s': heads of %zu channels cannot be rotated",
                         op->name, l->depth);
    set_sizes(l);
    return STATUS_OK;
}

/* Cosine and sine of every token of the sequence and pair of channels, each turned on from the token
 * before: the error grows by one rounding of a double per token. */
static void find_angles(const struct layer *l, real *table)
{
    size_t pairs = l->depth / 2, tokens = l->context > 1 ? l->sequence : l->tokens;
    for (size_t i = 0; i < pairs; i++) {
        double angle = pow((double)l->normal, -2.0 * (double)i / (double)l->depth);
        double step_cos = cos(angle), step_sin = sin(angle), c = 1, s = 0;
        for (size_t t = 0; t < tokens; t++) {
            table[2 * (t * pairs + i)] = (real)c;
            table[2 * (t * pairs + i) + 1] = (real)s;
            double next = c * step_cos - s * step_sin;
            s = s * step_cos + c * step_sin;
            c = next;
        }
    }
}

/* y = x turned forward (sign 1) or back (sign -1). */
static void turn(const struct layer *l, const struct layer_io *io, const real *x, real *y,
                 real sign)
{
    size_t pairs = l->depth / 2, turned = (l->heads + l->kv_heads) * l->depth;
    find_angles(l, io->work);
    for (size_t row = 0; row < io->batch * l->tokens; row++, x += l->in, y += l->in) {
        const real *table = io->work + 2 * pairs * layer_position(l, row % l->tokens);
        for (size_t at = 0; at < turned; at += l->depth)
            for (size_t i = 0; i < pairs; i++) {
                real c = table[2 * i], s = sign * table[2 * i + 1];
                real a = x[at + i], b = x[at + pairs + i];
                y[at + i] = a * c - b * s;
                y[at + pairs + i] = b * c + a * s;
            }
        memcpy(y + turned, x + turned, (l->in - turned) * sizeof *y);
    }
}

static void forward(const struct layer *l, struct layer_io *io)
{
    turn(l, io, io->x[0], io->y, 1);
}

/* A rotation's transpose is its inverse. */
static void backward(const struct layer *l, struct layer_io *io)
{
    turn(l, io, io->dy, io->dx[0], -1);
}

/* By heads, as attention. */
static enum status divide(const struct model_op *op, const struct layer_shard *s, size_t batch,
                          struct layer *l)
{
    (void)batch;
    PASS(layer_divide_heads(op, s, l));
    set_sizes(l);
    return STATUS_OK;
}

const struct layer_kind kind_rope = {.name = "rope",
                                     .inputs = 1,
                                     .shape = shape,
                                     .forward = forward,
                                     .backward = backward,
                                     .divide = divide,
                                     .forgets = true};
