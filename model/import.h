/* import.h - model graphs from other tools' files. An importer is a file model/NAME.c that defines
 * importer_NAME, and a line of importers.def. */
#ifndef MODEL_IMPORT_H
#define MODEL_IMPORT_H

#include "core/model.h"

struct json_at;

struct import_options {
    double minibatch_size; /* samples that the profile's times and sizes are for; 1: the profile's
                              minibatch counts as one sample */
    const char *device;    /* device type that was measured, NULL: any */
    bool nodes_apart; /* placement: every node is an op, backward ones too, whatever its colour; its
                         whole size counts as parameters of one byte each */
};

/* A format is text or JSON: one pair of functions, the other is NULL. */
struct importer {
    const char *name, *summary;
    /* Does the beginning of a file look like this format? */
    bool (*recognises)(const char *text, size_t length);
    /* `path` is for messages only. Returns STATUS_PARSE with path:line. */
    enum status (*parse)(const char *path, const char *text, size_t length,
                         const struct import_options *o, struct model *out);
    /* The same for a JSON object, which is parsed once for all formats. */
    bool (*recognises_json)(const struct json_at *root);
    enum status (*read_json)(const struct json_at *root, const struct import_options *o,
                             struct model *out);
};

#define IMPORTER(name) extern const struct importer importer_##name;
#include "model/importers.def"
#undef IMPORTER
extern const struct importer *const importers[]; /* [importers_n] */
extern const size_t importers_n;
const char *importer_name(size_t i);

/* STATUS_INVALID unless minibatch_size is finite and >= 1. */
enum status import_check_options(const struct import_options *o) MUST_CHECK;

/* Read a model in any known format: foreline's own JSON or one of the importers. `path` "-" is
 * standard input. Returns STATUS_PARSE with path:line, STATUS_IO, STATUS_INVALID, STATUS_NOMEM. */
enum status model_import(const char *path, const struct import_options *o,
                         struct model *out) MUST_CHECK;

#endif
