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
    const char *platform; /* path of the XML file */
};

struct evaluator evaluator_make(struct evaluation_context *context); /* borrows it */

/* Simulate. *m (which must be {0}) gets everything but the plan's names, with a warning for every
 * rank that needs more memory than its device has; *timeline the times of all ops, unless NULL. */
enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline) MUST_CHECK;

/* "compute 61 %, exposed communication 25 % (r0n0-nic_UP busy 53 %), idle 14 %" */
void evaluate_reason(const struct measurement *m, char text[AUTO_REASON]);

#endif
