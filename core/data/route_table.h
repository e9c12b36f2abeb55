/* route_table.h - a route for every pair of devices, where no rule finds them: those that SimGrid
 * gave. Routes that end alike share their ends: a route is a list of steps, equal lists are one. */
#ifndef CORE_DATA_ROUTE_TABLE_H
#define CORE_DATA_ROUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/intern.h"

enum { ROUTE_TABLE_DEVICES = 2048 }; /* more have no table: it takes n^2 places */

struct route_step {
    uint32_t link;
    uint32_t then; /* the step after it + 1, 0: arrived; always less than this step's own */
};

struct route_table {
    size_t steps;
    struct route_step *step; /* [steps] */
    uint32_t *head;          /* [n * n] first step + 1 of the route from i to j; 0: none */
    struct interner made;    /* its steps while it is built; empty when finished */
};

/* No routes yet. STATUS_NOMEM. */
enum status route_table_begin(size_t n, struct route_table *out) MUST_CHECK;
/* Store the route of pair `at` = i * n + j: link [links], in the order of the way. STATUS_NOMEM. */
enum status route_table_add(struct route_table *t, size_t at, size_t links,
                            const uint32_t *link) MUST_CHECK;
void route_table_finish(struct route_table *t);

/* Whether all numbers are inside their arrays: for tables that come from outside. */
bool route_table_is_sound(const struct route_table *t, size_t n, size_t links);
void route_table_free(struct route_table *t); /* accepts {0}; leaves {0} */

#endif
