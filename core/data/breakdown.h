/* breakdown.h - where the time of an iteration went, in one table and one sentence. */
#ifndef CORE_DATA_BREAKDOWN_H
#define CORE_DATA_BREAKDOWN_H

#include "core/data/measurement.h"

/* Seconds, mean over the ranks; together one iteration. Of a real run they are those of its median
 * step, or of the faster of the two middle ones. m->iteration_s is then the mean of these two, so
 * take shares of breakdown_sum(). */
struct breakdown {
    double compute_s;              /* forward and backward passes */
    double optimizer_s;            /* updates */
    double exposed_s[OP_PURPOSES]; /* communication that compute waits for */
    double bubble_s;               /* the rest: nothing to compute, nothing in flight */
};

/* All 0 without ranks. O(ranks). */
struct breakdown breakdown_of(const struct measurement *m);
double breakdown_sum(const struct breakdown *b);
/* The parts by number, in the order of tables: seconds of part k, and what it is called: "compute",
 * "exposed pipeline transfers", ..., "optimizer", "bubble". Returns `text`. */
enum { BREAKDOWN_PARTS = OP_PURPOSES + 3, BREAKDOWN_PART = 64 };
double breakdown_part(const struct breakdown *b, size_t k);
const char *breakdown_part_name(size_t k, char text[BREAKDOWN_PART]);

enum { BREAKDOWN_TEXT = 400 };
/* What holds the iteration back most and what would help, in one sentence. The candidates are
 * compute that is spread unevenly (the busiest rank against the mean; twice, as it is the easiest
 * to mend), exposed communication (the largest purpose), and the bubble beyond the uneven compute;
 * when together they are less than a fifth of the time, compute itself. Returns `text`. */
const char *breakdown_bottleneck(const struct measurement *m, char text[BREAKDOWN_TEXT]);

#endif
