/* order.h - comparisons for qsort() and bsearch() of whatever begins with what it is sorted by.
 *
 * They look at the first members of a struct alone, so that one comparison serves edges, flows and
 * pairs of devices alike; elements that compare equal are merged by their callers, or are distinct.
 * Doubles alone: by_value() of statistics.h. */
#ifndef CORE_BASE_ORDER_H
#define CORE_BASE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* A uint32_t, ascending. */
int order_by_id(const void *a, const void *b);
/* Two uint32_t one behind the other, (from, to) say: by the first, then by the second. */
int order_by_pair(const void *a, const void *b);
/* Sort by that n elements of `size` bytes, all of whose numbers are below `most`; equal ones keep
 * their order. O(n + most). STATUS_NOMEM, the array untouched. */
enum status order_pairs(void *array, size_t n, size_t size, uint32_t most) MUST_CHECK;
/* A double and a size_t behind it, (value, place) say: by the value, then by the place. */
int order_by_value(const void *a, const void *b);
/* A char *, as strcmp() does. */
int order_by_name(const void *a, const void *b);

#endif
