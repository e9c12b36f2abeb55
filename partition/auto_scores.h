/* auto_scores.h - what `auto` has found out about plans: local search from several finalists, and
 * different moves from one, come to the same plan again and again. Private. */
#ifndef PARTITION_AUTO_SCORES_H
#define PARTITION_AUTO_SCORES_H

#include "partition/auto.h"

/* By which function of the evaluator. */
enum auto_scorer { AUTO_ROUGH, AUTO_QUICK, AUTO_SCORERS };

struct auto_score {
    bool known;
    enum status status; /* STATUS_OK; STATUS_INVALID, STATUS_UNSUPPORTED: it cannot run */
    struct evaluation found;
};

struct auto_scored {
    bool counted; /* among the plans tried */
    struct auto_score by[AUTO_SCORERS];
};

struct auto_scores;
enum status auto_scores_open(struct auto_scores **out) MUST_CHECK; /* STATUS_NOMEM */
void auto_scores_close(struct auto_scores *x);                     /* accepts NULL */

/* The place of a plan's scores, made if there is none yet, valid up to the next call. Plans are
 * told apart by all that a search changes in them: numbers of microbatches, schedule, knobs, and
 * ops and devices of stages. Never a wrong one; when there are too many all are forgotten, which
 * depends on the plans only. O(stages + devices). STATUS_NOMEM. */
enum status auto_scores_at(struct auto_scores *x, const struct plan *p,
                           struct auto_scored **out) MUST_CHECK;

#endif
