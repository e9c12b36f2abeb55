/* papers.h - the published work in papers/: what is known of it here, and its module as far as it
 * is about models. What it plans is in study/papers.h.
 *
 * papers.def is the table of names. All that computes is in a module (core/base/module.h), which is
 * loaded when one of these names, or a file of one of its formats, is met: nothing else needs it,
 * and foreline may be built without (FORELINE_PAPERS). */
#ifndef MODEL_PAPERS_H
#define MODEL_PAPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/module.h"
#include "core/data/model.h"

struct import_options;
struct json_at;

struct papers_objective {
    const char *name;
    bool plans;
};
extern const struct papers_objective papers_objectives[]; /* [papers_objectives_n] */
extern const size_t papers_objectives_n;

struct papers_algorithm {
    const char *objective, *name;
    bool on_devices;
};
extern const struct papers_algorithm papers_algorithms[]; /* [papers_algorithms_n] */
extern const size_t papers_algorithms_n;

/* The objective that has an algorithm of this name, if just one has; else NULL, as for NULL. */
const struct papers_objective *papers_objective_of(const char *algorithm);
/* Does the objective's algorithm of this name, NULL: its default, decide on devices? */
bool papers_on_devices(const char *objective, const char *algorithm);

extern const char *const papers_profiles[]; /* [papers_profiles_n] */
extern const size_t papers_profiles_n;

enum {
#define MODEL(name, alone, summary) PAPERS_MODEL_##name,
#include "model/papers.def"
#undef MODEL
};
struct papers_model {
    const char *name;
    bool alone;
    const char *summary;
};
extern const struct papers_model papers_models[]; /* [papers_models_n] */
extern const size_t papers_models_n;
/* The row whose name a specification begins with, "tmlp:layers=2"; papers_models_n: none. */
size_t papers_model_find(const char *spec);
/* Does the specification name one of them, rather than a model of the zoo? */
bool papers_has_model(const char *spec);

/* ---- the module */

/* What can be said of a model behind its name. */
struct papers_option {
    const char *name;
    int64_t standard, most; /* from 1 */
};

/* What it exports, as "papers_of_models"; files as struct importer of model/import.h has it. */
struct papers_of_models {
    struct module module;
    enum status (*read_pipedream)(const char *path, const char *text, size_t length,
                                  const struct import_options *o, struct model *out);
    enum status (*read_placement)(const struct json_at *root, const struct import_options *o,
                                  struct model *out);
    enum status (*read_piper)(const struct json_at *root, const struct import_options *o,
                              struct model *out);
    /* PipeDream's graph.txt with the times of profile[profile]; `path` "-": standard output.
     * STATUS_INVALID: no such profile, or a name that the format cannot hold; STATUS_IO. */
    enum status (*write_pipedream)(const struct model *m, size_t profile, const char *path);
    /* The model of a specification. STATUS_INVALID: an option that is not known; STATUS_NOMEM. */
    enum status (*build)(const char *spec, struct model *out);
    /* Its work in an iteration as the published code counts it. The same. */
    enum status (*flop)(const char *spec, double *flop);
    const struct papers_option *option; /* ends with one without a name */
};

/* Load the module, or find it loaded. STATUS_IO: it is not there, with who has it. */
enum status papers_load(const char *symbol, const void **out) MUST_CHECK;
enum status papers_load_models(const struct papers_of_models **out) MUST_CHECK;

#endif
