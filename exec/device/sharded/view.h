/* view.h - what a rank has of a tensor in a form, and moving slices of it.
 *
 * Arrays are row-major without gaps. A dimension is divided as a ring divides arrays (exec/ring.h):
 * nearly equally, so that it need not be a multiple of the ranks. */
#ifndef EXEC_DEVICE_SHARDED_VIEW_H
#define EXEC_DEVICE_SHARDED_VIEW_H

#include "core/data/operators.h"
#include "exec/device/layer.h"
#include "exec/ring.h"

struct view {
    size_t rank, n; /* n: numbers */
    size_t size[OPERATORS_RANK];
    size_t first[OPERATORS_RANK], whole[OPERATORS_RANK]; /* of a dimension: what comes before the
                                                          * part, and how much there is in all */
};

/* Rank `me` of `ranks` has this of the tensor in the form. */
struct view view_of(const struct operators_tensor *t, uint8_t form, size_t ranks, size_t me);
/* The part of one of `halves` of a batch, which is along dimension `d`, in the whole batch. */
void view_in_batch(struct view *v, size_t d, size_t half, size_t halves);
/* Where number `i` of the view is in the whole tensor. O(rank). */
size_t view_index(const struct view *v, size_t i);
/* Are the shapes the same? */
bool view_alike(const struct view *a, const struct view *b);
/* Product of the sizes of dimensions from .. to - 1. */
size_t view_numbers(const struct view *v, size_t from, size_t to);

#endif
