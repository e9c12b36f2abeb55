/* sweep_point.h - a point of a sweep: settings by name -> model, platform, plan -> result.
 *
 * Settings, each a text:
 *   model, platform     names or files, as every command takes them
 *   model.KEY           a parameter of a zoo model ("layers")
 *   platform.KEY        a parameter of a generated platform ("nodes"); or NAME.bandwidth,
 *                       NAME.latency, NAME.speed of links and hosts (sim/platform/variant.h)
 *   devices             only the platform's first so many
 *   plan                a plan file instead of planning; its model, and its platform unless given
 *   plan.OPTION         an option of `foreline plan`; replicas may be "fill": as many as fit
 *   engine              analytic (default), simgrid; or what runs the plan: study/point.h
 *   compute, steps, warmup   of such runs: "real" or "paced"; steps that count, and before those
 *   collective, nccl-protocols, jitter, slow   as `foreline simulate` takes them
 *   noise               "20%": plans are made on a model and platform whose FLOP and bandwidths are
 *                       off by up to so much, and measured on the true ones
 *   seed                of jitter, noise and the plan */
#ifndef STUDY_SWEEP_POINT_H
#define STUDY_SWEEP_POINT_H

#include "core/digest.h"
#include "study/experiment.h"
#include "study/planning.h"
#include "study/point.h"
#include "study/result.h"

struct sweep_point {
    char *model, *platform; /* as load.h takes them, everything applied; owned; NULL with plan_file
                             * unless given */
    const char *plan_file;
    struct plan_arguments plan;  /* texts borrowed, of the settings and of this */
    bool fill;                   /* plan.replicas */
    const struct engine *engine; /* NULL: `run` says what runs it */
    struct point_run run;
    struct collective_options collective;
    struct perturbation perturbation;
    double noise;
};

/* "analytic", "tcp", ... */
const char *sweep_point_engine(const struct sweep_point *p);
/* Does this engine run plans for real, so that nothing else should run beside it? */
bool sweep_engine_runs(const char *name);

/* For experiment_read(): is there such a setting, and does it take this value? `context` unused. */
enum status sweep_point_check(void *context, const char *key, const char *value) MUST_CHECK;

/* From settings (experiment_settings()), which *out borrows. `engine` NULL, or instead of what they
 * say. STATUS_USAGE when they do not go together, STATUS_NOMEM. */
enum status sweep_point_make(const struct experiment_setting *const *setting, size_t n,
                             const struct engine *engine, struct sweep_point *out) MUST_CHECK;
void sweep_point_free(struct sweep_point *p); /* accepts {0}; leaves {0} */

/* SHA-256 of all that the result depends on: settings, version, contents of input files. */
enum status sweep_point_hash(const struct experiment_setting *const *setting, size_t n,
                             const struct sweep_point *p, char hash[DIGEST_HEX]) MUST_CHECK;

/* What the last point loaded; the next one often has the same. */
struct sweep_cache {
    char *model_name, *platform_name, *path;
    struct model model;
    struct topology topology;
};
void sweep_cache_free(struct sweep_cache *c); /* accepts {0}; leaves {0} */

/* Plan and predict. What is wrong with a point is its result, not an error: never fails. */
void sweep_point_evaluate(const struct sweep_point *p, struct sweep_cache *cache,
                          struct point_result *out);

#endif
