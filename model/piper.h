/* piper.h - the importer of Piper's JSON. Private to model/. */
#ifndef MODEL_PIPER_H
#define MODEL_PIPER_H

#include "model/import.h"

/* Piper (Tarnawski et al., NeurIPS 2021) lists for every node and tensor-parallel degree its
 * configurations: {"nodes": [{"id", "name", "TMPCs": {"1": [{"id", "timePerSample",
 * "parameterSize", "memoryUsageA", "memoryUsageB"}]}}], "edges": [{"sourceId", "destId",
 * "communicationCost"}]}, times in seconds per sample, sizes in bytes.
 *
 * A node becomes an op, and every degree that all nodes have becomes a profile of the fastest
 * configurations. What a configuration that stashes less takes longer is one more forward pass, so
 * it tells forward from backward time; without one, a third of the time is forward. Sizes are those
 * of degree 1 (of the least degree, times it, where that is missing). memoryUsageB, synchronisation
 * bytes and the limits of devices are left out; model.note says what was done.
 * O((nodes + edges) log (nodes + edges)); *out is untouched on failure. STATUS_PARSE with
 * path:line:column, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
bool piper_recognises(const struct json_at *root);
enum status piper_read_model(const struct json_at *root, const struct import_options *o,
                             struct model *out) MUST_CHECK;

#endif
