/* compare.h - how good predictions were: errors per plan, rank correlation, regret.
 *
 * error = predicted / measured - 1, signed; figures over plans use its absolute value. Plans are
 * ranked by time per sample, so that their batches may differ; by time per iteration when the
 * samples of one are unknown. */
#ifndef CORE_DATA_COMPARE_H
#define CORE_DATA_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/data/measurement.h"

enum { COMPARE_RANKED = 3 }; /* plans that rank correlation and regret need at least */

/* Does this engine predict ("analytic", "simgrid", "ns3"), or is it a run? */
bool engine_predicts(const char *engine);

/* Are these about the same plan: equal plan_sha256, or the same path where one has no hash? */
bool measurement_same_plan(const struct measurement *a, const struct measurement *b);

struct compared_plan {
    char *plan;                     /* path of the plan, as in the first of its files */
    double predicted_s, measured_s; /* iteration; measured: median over its measurement files */
    double error;
    double samples; /* of an iteration, as predicted; 0: unknown */
    size_t runs;    /* measurement files */
    double least_s,
        most_s; /* of all steps of these, or of their iterations where steps are unknown */
};

/* One predicting engine against one kind of run. */
struct comparison {
    char *predicted_by, *measured_by; /* engines */
    /* measurement_hardware() of the runs that have GPUs, with " | " between different ones;
     * owned, NULL: none has */
    char *measured_on;
    size_t plans;
    struct compared_plan *plan; /* [plans] in order of first appearance */
    double mean_abs_error, median_abs_error, p95_abs_error;
    double kendall_tau, regret; /* NAN with fewer than COMPARE_RANKED plans; tau also without
                                   any order (all times of one side equal) */
    double regret_least;        /* below regret: several plans are predicted to be the fastest */
};

struct comparisons {
    size_t n;
    struct comparison *item; /* [n] in order of first appearance */
    size_t files;
    bool *paired; /* [files] does the i-th measurement appear in any comparison? */
};

/* Pair predictions with runs of the same plan. `name` [n] says where each came from, for messages.
 * Returns STATUS_INVALID when one engine predicts a plan twice or an iteration time is not
 * positive, STATUS_INFEASIBLE when nothing pairs, STATUS_NOMEM. O(n^2). */
enum status compare_measurements(const struct measurement *m, const char *const *name, size_t n,
                                 struct comparisons *out) MUST_CHECK;
void comparisons_free(struct comparisons *c); /* accepts {0}; leaves {0} */

/* Kendall's tau-b, which corrects for ties: (concordant - discordant) pairs over the geometric mean
 * of the pairs not tied in x and not tied in y. Values within 1e-9 of each other, relatively, are
 * tied. In [-1, 1]; NAN when x or y has only one value. O(n^2). Source: Kendall, "The treatment of
 * ties in ranking problems", Biometrika 33 (1945). */
double kendall_tau(const double *x, const double *y, size_t n);

/* The plan by which a choice is judged: the one predicted to be fastest; of several whose
 * predictions are equal (to 1e-9) the slowest, since any of them may be chosen, whatever their
 * order. n >= 1, predicted > 0. O(n). */
size_t regret_chosen(const double *predicted, const double *measured, size_t n);
/* What running the first plans by prediction, each chosen as above, and keeping the fastest of them
 * costs: its time / min measured - 1. 1 <= first <= REGRET_FIRST. measured > 0. O(n). */
enum { REGRET_FIRST = 3 };
double regret(const double *predicted, const double *measured, size_t n, size_t first);
/* The same where of equal predictions the fastest plans are chosen, so at most regret(). */
double regret_least(const double *predicted, const double *measured, size_t n, size_t first);
/* "12.50 %", or "0.00 to 12.50 %" where predictions are equal and the choice is open. */
enum { REGRET_TEXT = 48 };
const char *regret_print(double least, double most, char text[REGRET_TEXT]);

#endif
