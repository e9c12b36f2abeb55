/* evaluate.h - the evaluator that searches ask: analytic for the many, SimGrid for the few. */
#ifndef CLI_EVALUATE_H
#define CLI_EVALUATE_H

#include "core/measurement.h"
#include "core/program.h"
#include "partition/auto.h"
#include "sim/engine.h"

struct evaluation_context {
    const struct model *model;
    const struct topology *topology;
    const char *platform;        /* path of the XML file */
    const struct engine *engine; /* of thorough evaluations; NULL: SimGrid */
    struct simulation_options options;
};

struct evaluator evaluator_make(struct evaluation_context *context); /* borrows it */

/* Simulate. *m (which must be {0}) gets everything but the plan's names, with warnings (below);
 * *timeline the times of all ops, unless NULL. */
enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline) MUST_CHECK;

/* Simulate a plan. One of very many microbatches has a periodic middle: three short iterations are
 * simulated, and when each is longer than the one before by the same time (to 1e-9) the rest
 * follows from them, exactly; *folded says so. Otherwise the whole iteration is simulated. */
enum status evaluate_plan(const struct plan *plan, const struct evaluation_context *context,
                          const struct engine *engine, struct measurement *out,
                          bool *folded) MUST_CHECK;

/* "compute 61 %, exposed communication 25 % (r0n0-nic_UP busy 53 %), idle 14 %" */
void evaluate_reason(const struct measurement *m, char text[AUTO_REASON]);

#endif
