/* constants.h - the numbers of kernels and frameworks that nobody publishes: what they are a
 * priori, by tables of kernels, data sheets and papers, and what they are after a fit to published
 * training runs.
 *
 * constants.def is the table, and the only place of both; `foreline lab scoreboard ... --fit`
 * writes it anew (lab/scoreboard/published_fit.h). Rows of frameworks.def name theirs by
 * FITTED(id). */
#ifndef CORE_STRATEGY_CONSTANTS_H
#define CORE_STRATEGY_CONSTANTS_H

#include <stdio.h>

enum constant {
#define CONSTANT(id, shipped, prior, width, least, most, help, source, fitted) CONSTANT_##id,
#include "core/strategy/constants.def"
#undef CONSTANT
    CONSTANTS
};

/* A value of each, by enum constant. */
struct constants {
    double value[CONSTANTS];
};

struct constant_row {
    const char *name;
    double shipped;
    double prior;       /* the value of who has seen no training run */
    double width;       /* by which it may be off, of logarithms: one standard deviation */
    double least, most; /* what is possible */
    const char *help;   /* what it is */
    const char *source; /* of `prior` */
    const char *fitted; /* the runs that changed it from there to `shipped` */
};

extern const struct constant_row constant_rows[CONSTANTS];

struct constants constants_shipped(void);
struct constants constants_prior(void);
/* The table with other values, in two or three digits, and words for `fitted`: what constants.def
 * is. */
void constants_write(const struct constants *c, const char *const fitted[CONSTANTS], FILE *to);

#endif
