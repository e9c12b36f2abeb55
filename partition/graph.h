/* graph.h - what crosses the cuts of a model's order, and where it may be cut. */
#ifndef PARTITION_GRAPH_H
#define PARTITION_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/model.h"

/* Bytes per sample of all tensors that enter ops i..j from ops before i, each tensor once:
 *   in_bytes [n * n] out: row i, column j >= i; the rest is not touched.
 * O(n * (n + edges)); entries of row 0 are 0. */
void graph_entering_bytes(const struct model *m, double *in_bytes);

/* Where stages may begin so that they exchange whole tensors: anywhere, but with `shards` not where
 * a later op reads an earlier op's output that is divided over the shards.
 *   begins  [n + 1] out, or NULL: how many of the ops before op i are such; begins[0] == 0
 * Returns begins[n]. O(n). */
size_t graph_whole_begins(const struct model *m, bool shards, size_t *begins);

#endif
