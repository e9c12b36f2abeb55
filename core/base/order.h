/* order.h - comparisons for qsort() and bsearch() of whatever begins with what it is sorted by.
 *
 * They look at the first members of a struct alone, so that one comparison serves edges, flows and
 * pairs of devices alike; elements that compare equal are merged by their callers, or are distinct.
 * Doubles: by_value() of statistics.h. */
#ifndef CORE_BASE_ORDER_H
#define CORE_BASE_ORDER_H

/* A uint32_t, ascending. */
int order_by_id(const void *a, const void *b);
/* Two uint32_t one behind the other, (from, to) say: by the first, then by the second. */
int order_by_pair(const void *a, const void *b);
/* A char *, as strcmp() does. */
int order_by_name(const void *a, const void *b);

#endif
