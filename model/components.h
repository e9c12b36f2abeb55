/* components.h - strongly connected components of a directed graph. */
#ifndef MODEL_COMPONENTS_H
#define MODEL_COMPONENTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/model.h"

/* Number the components of the graph with n nodes and arc[arcs].
 *   component  [n] out: < *count; nodes on a common cycle, and only they, have the same number
 * O(n + arcs), without recursion. STATUS_NOMEM.
 * Source: Tarjan, SIAM J. Comput. 1 (1972) 146-160. */
enum status components_find(size_t n, const struct model_edge *arc, size_t arcs,
                            uint32_t *component, size_t *count) MUST_CHECK;

#endif
