/* graph.h - the model as an igraph graph: order, reachability and what crosses a cut. */
#ifndef PARTITION_GRAPH_H
#define PARTITION_GRAPH_H

#include <stdint.h>

#include "core/error.h"
#include "core/model.h"

/* Check with igraph that the model is a DAG whose own order is topological, and that every op can
 * be reached from an op without inputs. STATUS_INVALID, STATUS_EXTERNAL, STATUS_NOMEM. O(n + e). */
enum status graph_check(const struct model *m) MUST_CHECK;

/* Bytes per sample of all tensors that enter ops i..j from ops before i, each tensor once:
 *   in_bytes [n * n] out: row i, column j >= i; the rest is not touched.
 * O(n * (n + edges)); entries of row 0 are 0. */
void graph_entering_bytes(const struct model *m, double *in_bytes);

/* whole[n]: can a stage begin with op i? Anywhere, but with tensor parallelism not where what it
 * reads is divided over the shards: stages exchange whole tensors. O(n + edges). */
void graph_whole_cuts(const struct model *m, bool shards, bool *whole);

#endif
