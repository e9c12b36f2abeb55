/* importers.h - models from the files of the papers, in the order of model/import.h: what
 * struct importer has of them, once a file is known to be one. */
#ifndef PAPERS_COMMON_IMPORTERS_H
#define PAPERS_COMMON_IMPORTERS_H

#include "model/import.h"

/* PipeDream's graph.txt (papers/pipedream/import.c). */
enum status pipedream_read_model(const char *path, const char *text, size_t length,
                                 const struct import_options *o, struct model *out) MUST_CHECK;
/* JSON of dnn-partitioning (papers/placement/import.c). */
enum status placement_read_model(const struct json_at *root, const struct import_options *o,
                                 struct model *out) MUST_CHECK;
/* JSON of Piper (papers/piper/import.c). */
enum status piper_read_model(const struct json_at *root, const struct import_options *o,
                             struct model *out) MUST_CHECK;

#endif
