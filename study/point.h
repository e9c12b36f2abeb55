/* point.h - one point of a grid or a sweep: settings -> plan file -> prediction, measurement.
 *
 * Settings are those of `foreline plan` (plan_set() of study/planning.h). */
#ifndef STUDY_POINT_H
#define STUDY_POINT_H

#include "sim/engine.h"
#include "study/load.h"
#include "study/planning.h"

/* Plan s->model on s->platform, by any algorithm or "auto", and write the plan file. STATUS_INVALID
 * and STATUS_INFEASIBLE when there is no such plan. Prints nothing. */
enum status point_plan(const struct plan_arguments *s, const char *path,
                       const struct provenance *by) MUST_CHECK;

/* Predict a loaded plan, whose file is `path`, with all warnings. *out must be {0}.
 * STATUS_INFEASIBLE when nothing takes time. */
enum status point_predict(const struct loaded_plan *p, const char *path,
                          const struct engine *engine, struct measurement *out) MUST_CHECK;

/* The first op that the CPU has no numerics for, NULL if there is none. */
const struct model_op *point_without_numerics(const struct model *m);

struct point_run {
    const char *engine;   /* a row of point_engines */
    const char *device;   /* of tcp and mpi with real compute: "cpu", "cuda" */
    const char *compute;  /* "real", "paced"; NULL: real where the CPU has all numerics */
    size_t steps, warmup; /* not of smpi, whose iterations are all alike */
    double timeout_s;     /* longest silence of a worker */
    const volatile int *interrupted; /* or NULL: once set, the run ends */
    const struct provenance *by;
};

/* What runs plans: on this machine, in namespaces of it, or on SimGrid's MPI. */
extern const char *const point_engines[];
extern const size_t point_engines_n;
/* Are engine, device, compute and steps known and do they go together? STATUS_USAGE. */
enum status point_check_run(const struct point_run *r) MUST_CHECK;

/* Run the plan file in a process of its own, silently, and write the measurement to `output`.
 * Fails as the engine does; STATUS_EXTERNAL when its process dies or the run is interrupted. The
 * caller must be single-threaded. */
enum status point_measure(const char *path, const struct point_run *r,
                          const char *output) MUST_CHECK;

#endif
