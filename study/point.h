/* point.h - a point of an experiment: settings by name -> model, platform, plan -> prediction,
 * or run.
 *
 * Settings, each a text:
 *   model, platform     names or files, as every command takes them
 *   model.KEY           a parameter of a zoo model ("layers")
 *   platform.KEY        a parameter of a generated platform ("nodes"); or NAME.bandwidth,
 *                       NAME.latency, NAME.speed of links and hosts (sim/platform/variant.h)
 *   devices             only the platform's first so many
 *   plan                a plan file instead of planning; its model, and its platform unless given
 *   capture             a captured script instead of a model and a plan
 *   capture.OPTION      or one that is captured: script, and options of `foreline capture`
 *   plan.OPTION         an option of `foreline plan`; replicas may be "fill", as many as fit, and
 *                       expert-parallel "fill", all replicas
 *   engine              analytic (default), simgrid; or what runs the plan: point_engines
 *   device, compute, steps, warmup   of such runs: what computes; "real" or "paced"; steps that
 *                       count, and before those
 *   collective, nccl-protocols, jitter, slow, paths, queue-pairs
 *                       as `foreline simulate` takes them
 *   noise               "20%": plans are made on a model and platform whose FLOP and bandwidths are
 *                       off by up to so much, and measured on the true ones
 *   train-tokens        predicts a training with failures; with it failures, storage, every, spares
 *                       and other options of `foreline campaign`
 *   seed                of jitter, noise, failures, the hash of paths and the plan
 *
 *     point.c           settings of a point, and the hash of all that its result depends on
 *     point_evaluate.c  its plan, and what a prediction or a run of it comes to
 *     point_run.c       plan files predicted with all warnings, or run by one of point_engines */
#ifndef STUDY_POINT_H
#define STUDY_POINT_H

#include "core/base/digest.h"
#include "sim/engines.h"
#include "study/experiment.h"
#include "study/load.h"
#include "study/planning.h"
#include "study/result.h"
#include "study/settings.h"

/* How a plan is run. */
struct point_run {
    const char *engine;  /* a row of point_engines */
    const char *compute; /* "real", "paced"; NULL: real where the CPU has all numerics */
    /* device: of tcp and mpi with real compute, "cpu" or "cuda"; steps, warmup: not of smpi, whose
     * iterations are all alike; timeout_s. The rest follows from the engine. */
    struct launch_options launch;
    const volatile int *interrupted; /* once set, the run ends; may be NULL */
    const struct provenance *by;
};

/* Texts are borrowed from the experiment unless they are in the arena. */
struct point {
    struct arena texts;
    size_t settings;
    const struct experiment_setting **setting; /* [settings] by key; owned */
    struct arguments a; /* what they say; model and platform as load.h takes them, everything
                         * applied; NULL with a.plan_file unless given */
    bool fill;          /* plan.replicas */
    bool fill_experts;  /* plan.expert-parallel: as many as replicas */
    const struct engine *engine; /* NULL: `run` says what runs it */
    struct point_run run;
    struct collective_options collective;
    struct paths_options paths;
    struct perturbation perturbation;
};

/* "analytic", "tcp", ... */
const char *point_engine(const struct point *p);
/* Does this engine run plans for real, so that nothing else should run beside it? */
bool point_engine_runs(const char *name);

/* For experiment_read(): is there such a setting, and does it take this value? `context` unused. */
enum status point_check(void *context, const char *key, const char *value) MUST_CHECK;

/* Point `number` of an experiment, which *out (must be {0}) borrows. `engine` NULL, or instead of
 * what the settings say. STATUS_USAGE when they do not go together, STATUS_NOMEM. */
enum status point_make(const struct experiment *e, size_t number, const struct engine *engine,
                       struct point *out) MUST_CHECK;
void point_free(struct point *p); /* accepts {0}; leaves {0} */

/* The platform that settings say, as load_platform() takes it: name, parameters and changes.
 *   setting  [n] by key, of experiment e
 * STATUS_USAGE when there is none, STATUS_NOMEM. */
enum status point_platform(const struct experiment *e, const struct experiment_setting **setting,
                           size_t n, struct arena *texts, const char **out) MUST_CHECK;

/* SHA-256 of all that the result depends on: settings, version, contents of input files. */
enum status point_hash(const struct point *p, char hash[DIGEST_HEX]) MUST_CHECK;

/* What the last point loaded; the next one often has the same. */
struct point_cache {
    char *model_name, *platform_name, *path;
    struct model model;
    struct topology topology;
};
void point_cache_free(struct point_cache *c); /* accepts {0}; leaves {0} */

/* Plan and predict, or run. What is wrong with a point is its result, not an error: never fails. */
void point_evaluate(const struct point *p, struct point_cache *cache, struct point_result *out);

/* Plan, and write the plan file. STATUS_INVALID and STATUS_INFEASIBLE when there is no such
 * plan. */
enum status point_write_plan(const struct point *p, const char *path,
                             const struct provenance *by) MUST_CHECK;
/* The same from what `foreline plan` takes. */
enum status point_plan(const struct arguments *a, const char *path,
                       const struct provenance *by) MUST_CHECK;

/* A strategy of shards of a model of HiDup on one device, in one piece, of so many samples; 0: as
 * the model says. */
enum status point_plan_alone(const char *model, size_t samples, const char *path,
                             const struct provenance *by) MUST_CHECK;

/* ---- plan files */

/* Predict a loaded plan, whose file is `path`, with all warnings. *out must be {0}.
 * STATUS_INFEASIBLE when nothing takes time. */
enum status point_predict(const struct loaded_plan *p, const char *path,
                          const struct engine *engine, struct measurement *out) MUST_CHECK;

/* Would run take a program of the plan on `device` (NULL: "cpu"), memory apart? Models of ops or
 * numbers that the CPU does not compute are paced. STATUS_UNSUPPORTED, STATUS_INVALID; then refused
 * [EVALUATION_REFUSED] says why not, too. O(ops of the program, stages x ops of the model). */
enum status point_runs(const char *device, const struct model *m, const struct plan *plan,
                       const struct program *p, char *refused) MUST_CHECK;

/* The first op that the CPU has no numerics for (error_message() says why), NULL if there is
 * none. */
const struct model_op *point_without_numerics(const struct model *m, const struct plan *p);

/* What runs plans: on this machine, in namespaces of it, or on SimGrid's MPI. */
struct point_job;
struct point_engine {
    const char *name;
    enum status (*run)(const struct point_job *j); /* point_run.c */
};
extern const struct point_engine *const point_engines[];
extern const size_t point_engines_n;
/* How the settings of a point say that it is run; no timeout, interruption or provenance. */
enum status point_run_of(const struct experiment *e, size_t number,
                         struct point_run *out) MUST_CHECK;
/* Are engine, device, compute and steps known and do they go together? STATUS_USAGE. */
enum status point_check_run(const struct point_run *r) MUST_CHECK;

/* Run the plan file in a process of its own, silently, and write the measurement to `output`.
 * Fails as the engine does; STATUS_EXTERNAL when its process dies or the run is interrupted. The
 * caller must be single-threaded. */
enum status point_measure(const char *path, const struct point_run *r,
                          const char *output) MUST_CHECK;

#endif
