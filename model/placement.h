/* placement.h - the importer of dnn-partitioning's JSON. Private to model/. */
#ifndef MODEL_PLACEMENT_H
#define MODEL_PLACEMENT_H

#include "model/import.h"

/* Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS
 * 2020) publish layer and operator graphs: {"nodes": [{"id", "name", "cpuLatency", "fpgaLatency",
 * "size", "isBackwardNode", "colorClass"}], "edges": [{"sourceId", "destId", "cost", "size"}]},
 * latencies in ms, sizes in bytes. Only id and fpgaLatency are needed here.
 *
 * Nodes of one colour share a device, so a colour becomes one op, cycles among colours too; its
 * backward nodes are the op's backward time, its most expensive forward node names it. Colours
 * without a forward node stand where the mirrored edges of their backward nodes put them. Sizes of
 * backward nodes, edge costs and device limits are left out. A model.note says what was done.
 * O((nodes + edges) log (nodes + edges)); *out is untouched on failure. STATUS_PARSE with
 * path:line:column, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
bool placement_recognises(const struct json_at *root);
enum status placement_read_model(const struct json_at *root, const struct import_options *o,
                                 struct model *out) MUST_CHECK;

#endif
