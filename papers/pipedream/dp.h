/* dp.h - PipeDream's dynamic program: stages, replicas and levels of bandwidth over walk states.
 * Private to papers/pipedream/. */
#ifndef PAPERS_PIPEDREAM_DP_H
#define PAPERS_PIPEDREAM_DP_H

#include "papers/common/objective.h"
#include "papers/pipedream/states.h"

enum { PIPEDREAM_MAX_MACHINES = 1024, PIPEDREAM_TEXT = 512 };

struct pipedream_level {
    size_t machines;       /* of this level in one machine of the next */
    double bandwidth_Bps;  /* > 0 */
    size_t inner_machines; /* machines of the level below, 1 at level 0 */
};

struct pipedream_options {
    size_t levels;
    struct pipedream_level level[OBJECTIVE_LEVELS]; /* [levels] innermost first */
    bool charge_activations, straight;
    bool fewer_machines; /* some may stay idle, at any level */
    double memory_bytes; /* NAN: not looked at */
};

/* Costs that the published formulas give one stage of a level; seconds. `compute_s` is the time of
 * the stage on one machine of the level (the optimum of the level below). */
double pipedream_later_stage_s(const struct pipedream_level *l, double compute_s,
                               double parameter_bytes, size_t replicas);
double pipedream_transfer_s(const struct pipedream_level *l, double cut_bytes, size_t replicas);
/* Do the stashed versions of a stage fit? `machines` are those of the stages up to and with it. */
bool pipedream_fits(const struct pipedream_options *o, const struct pipedream_level *l,
                    double stash_bytes, size_t machines, size_t replicas);

struct pipedream_stage {
    uint32_t first, last; /* what state `last` has and state `first - 1` has not */
    uint32_t replicas;    /* product over the levels */
};

struct pipedream_solution {
    double value_s;
    double single_s, parallel_s; /* of one machine, and with everything replicated on all of them */
    bool interrupted;            /* all data-parallel, for want of time */
    size_t stages;
    struct pipedream_stage *stage; /* [stages] */
    char text[PIPEDREAM_TEXT];     /* stages of the outermost level, each "xR[inner stages]" */
};

/* Rough number of steps for n states. */
double pipedream_work(const struct pipedream_options *o, size_t n);

/* Exact for the published recursion, in which an inner pipeline only uses states between its ends.
 * O(n^2 machines^2) at the outermost level, O(n^3 machines^2) and n^2 numbers at each inner one.
 * Returns STATUS_INFEASIBLE, STATUS_NOMEM. */
enum status pipedream_solve_states(const struct pipedream_states *s,
                                   const struct pipedream_options *o,
                                   const struct objective_request *r, double begin_s,
                                   struct pipedream_solution *out) MUST_CHECK;
void pipedream_solution_free(struct pipedream_solution *s); /* after a failure, too; leaves {0} */

#endif
