/* lowered.h - a model, a topology and a plan with the program that it becomes, and what engines
 * say. */
#ifndef TESTS_LOWERED_H
#define TESTS_LOWERED_H

#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"
#include "core/engine/engine.h"

struct lowered {
    struct model model;
    struct topology topology;
    struct plan plan;
    struct program program; /* {0} until lower() */
    char *platform;         /* file of the topology; owned. NULL: a star of 1 GB/s */
};

/* Lower the plan, again if need be, or fail. */
void lower(struct lowered *s);
/* Simulate the program and measure, or fail; the result is to be freed. */
struct measurement lowered_measure(const struct engine *e, const struct lowered *s);
/* Lower, and seconds of an iteration on both engines, which must agree, or fail.
 *   exposed_s  [OP_PURPOSES] out, rank 0's waiting by purpose; may be NULL */
double lowered_seconds(struct lowered *s, double *exposed_s);
void lowered_free(struct lowered *s); /* leaves {0} */

#endif
