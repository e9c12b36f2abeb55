/* rank.h - which choice is the best, for each combination of the rest.
 *
 * Axes that are chosen over span a group; the rest of the varying axes tell groups apart, and seeds
 * are repetitions whose medians are compared. A group is named by its first point: first choice of
 * every chosen axis, first seed. */
#ifndef STUDY_RANK_H
#define STUDY_RANK_H

#include "study/sweep.h"

struct ranking {
    const struct experiment *e;
    double
        *score; /* [points] higher is better, of the median over seeds, at the point with the first
                    * seed; NAN: not all ok */
};
/* By all points; with `finalists` groups that have any rank only them, by the second engine. */
enum status rank_points(const struct sweep *s, bool finalists, struct ranking *out) MUST_CHECK;
void ranking_free(struct ranking *r); /* accepts {0}; leaves {0} */

bool rank_is_group(const struct experiment *e, size_t point);
/* The best points of a group, best first: up to `most` into best; returns how many have a score. */
size_t rank_best(const struct ranking *r, size_t group, size_t *best, size_t most);
/* The best e->finalists of every group, with all their seeds; malloc'd. */
enum status rank_finalists(const struct ranking *r, size_t **number, size_t *n) MUST_CHECK;

/* ---- axes, as tables and pages show them */

/* Does an axis vary, and is it one of those chosen over, or of the rest? */
bool rank_is_column(const struct experiment *e, size_t axis, bool chosen);
/* The last axis that varies and is not chosen over, engines only where nothing else does: changes
 * are sought along it. e->axes: none. */
size_t rank_along(const struct experiment *e);
/* Of rows 1 .. with these points (SIZE_MAX: none), the last one before `row` that differs only
 * along that axis; 0: none. */
size_t rank_before(const struct experiment *e, const size_t *best, size_t row);
/* Are two points alike in all axes that are chosen over, or in all of the rest but one (`along`;
 * e->axes: in all)? */
bool rank_alike(const struct experiment *e, size_t a, size_t b, bool chosen, size_t along);
/* How many choices there are to compare in a group; 1: nothing is chosen. */
size_t rank_plans(const struct experiment *e);
/* What is chosen at a point ("stages 8, zero 1"; "-" when nothing is); and what its group is, but
 * for `along` ("devices 64, model gpt2-xl"), with names of axes or labels alone. Both are cut at
 * RESULT_VALUE and return `text`. */
const char *rank_plan_label(const struct experiment *e, size_t point, char text[RESULT_VALUE]);
const char *rank_group_label(const struct experiment *e, size_t point, size_t along, bool names,
                             char text[RESULT_VALUE]);

/* ---- the best of each group, and where it changes along that axis (best.c) */

enum { BEST_CELL = 96, BEST_COLUMNS = EXPERIMENT_AXES + 5 };
struct best_table {
    size_t columns, rows;    /* row 0: names of columns */
    const char **cell;       /* [rows * columns] labels are the experiment's, as long as they are */
    char (*text)[BEST_CELL]; /* [rows * columns] of the cells that are made here */
    char (*note)[RESULT_REASON]; /* [rows] behind the last column */
    bool right[BEST_COLUMNS];    /* a number */
    size_t *best;                /* [rows] point, SIZE_MAX: none */
    size_t *second;              /* [rows] the second best point, SIZE_MAX: none */
    double *score;               /* [rows] of that point, as in struct ranking; NAN: none */
    double *ahead; /* [rows] so much faster than the second best, 0.1: by 10 %; NAN: no second */
    size_t
        *before; /* [rows] the best of the row before when that is another choice, SIZE_MAX: it is
                     * not */
    bool mixed;  /* plans of different frameworks */
};
enum status best_tabulate(const struct sweep *s, struct best_table *out) MUST_CHECK;
void best_table_free(struct best_table *t); /* accepts {0}; leaves {0} */
/* For people; that rows are predicted for different frameworks, a line in `notes`. */
enum status best_print(const struct sweep *s, FILE *to, FILE *notes) MUST_CHECK;

#endif
