/* pipedream.h - the importer of PipeDream's graph.txt. Private to model/ and its fuzzer. */
#ifndef MODEL_PIPEDREAM_H
#define MODEL_PIPEDREAM_H

#include "model/import.h"

/* PipeDream's profiler (Narayanan et al., SOSP 2019) writes what each layer of a network took in
 * one minibatch; grammar in pipedream_text.h. Op names are node names, kinds the layer types.
 * The times become one profile (samples = minibatch_size); sizes are divided by minibatch_size and
 * rounded; FLOP are unknown, 0. Sources called "Input..." become ops of kind "Input" that take no
 * time: they load data, which PipeDream's planner leaves out too. A stage_id becomes attribute
 * "stage". O((nodes + edges) log nodes); *out is untouched on failure. Returns STATUS_PARSE with
 * path:line, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
bool pipedream_recognises(const char *text, size_t length);
enum status pipedream_parse(const char *path, const char *text, size_t length,
                            const struct import_options *o, struct model *out) MUST_CHECK;

#endif
