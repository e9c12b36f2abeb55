/* import.h - model graphs from other tools' files. An importer is a file model/NAME.c that defines
 * importer_NAME, and a line of importers.def. */
#ifndef MODEL_IMPORT_H
#define MODEL_IMPORT_H

#include "core/base/array.h"
#include "core/data/model.h"

struct json_at;

/* Which op of the model each node of a file of numbered nodes became. */
struct import_member {
    char *id, *node; /* in decimal; unique name */
    char *op;        /* name */
};

struct import_members {
    size_t n; /* 0: the file has no numbered nodes */
    struct import_member *member;
    struct arena memory;
};

struct import_options {
    double minibatch_size; /* samples that the profile's times and sizes are for; 1: the profile's
                              minibatch counts as one sample */
    const char *device;    /* device type that was measured, NULL: any */
    bool nodes_apart; /* placement: every node is an op, backward ones too, whatever its colour; its
                         whole size counts as parameters of one byte each */
    /* config: ":tokens=8192,layers=4", onnx: ":batch=8,seq=128"; NULL: none. Other formats refuse
     * them. */
    const char *choices;
    struct import_members *members; /* placement, piper: filled in; NULL: not wanted */
};

/* A format is text or JSON: one pair of functions, the other is NULL. */
struct importer {
    const char *name, *summary;
    bool takes_choices; /* struct import_options: choices */
    /* Does the beginning of a file look like this format? */
    bool (*recognises)(const char *text, size_t length);
    /* `path` is for messages only. Returns STATUS_PARSE with path:line. */
    enum status (*parse)(const char *path, const char *text, size_t length,
                         const struct import_options *o, struct model *out);
    /* The same of a regular file that is open, whose weights may be larger than memory; NULL: files
     * are read as a whole, up to 256 MiB. */
    enum status (*parse_file)(const char *path, int fd, uint64_t length,
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

/* STATUS_INVALID unless minibatch_size is finite and >= 1. */
enum status import_check_options(const struct import_options *o) MUST_CHECK;

void import_members_free(struct import_members *m); /* accepts {0}; leaves {0} */

/* "FILE:key=value,...": the file, and the choices from the last colon on, within `spec`; NULL:
 * there are none, or a file is called so. *path is the caller's to free. STATUS_NOMEM. */
enum status import_split_choices(const char *spec, char **path, const char **choices) MUST_CHECK;

/* Read a model in any known format: foreline's own JSON or one of the importers. `path` "-" is
 * standard input. Returns STATUS_PARSE with path:line, STATUS_IO, STATUS_INVALID, STATUS_NOMEM. */
enum status model_import(const char *path, const struct import_options *o,
                         struct model *out) MUST_CHECK;

#endif
