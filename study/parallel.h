/* parallel.h - the same work for many items, in forked processes on all cores. */
#ifndef STUDY_PARALLEL_H
#define STUDY_PARALLEL_H

#include <stddef.h>

#include "core/error.h"

/* Call work(context, i, slot of i) for i = 0 .. n - 1, each in one of at most as many processes as
 * there are cores; slots [n] of `size` bytes are zero at first and come back as the work left them.
 * The work must leave no pointers in its slot: its memory is gone afterwards. When only one process
 * would be used it is this one. The first error by index is returned, with its message;
 * STATUS_EXTERNAL when a process dies, STATUS_NOMEM, STATUS_IO. */
enum status parallel_for(size_t n, size_t size, void *slots,
                         enum status (*work)(void *context, size_t i, void *slot),
                         void *context) MUST_CHECK;

#endif
