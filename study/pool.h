/* pool.h - forked workers that take one item after another, and a parent that hears of each.
 *
 * A worker that dies costs one item, every item is answered once, Ctrl-C reaches only the parent,
 * and no worker outlives it. */
#ifndef STUDY_POOL_H
#define STUDY_POOL_H

#include <stddef.h>

#include "core/base/error.h"

struct pool_job {
    size_t workers; /* at most; 0: one for each core */
    size_t size; /* of what comes back for an item, bytes, at most POOL_SLOT; no pointers in it */
    /* In a worker: fill `slot`, which is zero at first. */
    void (*work)(void *context, size_t item, void *slot);
    /* In the parent, in the order in which items end. slot NULL: the worker died, and
     * error_message() says how. An error ends it all. */
    enum status (*done)(void *context, size_t item, const void *slot);
    /* In the parent now and then, at least every 0.2 s while there is work; may be NULL. */
    void (*tick)(void *context);
    const volatile int *stop; /* non-zero: what is being worked on is given up; may be NULL */
    void *context;
};

enum { POOL_SLOT = 8192 };

/* Do items item[0 .. n - 1], handed out in this order. A worker that dies is replaced. Workers are
 * their own process groups, so that Ctrl-C reaches only the parent, and end with it.
 * STATUS_IO when processes cannot be made, STATUS_NOMEM, or what done() said. */
enum status pool_run(const struct pool_job *job, const size_t *item, size_t n) MUST_CHECK;

/* The same work for n items: work(context, i, slot of i) for i = 0 .. n - 1.
 *
 *   workers  at most; 0: one for each core
 *   size   of a slot, bytes, at most POOL_SLOT less a message
 *   slots  [n] slots, zero at first; each comes back as the work left it. Pointers in it are lost,
 *          as the memory that they point to is the worker's.
 *
 * When only one process would be used it is this one. The first error by index is returned, with
 * its message; STATUS_EXTERNAL when a process dies, STATUS_NOMEM, STATUS_IO. */
enum status pool_for(size_t workers, size_t n, size_t size, void *slots,
                     enum status (*work)(void *context, size_t i, void *slot),
                     void *context) MUST_CHECK;

/* The same, in workers even if it is one, with a tick in the parent as above. POOL_PATIENCE_S after
 * *stop is set, what is not done is given up: its slot stays zero, STATUS_OK. */
enum { POOL_PATIENCE_S = 1 };
struct pool_items {
    size_t workers, n, size;
    void *slots;
    enum status (*work)(void *context, size_t i, void *slot);
    void *context;
    void (*tick)(void *context); /* NULL: none */
    const volatile int *stop;    /* NULL: never */
};
enum status pool_for_watched(const struct pool_items *items) MUST_CHECK;

#endif
