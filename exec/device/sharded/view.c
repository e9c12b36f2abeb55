/* Shapes of shards, and slices of arrays. */
#include "exec/device/sharded/view.h"

#include <string.h>

#include "core/data/form.h"

struct view view_of(const struct operators_tensor *t, uint8_t form, size_t ranks, size_t me)
{
    struct view v = {.rank = t->rank, .n = 1};
    for (size_t d = 0; d < t->rank; d++) {
        struct ring_part part = {0, (size_t)t->size[d]};
        if (form == FORM_GATHER + d)
            part = ring_part(part.n, ranks, me);
        v.whole[d] = (size_t)t->size[d];
        v.first[d] = part.first;
        v.size[d] = part.n;
        v.n *= part.n;
    }
    return v;
}

void view_in_batch(struct view *v, size_t d, size_t half, size_t halves)
{
    v->first[d] += half * v->whole[d];
    v->whole[d] *= halves;
}

size_t view_index(const struct view *v, size_t i)
{
    size_t index = 0, stride = 1;
    for (size_t d = v->rank; d-- > 0;) {
        index += (v->first[d] + i % v->size[d]) * stride;
        i /= v->size[d];
        stride *= v->whole[d];
    }
    return index;
}

bool view_alike(const struct view *a, const struct view *b)
{
    return a->rank == b->rank && memcmp(a->size, b->size, sizeof a->size) == 0;
}

size_t view_numbers(const struct view *v, size_t from, size_t to)
{
    size_t n = 1;
    for (size_t d = from; d < to; d++)
        n *= v->size[d];
    return n;
}
