/* promise.h - what foreline promises of any input, on random ones: shared by tests/test_promise.c,
 * which tries some of them, and bench/promise.c, which tries all and prints the worst. */
#ifndef TESTS_PROMISE_H
#define TESTS_PROMISE_H

#include "core/data/model.h"
#include "core/data/perturb.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "core/engine/engine.h"

/* Random numbers of a seed; the same everywhere. Source: Steele, Lea & Flood, OOPSLA 2014. */
struct promise_random {
    uint64_t state;
};
uint32_t promise_below(struct promise_random *r, uint32_t n); /* 0 .. n - 1 */

/* A model, a platform and a plan of the one on the other. */
struct promise_case {
    char model_name[96], platform_name[96];
    struct model model;
    struct topology topology;
    char *path; /* of the platform's file */
    struct plan plan;
};

enum { PROMISE_MODELS = 12, PROMISE_FAMILIES = 11 };
/* Names of a small model of any family of the zoo, and of a platform of 2 to 64 devices of any
 * family of generated ones or a shipped one; family PROMISE_FAMILIES: any. */
void promise_model(struct promise_random *r, char name[96]);
void promise_platform(struct promise_random *r, uint32_t family, char name[96]);

/* A plan that is not searched for: any algorithm's cut into any stages, chunks, replicas, shards,
 * with any schedule and ZeRO level, of `most` microbatches at most. The model and platform of *c
 * are loaded; tries until something can be lowered. */
void promise_plan(struct promise_random *r, uint32_t most, struct promise_case *c);
/* All of it at random; aborts on failure. */
void promise_case(struct promise_random *r, uint32_t family, uint32_t most, struct promise_case *c);
void promise_case_free(struct promise_case *c);
/* "gpt2-small on two-racks: 4 x 2 x 1, interleaved, 64 x 1, zero 1" */
enum { PROMISE_TEXT = 320 };
const char *promise_text(const struct promise_case *c, char text[PROMISE_TEXT]);

/* A plan by its steady middle and whole. */
struct promise_folding {
    bool folded; /* by the middle; else both are the same simulation */
    double folded_s, whole_s;
    double error;    /* of the iteration, the bubble and all times of ranks over whole_s */
    bool sound;      /* nothing below 0, and shares that sum to the whole */
    char reason[96]; /* why not folded */
};
struct promise_folding promise_fold(const struct promise_case *c, const struct engine *engine);

/* A prediction against the floors (core/engine/floor.h) of its program: iteration / floor, which is
 * never below 1; INFINITY where there is none (no flush). */
double promise_floor(const struct promise_case *c, double iteration_s, char cause[32]);

/* As `simulate` of the file that `plan -o` writes says; perturbation NULL: none. */
double promise_written(const struct promise_case *c, const struct engine *engine,
                       const struct perturbation *perturbation);

/* What `plan` says of a model on a platform, against `simulate` of the plans that it writes and
 * against plans that it did not choose. */
struct promise_search {
    char model[96], platform[96], winner[PROMISE_TEXT];
    size_t batch, devices, candidates, grid;
    bool infeasible; /* nothing fits: nothing is promised */
    double winner_s;
    double table_error;   /* worst |table / simulate - 1| of all candidates */
    double over_baseline; /* winner / best baseline that fits - 1; -INFINITY: none */
    double over_grid;     /* winner / best plan of the grid - 1; -INFINITY: no grid was tried */
    char grid_best[PROMISE_TEXT];
    double least_floor; /* analytic predictions of all candidates over their floors, */
    double least_true;  /* and SimGrid's */
};
/* `most` devices at most; a grid of all plans by brute force when there are no more than 8. */
struct promise_search promise_search(struct promise_random *r, uint32_t family, size_t most);

/* The quick engine against SimGrid on plans of one model on one platform.
 *   quick_s, true_s  [n] out */
void promise_quick(struct promise_random *r, uint32_t family, size_t n, char name[PROMISE_TEXT],
                   double *quick_s, double *true_s);

#endif
