/* export.h - models as other tools' files. */
#ifndef PAPERS_PIPEDREAM_EXPORT_H
#define PAPERS_PIPEDREAM_EXPORT_H

#include "core/data/model.h"

/* Write PipeDream's graph.txt (grammar: pipedream_text.h) with the times of profile[profile] and
 * sizes for its microbatch. Node names are op names, types the kinds, an attribute "stage" becomes
 * the stage_id. Reading it back with minibatch_size = the profile's samples gives the same ops,
 * edges, sizes and times: bit for bit where a decimal number of milliseconds, divided by 1000, can
 * be that time (always for whole nanoseconds), else to the last bit. FLOP, stashes other than
 * outputs, attributes and tied weights are not in the format; neither are the times of sources
 * whose kind starts with "Input". `path` "-": standard output.
 * STATUS_INVALID: no such profile, or a name that the format cannot hold; STATUS_IO. */
enum status model_export_pipedream(const struct model *m, size_t profile,
                                   const char *path) MUST_CHECK;

#endif
