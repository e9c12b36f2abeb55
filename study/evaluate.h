/* evaluate.h - the evaluator that searches ask: analytic for the many, SimGrid for the few. */
#ifndef STUDY_EVALUATE_H
#define STUDY_EVALUATE_H

#include "core/measurement.h"
#include "core/perturb.h"
#include "core/program.h"
#include "partition/auto.h"
#include "sim/engine.h"

struct evaluation_context {
    const struct model *model;
    const struct topology *topology;
    const char *platform;        /* path of the XML file */
    const struct engine *engine; /* of thorough evaluations; NULL: SimGrid */
    struct simulation_options options;
    const struct perturbation *perturbation; /* of compute times; NULL: none */
    bool detailed;                           /* measurements get their calls too */
    const int64_t *reserve_bytes; /* [topology->types] kept free by searches; NULL: nothing */
};

struct evaluator evaluator_make(struct evaluation_context *context); /* borrows it */

/* What only the platform knows: memory of every rank's device, what they could compute at the
 * stated speeds, and so MFU and HFU. */
void evaluate_machine(const struct program *p, const struct topology *t, struct measurement *m);

/* Simulate. *m (which must be {0}) gets everything but the plan's names; *timeline the times of all
 * ops, unless NULL. */
enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline) MUST_CHECK;

/* Lower a plan, perturb it and simulate all of it. *program (may be NULL) is what was simulated. */
enum status evaluate_whole(const struct plan *plan, const struct evaluation_context *context,
                           const struct engine *engine, struct measurement *out,
                           struct program *program, struct timeline *timeline) MUST_CHECK;

/* Simulate a plan. One of very many microbatches has a periodic middle: three short iterations are
 * simulated, and when each is longer than the one before by the same time (to 1e-9) the rest
 * follows from them, exactly; out->simulated says how many microbatches the longest one had.
 * Otherwise the whole iteration is simulated, and out->not_folded says why when it was long. */
enum status evaluate_plan(const struct plan *plan, const struct evaluation_context *context,
                          const struct engine *engine, struct measurement *out,
                          struct program *program) MUST_CHECK;

/* "compute 61 %, exposed communication 25 % (r0n0-nic_UP busy 53 %), idle 14 %" */
void evaluate_reason(const struct measurement *m, char text[AUTO_REASON]);

#endif
