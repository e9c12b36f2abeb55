/* Tensors change their form: what a collective carries, and what a rank does alone.
 *
 *   forward         carried                              backward
 *   all-gather      own slice to all                     reduce-scatter
 *   reduce-scatter  a slice of everybody's summand       all-gather
 *   all-reduce      the summands                         all-reduce
 *   all-to-all      my slice's part of every new slice   all-to-all, the other way
 *   slice           nothing                              nothing: the gradient of what is full is a
 *                   sum
 *   replicate       nothing                              all-reduce
 *
 * Which chunk of what is gathered or scattered is member m's, the transport says (exec/device.h:
 * part); all chunks are as long as the longest. */
#include "exec/device/sharded/sharded.h"

/* A conversion in one direction: from an array in one form to one in another. */
struct conversion_move {
    enum form_step step;
    const struct view *from, *to;
    size_t from_d, to_d; /* their gathered dimensions, where they are */
    const struct view *whole;
    real *source, *target, *wire;
    size_t wire_n, chunk;
    bool adds; /* a gradient goes to others that are there */
};

static size_t most(size_t n, size_t ranks)
{
    return (n + ranks - 1) / ranks;
}

/* Numbers of the longest slice along the gathered dimensions of both forms. */
static size_t conversion_chunk(const struct sharded *s, uint32_t tensor)
{
    const struct operators_tensor *t = &s->all->tensor[tensor];
    size_t n = 1;
    for (size_t d = 0; d < t->rank; d++) {
        bool divided = t->form == FORM_GATHER + d || t->to == FORM_GATHER + d;
        n *= divided ? most((size_t)t->size[d], s->ranks) : (size_t)t->size[d];
    }
    return n;
}

enum form_step sharded_step(const struct sharded *s, uint32_t tensor, bool backward)
{
    const struct operators_tensor *t = &s->all->tensor[tensor];
    struct form_conversion c;
    if (s->ranks == 1 || t->to == FORM_NONE || !form_convert(t->form, t->to, &c))
        return STEP_NONE;
    return backward ? form_conjugate(c.step[0]) : c.step[0];
}

static bool is_collective(enum form_step step)
{
    return step != STEP_NONE && step != STEP_SLICE && step != STEP_REPLICATE;
}

size_t sharded_wire(const struct sharded *s, uint32_t tensor)
{
    size_t n = 0;
    for (int k = 0; k < 2; k++) {
        enum form_step step = sharded_step(s, tensor, k > 0);
        size_t all = s->ranks * conversion_chunk(s, tensor);
        if (step == STEP_ALLTOALL)
            all *= 2;
        if (step == STEP_ALLREDUCE)
            all = view_of(&s->all->tensor[tensor], FORM_FULL, s->ranks, s->me).n;
        n = is_collective(step) && all > n ? all : n;
    }
    return n;
}

static size_t dimension(uint8_t form)
{
    return form_is_gather(form) ? (size_t)(form - FORM_GATHER) : OPERATORS_RANK;
}

static struct conversion_move move_of(struct sharded *s, uint32_t tensor, size_t half,
                                      bool backward)
{
    const struct operators_tensor *t = &s->all->tensor[tensor];
    struct tensor_half *slot = &s->slot[half][tensor];
    struct operand *from = backward ? &slot->to : &slot->own,
                   *to = backward ? &slot->own : &slot->to;
    return (struct conversion_move){.step = sharded_step(s, tensor, backward),
                                    .from = &from->view,
                                    .to = &to->view,
                                    .from_d = dimension(backward ? t->to : t->form),
                                    .to_d = dimension(backward ? t->form : t->to),
                                    .source = backward ? from->gradient : from->value,
                                    .target = backward ? to->gradient : to->value,
                                    .wire = slot->wire,
                                    .chunk = conversion_chunk(s, tensor),
                                    .adds = backward};
}

/* The part of dimension d of what is whole that member m has. */
static struct ring_part conversion_part(const struct sharded *s, const struct view *v, size_t d,
                                        size_t m)
{
    return ring_part(v->whole[d], s->ranks, m);
}

/* Member m's chunk of what is gathered or scattered. */
static real *chunk_at(const struct sharded *s, const struct conversion_move *c, size_t m)
{
    return c->wire + s->part(s->ranks * c->chunk, s->ranks, m).first;
}

/* ---- moving slices: from one array to another, added to what is there or not */

static void conversion_move_strides(const struct sharded *s, const struct stride_spread *how,
                                    bool adds, const real *from, real *to)
{
    s->on->does->spread(s->on->memory.self, how, 1, adds, from, to);
}

static void conversion_move_all(const struct sharded *s, size_t n, bool adds, const real *from,
                                real *to)
{
    const struct stride_spread how = spread_rows(1, n, 0, 0);
    conversion_move_strides(s, &how, adds, from, to);
}

/* Numbers part.first .. along dimension d of an array of the view's shape: out of it, */
static void conversion_get_slice(const struct sharded *s, const struct view *v, size_t d,
                                 struct ring_part part, const real *from, real *to)
{
    size_t inner = view_numbers(v, d + 1, v->rank);
    const struct stride_spread how =
        spread_rows(view_numbers(v, 0, d), part.n * inner, v->size[d] * inner, part.n * inner);
    conversion_move_strides(s, &how, false, from + part.first * inner, to);
}

/* and into it. */
static void conversion_put_slice(const struct sharded *s, const struct view *v, size_t d,
                                 struct ring_part part, const real *from, bool adds, real *to)
{
    size_t inner = view_numbers(v, d + 1, v->rank);
    const struct stride_spread how =
        spread_rows(view_numbers(v, 0, d), part.n * inner, part.n * inner, v->size[d] * inner);
    conversion_move_strides(s, &how, adds, from, to + part.first * inner);
}

void sharded_pack(struct sharded *s, uint32_t tensor, size_t half, bool backward, real **data,
                  size_t *n)
{
    struct conversion_move c = move_of(s, tensor, half, backward);
    *data = c.wire;
    *n = s->ranks * c.chunk;
    switch (c.step) {
    case STEP_ALLGATHER:
        conversion_move_all(s, c.from->n, false, c.source, chunk_at(s, &c, s->me));
        break;
    case STEP_REDUCESCATTER:
        for (size_t m = 0; m < s->ranks; m++)
            conversion_get_slice(s, c.from, c.to_d, conversion_part(s, c.from, c.to_d, m), c.source,
                                 chunk_at(s, &c, m));
        break;
    case STEP_ALLTOALL:
        *n *= 2;
        for (size_t m = 0; m < s->ranks; m++)
            conversion_get_slice(s, c.from, c.to_d, conversion_part(s, c.from, c.to_d, m), c.source,
                                 c.wire + m * c.chunk);
        break;
    default: /* of a slice of a parameter: the rest of the gradient is 0 */
        *n = view_of(&s->all->tensor[tensor], FORM_FULL, s->ranks, s->me).n;
        if (c.from->n == *n) {
            conversion_move_all(s, *n, false, c.source, c.wire);
            break;
        }
        s->on->memory.backend->zero(s->on->memory.self, c.wire, *n * sizeof *c.wire);
        conversion_put_slice(s, c.to, c.from_d, conversion_part(s, c.from, c.from_d, s->me),
                             c.source, false, c.wire);
    }
}

void sharded_unpack(struct sharded *s, uint32_t tensor, size_t half, bool backward)
{
    struct conversion_move c = move_of(s, tensor, half, backward);
    switch (c.step) {
    case STEP_ALLGATHER:
        for (size_t m = 0; m < s->ranks; m++)
            conversion_put_slice(s, c.to, c.from_d, conversion_part(s, c.to, c.from_d, m),
                                 chunk_at(s, &c, m), c.adds, c.target);
        break;
    case STEP_REDUCESCATTER:
        conversion_move_all(s, c.to->n, c.adds, chunk_at(s, &c, s->me), c.target);
        break;
    case STEP_ALLTOALL:
        for (size_t m = 0; m < s->ranks; m++)
            conversion_put_slice(s, c.to, c.from_d, conversion_part(s, c.to, c.from_d, m),
                                 c.wire + (m == s->me ? m : s->ranks + m) * c.chunk, c.adds,
                                 c.target);
        break;
    default:
        conversion_move_all(s, c.to->n, c.adds, c.wire, c.target);
    }
}

/* Full or replicated to a slice and back, or one rank, on which all forms are the same. */
void sharded_convert(struct sharded *s, uint32_t tensor, size_t half, bool backward)
{
    struct conversion_move c = move_of(s, tensor, half, backward);
    if (is_collective(c.step) || c.source == c.target)
        return;
    if (c.from->n == c.to->n) {
        conversion_move_all(s, c.to->n, c.adds, c.source, c.target);
    } else if (!backward) {
        conversion_get_slice(s, c.from, c.to_d, conversion_part(s, c.from, c.to_d, s->me), c.source,
                             c.target);
    } else {
        conversion_put_slice(s, c.to, c.from_d, conversion_part(s, c.to, c.from_d, s->me), c.source,
                             true, c.target);
    }
}
