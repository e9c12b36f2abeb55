/* evaluate.h - the evaluator that searches ask: analytic for the many, SimGrid for the few. */
#ifndef STUDY_EVALUATE_H
#define STUDY_EVALUATE_H

#include "core/data/measurement.h"
#include "core/data/perturb.h"
#include "core/data/program.h"
#include "partition/auto.h"
#include "sim/engines.h"
#include "study/refusals.h"

enum { EVALUATION_REFUSED = REFUSAL_TEXT };

struct evaluation_context {
    const struct model *model;
    const struct topology *topology;
    const char *platform;        /* path of the XML file */
    const struct engine *engine; /* of thorough evaluations; NULL: SimGrid */
    /* told of each plan that a search scores: 1 of 0 by quick(), 0 of 0 by rough(); its answer is
     * ignored, as the search has `stop`, and of 0 of 0 now and then by thorough(); NULL: nobody */
    const struct simulation_watch *scored;
    double *best_s;           /* out: as a search has it (auto_request); NULL: not asked for */
    const volatile int *stop; /* non-zero: thorough evaluations are given up; NULL: they are not */
    struct simulation_options options;
    const struct perturbation *perturbation; /* of compute times; NULL: none */
    /* What is to be different in the lowered program, for copies of a rank alike; NULL: nothing */
    void (*change)(const void *how, struct program *p);
    const void *change_how;
    /* inference: forwards alone, without gradients and optimizer (program_keep_forwards()); all
     * is simulated */
    bool forward_only;
    bool detailed;       /* measurements get their calls too */
    bool whole;          /* no short runs that the rest follows from */
    bool simulated_only; /* measurements keep the ranks that were simulated, others are like them */
    bool timeline_of_few; /* a timeline may be that of ranks that stand for others alike */
    size_t fold_from; /* devices from which on ranks alike are simulated once; 0: more than 256 */
    bool only_alike;  /* STATUS_UNSUPPORTED where ranks are not alike, rather than simulating all */
    bool guess;       /* short runs need not prove that their middle recurs */
    bool no_links;    /* what links carry is not asked for where it takes another run */
    /* Quick evaluations refuse what `foreline run` would, or instead, where `launches` is there,
     * what that refuses of the model of that name or file (port_launches()), and say here why;
     * NULL: they evaluate all */
    struct refusals *refused;
    const char *launched;
    enum status (*launches)(const struct plan *p, const struct model *m, const struct topology *t,
                            const char *launched, char *refused);
    const char *device;           /* on which it would; NULL: "cpu" */
    size_t workers;               /* processes, at most, for plans that are evaluated together; 0:
                                   * one for each core. They change no number */
    struct op_costs *costs;       /* of the model, for who evaluates many plans; NULL: none */
    const int64_t *reserve_bytes; /* [topology->types] kept free by searches; NULL: nothing */
};

struct evaluator evaluator_make(struct evaluation_context *context); /* borrows it */

/* What the analytic engine says of one plan; of a large one whose ranks are not alike only what
 * searches score it with: without contention, out->exact is false. */
enum status evaluate_once(const struct evaluation_context *context, const struct plan *plan,
                          struct evaluation *out) MUST_CHECK;

/* Messages of a simulation: ops, a collective counting for those that one of its members sends
 * around a ring; on a grid an all-to-all for the links of all its messages. O(ops). */
double evaluate_effort(const struct program *p, const struct topology *t);

/* That of thorough evaluations. */
const struct engine *evaluate_thorough_engine(const struct evaluation_context *context);

/* Simulate. *m (which must be {0}) gets everything but the plan's names; *timeline the times of all
 * ops, unless NULL. */
enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline) MUST_CHECK;

/* What an engine says about a plan: the figure that plan, simulate, sweep, report and validate
 * show.
 *
 * The plan is lowered, perturbed and simulated. One of many microbatches may be simulated with
 * fewer, when the events of the shorter iteration prove that its middle recurs
 * (core/data/steady.h): the rest follows from it, out->simulated says how many microbatches it had.
 * Otherwise the whole iteration is simulated, and out->not_folded says why when it was long. Of
 * plans on many devices one replica and shard of every stage is simulated when the engine proves
 * that the others get the same share of the network (core/engine/folding.h): the measurement is
 * that of all ranks, out->ranks_simulated says how many there were, or out->ranks_not_folded why it
 * was all.
 *
 *   program   what was simulated, may be folded, with fewer ranks than *out; may be NULL
 *   timeline  when each op of it ran; NULL: not asked for, else all is simulated */
enum status evaluate_plan(const struct plan *plan, const struct evaluation_context *context,
                          const struct engine *engine, struct measurement *out,
                          struct program *program, struct timeline *timeline) MUST_CHECK;

/* "compute 61 %, exposed communication 25 % (r0n0-nic_UP busy 53 %), idle 14 %" */
void evaluate_reason(const struct measurement *m, char text[AUTO_REASON]);

#endif
