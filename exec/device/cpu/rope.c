/* Rotary positions: of every head of queries and keys, channels i and i + D/2 are the two
 * coordinates of a point that is turned by t base^(-2 i / D) at token t; values pass. Su et al.,
 * RoFormer, 2021, arXiv:2104.09864, with the pairs of channels as GPT-NeoX and Llama have them.
 *
 * Of latent attention (DeepSeek-V2, 2024, arXiv:2405.04434, section 2.1.3) only the last channels
 * of a head are turned (`turned`), and those of keys are one for all heads: rows of queries, H (N +
 * R) channels, and of keys and values, H (N + V) and then R, become one of queries, keys and values
 * as attention reads it, in which every head has its own copy. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* Channels that are turned, of each head. */
static size_t turned_of(const struct layer *l)
{
    return l->heads.turned > 0 ? l->heads.turned : l->heads.depth;
}

/* Channels of what latents make of keys and values, with what heads share. */
static size_t latent_of(const struct layer *l)
{
    return l->heads.n * (l->heads.depth - l->heads.turned + l->heads.value) + l->heads.turned;
}

/* x, y (B, T, (H + 2 G) D) as attention reads it, or (H (N + R)), (H (N + V) + R) and y; work
 * (T, D/2, 2): cosine and sine. */
static void rope_set_sizes(struct layer *l)
{
    l->in = l->out = (l->heads.n + l->heads.kv) * l->heads.depth + l->heads.kv * l->heads.value;
    if (l->heads.turned > 0) {
        l->in = l->heads.n * l->heads.depth;
        l->second = size_times(l->tokens, latent_of(l));
    }
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->work = size_times(l->tokens, turned_of(l));
}

static enum status rope_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads.n));
    PASS(layer_attribute(op, "kv_heads", -1, 1, &l->heads.kv));
    PASS(layer_attribute(op, "head", -1, 2, &l->heads.depth));
    PASS(layer_attribute(op, "base", 10000, 2, &l->normal));
    PASS(layer_attribute(op, "turned", 0, 1, &l->heads.turned));
    PASS(layer_attribute(op, "value", (int64_t)l->heads.depth, 1, &l->heads.value));
    if (turned_of(l) % 2 != 0)
        return error_set(
            STATUS_UNSUPPORTED,
            "op '%s': rotary embedding rotates %zu channels of each head, expected an even number",
            op->name, turned_of(l));
    if (l->heads.turned > l->heads.depth || (l->heads.turned > 0 && l->heads.kv != l->heads.n) ||
        (l->heads.turned == 0 && l->heads.value != l->heads.depth))
        return error_set(STATUS_INVALID,
                         "op '%s': rotary embedding cannot rotate %zu of %zu channels in %zu heads",
                         op->name, l->heads.turned, l->heads.depth, l->heads.kv);
    l->inputs = l->heads.turned > 0 ? 2 : 1;
    rope_set_sizes(l);
    return STATUS_OK;
}

/* Cosine and sine of every token of the sequence and pair of channels, each turned on from the
 * token before: the error grows by one rounding of a double per token. */
static void find_angles(const struct layer *l, real *table)
{
    size_t pairs = turned_of(l) / 2,
           tokens = l->context.replicas > 1 ? l->context.sequence : l->tokens;
    for (size_t i = 0; i < pairs; i++) {
        double angle = pow((double)l->normal, -2.0 * (double)i / (double)turned_of(l));
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

/* y [2 pairs] = x turned by the angles of a token, forward (sign 1) or back (sign -1); y may be
 * x. */
static void turn_head(const real *table, size_t pairs, real sign, const real *x, real *y)
{
    for (size_t i = 0; i < pairs; i++) {
        real c = table[2 * i], s = sign * table[2 * i + 1], a = x[i], b = x[pairs + i];
        y[i] = a * c - b * s;
        y[pairs + i] = b * c + a * s;
    }
}

/* y = x turned forward (sign 1) or back (sign -1). */
static void rope_turn_row(const struct layer *l, const struct layer_io *io, const real *x, real *y,
                          real sign)
{
    size_t pairs = l->heads.depth / 2, turned = (l->heads.n + l->heads.kv) * l->heads.depth;
    find_angles(l, io->work);
    for (size_t row = 0; row < io->batch * l->tokens; row++, x += l->in, y += l->in) {
        const real *table = io->work + 2 * pairs * layer_position(l, row % l->tokens);
        for (size_t at = 0; at < turned; at += l->heads.depth)
            turn_head(table, pairs, sign, x + at, y + at);
        memcpy(y + turned, x + turned, (l->in - turned) * sizeof *y);
    }
}

/* ---- latents */

/* A row: queries, and keys and values of latents; or their gradients; and y or dy. */
struct latent_row {
    const struct layer *layer;
    const real *table; /* angles of its token */
    size_t plain;      /* channels of a head that are not turned */
};

/* Queries' rows behind those of earlier heads, keys' behind all queries, values' behind all
 * keys. */
static void latent_forward(const struct latent_row *r, const real *q, const real *kv, real *y)
{
    const struct layer *l = r->layer;
    size_t pairs = l->heads.turned / 2, wide = r->plain + l->heads.value, d = l->heads.depth;
    real *k = y + l->heads.n * d, *v = k + l->heads.n * d, *first = k + r->plain;
    turn_head(r->table, pairs, 1, kv + l->heads.n * wide, first);
    for (size_t h = 0; h < l->heads.n; h++, q += d, y += d, k += d, kv += wide) {
        memcpy(y, q, r->plain * sizeof *y);
        turn_head(r->table, pairs, 1, q + r->plain, y + r->plain);
        memcpy(k, kv, r->plain * sizeof *k);
        if (h > 0)
            memcpy(k + r->plain, first, l->heads.turned * sizeof *k);
        memcpy(v + h * l->heads.value, kv + r->plain, l->heads.value * sizeof *v);
    }
}

/* What heads share has the sum of their gradients. */
static void rope_latent_backward(const struct latent_row *r, const real *dy, real *dq, real *dkv)
{
    const struct layer *l = r->layer;
    size_t pairs = l->heads.turned / 2, wide = r->plain + l->heads.value, d = l->heads.depth;
    const real *dk = dy + l->heads.n * d, *dv = dk + l->heads.n * d;
    real *shared = dkv + l->heads.n * wide;
    memset(shared, 0, l->heads.turned * sizeof *shared);
    for (size_t h = 0; h < l->heads.n; h++, dq += d, dy += d, dk += d, dkv += wide) {
        memcpy(dq, dy, r->plain * sizeof *dq);
        turn_head(r->table, pairs, -1, dy + r->plain, dq + r->plain);
        memcpy(dkv, dk, r->plain * sizeof *dkv);
        vector_add(shared, dk + r->plain, l->heads.turned);
        memcpy(dkv + r->plain, dv + h * l->heads.value, l->heads.value * sizeof *dkv);
    }
    turn_head(r->table, pairs, -1, shared, shared);
}

static void turn_latent(const struct layer *l, struct layer_io *io, bool back)
{
    struct latent_row r = {.layer = l, .plain = l->heads.depth - l->heads.turned};
    size_t latent = latent_of(l);
    find_angles(l, io->work);
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        r.table = io->work + l->heads.turned * layer_position(l, row % l->tokens);
        if (back)
            rope_latent_backward(&r, io->dy + row * l->out, io->dx[0] + row * l->in,
                                 io->dx[1] + row * latent);
        else
            latent_forward(&r, io->x[0] + row * l->in, io->x[1] + row * latent,
                           io->y + row * l->out);
    }
}

static void rope_forward(const struct layer *l, struct layer_io *io)
{
    if (l->heads.turned > 0)
        turn_latent(l, io, false);
    else
        rope_turn_row(l, io, io->x[0], io->y, 1);
}

/* A rotation's transpose is its inverse. */
static void rope_backward(const struct layer *l, struct layer_io *io)
{
    if (l->heads.turned > 0)
        turn_latent(l, io, true);
    else
        rope_turn_row(l, io, io->dy, io->dx[0], -1);
}

/* By heads, as attention. */
static enum status rope_divide(const struct model_op *op, const struct layer_shard *s, size_t batch,
                               struct layer *l)
{
    (void)batch;
    PASS(layer_divide_heads(op, s, l));
    rope_set_sizes(l);
    return STATUS_OK;
}

const struct layer_kind kind_rope = {.type = OPERATOR_rope,
                                     .inputs = 1,
                                     .shape = rope_shape,
                                     .forward = rope_forward,
                                     .backward = rope_backward,
                                     .divide = rope_divide,
                                     .forgets = true};
