/* load.h - inputs by name: shipped models and platforms, else files. */
#ifndef STUDY_LOAD_H
#define STUDY_LOAD_H

#include "core/base/json.h"
#include "core/data/faults.h"
#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/perturb.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"

/* A zoo model ("gpt2-small:layers=6") or a file in any format that model/import.h knows, of which
 * a configuration may be followed by choices as well ("config.json:tokens=8192").
 * STATUS_USAGE: there is no such name, or it has no such parameter. */
enum status load_model(const char *spec, struct model *out) MUST_CHECK;

/* The same with what an importer may be told (model/import.h). */
struct import_options;
enum status load_model_with(const char *spec, const struct import_options *o,
                            struct model *out) MUST_CHECK;
/* *out, malloc'd: the spec, with so many tokens per sample. */
enum status load_tokens(const char *spec, size_t tokens, char **out) MUST_CHECK;

/* The same, with every node of a graph file as an op of its own (model/import.h, nodes_apart). */
enum status load_model_apart(const char *spec, struct model *out) MUST_CHECK;

/* load_model(), and which op each node of a graph file became: none (n 0) of other models. */
struct import_members;
enum status load_model_members(const char *spec, struct model *out,
                               struct import_members *members) MUST_CHECK;

/* Path, malloc'd, of a shipped platform ("two-racks"), a generated one ("rail:nodes=16"), an XML
 * file, or one of these with changes behind "@" (sim/platform/variant.h), such as
 * "two-racks@uplink.bandwidth=10Gbps,devices=8", which is kept as a generated one is
 * (topologies/cache.h). STATUS_USAGE: there is no such name, parameter or link. */
enum status load_platform(const char *name, char **path) MUST_CHECK;

/* The same, read; *path is malloc'd. */
enum status load_topology(const char *name, struct topology *out, char **path) MUST_CHECK;

/* Everything that a plan file stands for. */
struct loaded_plan {
    struct model model;
    struct topology topology;
    struct plan plan;
    char *platform; /* path of the XML file */
    char *sha256;   /* of the plan file, hexadecimal */
    struct program program;
};

/* What is taken instead of what a plan file says. */
struct load_instead {
    const char *model,
        *platform; /* as load_model() and load_platform() take them; NULL: the file's */
    size_t batch;  /* samples per iteration; 0: the file's */
};

/* A plan file, and the model and platform that it names, as load_model() and load_platform() take
 * them here; files must be those that the plan was made with. Release all three. */
enum status load_plan_names(const char *path, const struct load_instead *instead,
                            struct json_document *d, char **model, char **platform) MUST_CHECK;
/* A failure of loading what a plan file names, passed on with the file: whoever gave the plan does
 * not know what it names. `what` is "model" or "platform". */
enum status load_of_plan(enum status st, const char *what, const char *path) MUST_CHECK;
enum status load_plan(const char *path, struct loaded_plan *out) MUST_CHECK;
/* The same without the program. `warnings` gets a line for each knob that changes nothing; NULL:
 * nobody does; of the others standard error. */
enum status load_plan_warn(const char *path, FILE *warnings, struct loaded_plan *out) MUST_CHECK;
enum status load_plan_only(const char *path, struct loaded_plan *out) MUST_CHECK;
/* The same with another platform, which must have the plan's devices, another model, which must
 * have its ops, or another batch. sha256 is of the file and of what is taken instead. STATUS_USAGE:
 * no such model or platform is there; STATUS_PARSE and STATUS_INVALID: the plan does not fit. */
enum status load_plan_instead(const char *path, const struct load_instead *instead, FILE *warnings,
                              struct loaded_plan *out) MUST_CHECK;
void loaded_plan_free(struct loaded_plan *p); /* accepts {0}; leaves {0} */

/* What --slow, --fail and --kill say (each may be NULL): factors of compute to *slower, the rest to
 * *faults. STATUS_USAGE, "--slow: ..."; STATUS_NOMEM; what is there by then must be freed. */
enum status load_faults(const char *slow, const char *fail, const char *kill,
                        struct perturbation *slower, struct faults *faults) MUST_CHECK;

/* Set plan, plan_sha256, model, platform and engine of a measurement (copies); and framework, the
 * plan's, but of a real run, whose ops foreline computes whatever they were planned for. */
enum status load_label(const struct loaded_plan *p, const char *path, const char *engine,
                       struct measurement *m) MUST_CHECK;

#endif
