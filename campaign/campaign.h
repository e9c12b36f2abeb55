/* campaign.h - how long a training takes, over all that may happen: courses are drawn until the
 * quantiles are known well enough. */
#ifndef CAMPAIGN_CAMPAIGN_H
#define CAMPAIGN_CAMPAIGN_H

#include "campaign/timeline.h"

enum { CAMPAIGN_COURSES_LEAST = 100, CAMPAIGN_COURSES_MOST = 20000 };

struct campaign_forecast {
    size_t courses;
    size_t unfinished;         /* those that took more than CAMPAIGN_TOO_LONG times the work */
    double p5_s, p50_s, p95_s; /* of wall time; INFINITY: of courses that did not end */
    double within;      /* the 95 % confidence intervals of the quantiles reach at most so far from
                         * them, as a share */
    struct course mean; /* of all courses */
};
#define CAMPAIGN_TOO_LONG 100.0

/* Draw courses until every quantile is known to within `within`, or there are
 * CAMPAIGN_COURSES_MOST. Equal seed, equal answer. STATUS_INVALID: intervals, or replicas, that are
 * none; STATUS_NOMEM. */
enum status campaign_forecast(const struct campaign *c, uint64_t seed, double within,
                              struct campaign_forecast *out) MUST_CHECK;

/* The mean of `courses` drawn ones; for comparisons, which draw the same numbers. */
enum status campaign_mean(const struct campaign *c, uint64_t seed, size_t courses,
                          struct course *out) MUST_CHECK;

/* Mean time between failures of the job; INFINITY: nothing fails. */
double campaign_between(const struct campaign *c);
/* What a checkpoint costs: the stop, and what iterations beside its writing are longer. */
double campaign_save_cost(const struct campaign *c);
/* What a failure costs besides the work that is lost: noticed, started again, loaded. */
double campaign_recovery(const struct campaign *c);

/* The interval between checkpoints that formulas say is best: whole iterations, and not shorter
 * than it takes to write one. */
double campaign_best_interval(const struct campaign *c);

/* Spare nodes, at most `most`, with which the training costs least: days times nodes, spare ones
 * included. STATUS_NOMEM. */
enum status campaign_best_spares(const struct campaign *c, double nodes, uint32_t most,
                                 uint64_t seed, uint32_t *out) MUST_CHECK;

#endif
