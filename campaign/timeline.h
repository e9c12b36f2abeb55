/* timeline.h - one drawn course of a training, from its start to its last iteration.
 *
 * Events between which everything is at a constant rate: failures, checkpoints, repairs, GPUs that
 * become slow. Stretches in which only checkpoints happen are passed in one step, so that the cost
 * is that of the failures. */
#ifndef CAMPAIGN_TIMELINE_H
#define CAMPAIGN_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "campaign/failures.h"

/* What happens after a failure. Whichever it is, a failure that takes no node is a restart from the
 * last checkpoint, and a node that was taken out comes back as a spare when it is repaired. */
enum recovery {
    RECOVER_SPARES, /* all start again, with a spare node for the one that failed; with none left
                     * the job waits until one is repaired */
    RECOVER_SHRINK, /* as long as there is no spare the job goes on with fewer replicas, and starts
                     * again with more when the nodes that are repaired shorten its iterations */
    RECOVER_HOT, /* a spare node joins, and copies its state from another replica: the others lose
                     * the iteration that they were in, and no restart is needed */
    RECOVERIES
};
struct recovery_policy {
    const char *name;
};
extern const struct recovery_policy recoveries[RECOVERIES];

/* Everything in seconds. */
struct campaign {
    const struct failures *failures;
    double pieces[CAUSES], devices; /* that the job uses */
    double replicas;                /* of data parallelism, >= 1 */
    double iteration_s, work_s;     /* one iteration, and all of them, without failures */
    double every_s;                 /* of work between checkpoints, > 0; INFINITY: none */
    double block_s;      /* a checkpoint stops the training so long, and then is written */
    double drain_s;      /* beside it for so long; 0: it is complete when it goes on */
    double interference; /* iterations take 1 + interference times as long meanwhile */
    double load_s;       /* reading a checkpoint */
    double swap_s;       /* RECOVER_HOT: until a hot spare has joined */
    enum recovery recovery;
    uint32_t spares;
    bool slow_passes; /* a slow device recovers by itself; otherwise its node is replaced */
    /* RECOVER_SHRINK: how many times as long an iteration takes without `lost` nodes, not less for
     * more of them; INFINITY: there is none. NULL: each is one of equal replicas. */
    enum status (*shrunk)(void *shrink, uint32_t lost, double *out);
    void *shrink;
};

/* Where the time went; wall_s is the sum of all others. */
struct course {
    double wall_s, work_s;
    double saving_s;         /* checkpoints, and iterations made longer by them */
    double lost_s[CAUSES];   /* work that had to be done again, by what failed */
    double down_s[CAUSES];   /* from the failure until the training goes on */
    double failures[CAUSES]; /* how many */
    double waiting_s;        /* for a repair, and for starting again with a whole machine */
    double reduced_s;        /* longer iterations of fewer replicas */
    double slow_s;           /* longer iterations by slow GPUs, and replacing them */
};

/* What courses of this seed have, whatever else happens: seconds until failure number i from the
 * one before, or the start; from the end of slow-down number i - 1, or the start, until number i;
 * and whether failure i hangs. `rate` is the mean. */
double timeline_gap(uint64_t seed, uint64_t i, double rate);
double timeline_slow_gap(uint64_t seed, uint64_t i, double rate);
bool timeline_hangs(uint64_t seed, uint64_t i, double share);

enum { COURSE_FAILURES_MOST = 200000 };
/* Follow one course; it depends on the campaign and the seed alone. A job that will not end in
 * `limit_s` of wall time, or with COURSE_FAILURES_MOST failures, is given up there: course->work_s
 * is less than the campaign's. STATUS_NOMEM; O(failures). */
enum status timeline_follow(const struct campaign *c, uint64_t seed, double limit_s,
                            struct course *out) MUST_CHECK;

#endif
