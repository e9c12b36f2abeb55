/* prediction.h - what `foreline simulate` computes: options about a simulation, one plan or
 * capture, its measurement. */
#ifndef STUDY_PREDICTION_H
#define STUDY_PREDICTION_H

#include "sim/export/export.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/settings.h"
#include "topologies/msccl.h"

struct prediction {
    const struct arguments *a;   /* borrowed */
    const struct loaded_plan *p; /* borrowed, after prediction_begin() */
    const struct engine *engine;
    const struct exporter *exporter; /* of --export; NULL: none */
    const char *exported;
    double unit_s;
    struct perturbation perturbation;
    struct faults faults;
    struct steps_algorithm steps; /* of --algorithm-file */
    struct evaluation_context context;
    uint64_t seed; /* of the jitter, or of the plan */
    struct measurement m;
    struct program program;   /* what was simulated */
    struct timeline timeline; /* of a->trace and a->timeline; else {0} */
};

/* Look at the options, before a plan is read: sets `a`, the engine, what is perturbed and exported.
 * `as` is how the command was called. *out must be {0}. STATUS_USAGE: they contradict each
 * other. */
enum status prediction_set(const struct arguments *a, taker_set as,
                           struct prediction *out) MUST_CHECK;
/* Take model and platform, which are borrowed; part of prediction_begin(). STATUS_USAGE: an option
 * about paths means nothing to the platform. */
enum status prediction_place(const struct model *m, const struct topology *t, const char *platform,
                             struct prediction *out) MUST_CHECK;
/* Take the plan, to whose framework --framework is set. STATUS_USAGE: an option means nothing to
 * it. */
enum status prediction_begin(struct loaded_plan *p, struct prediction *out) MUST_CHECK;
/* Simulate by an engine, in full (`whole`) when all ops have to be known. */
enum status prediction_evaluate(struct prediction *p, const struct engine *engine,
                                bool whole) MUST_CHECK;
/* What a user would want to be told, as warnings of the measurement; and its labels. `path` is the
 * plan's file; NULL: it has none. */
enum status prediction_finish(struct prediction *p, const char *path) MUST_CHECK;
/* The files that options ask for: of the export, the measurement, the timeline. Lines about them go
 * to `notes`. */
enum status prediction_write(const struct prediction *p, const struct provenance *by,
                             FILE *notes) MUST_CHECK;
void prediction_free(struct prediction *p); /* accepts {0}; leaves {0} */

#endif
