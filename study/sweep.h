/* sweep.h - `foreline sweep`: points of an experiment, computed once each. Private to the command.
 */
#ifndef STUDY_SWEEP_H
#define STUDY_SWEEP_H

#include <stdio.h>

#include "core/provenance.h"
#include "sim/engine.h"
#include "study/database.h"
#include "study/experiment.h"

/* Some of the points of an experiment, on the engine that they say or on another. */
struct sweep_points {
    const struct experiment *e;
    const struct engine *engine; /* NULL: that of each point's settings */
    size_t n;
    size_t *number;           /* [n] */
    char (*hash)[DIGEST_HEX]; /* [n] */
};

/* All points. An unknown model or platform is STATUS_PARSE with its line. O(points). */
enum status sweep_points_all(const struct experiment *e, struct sweep_points *out) MUST_CHECK;
/* These, on `engine`. */
enum status sweep_points_some(const struct experiment *e, const size_t *number, size_t n,
                              const struct engine *engine, struct sweep_points *out) MUST_CHECK;
void sweep_points_free(struct sweep_points *p); /* accepts {0}; leaves {0} */

struct sweep_run {
    struct database *db;
    size_t workers;       /* 0: one per core */
    size_t shard, shards; /* only points whose number is `shard` modulo `shards`; shards >= 1 */
    bool retry;           /* those that failed, too */
    const volatile int *stop;
};

/* Compute those that the database has not. *computed, *missing (of this shard; 0 unless stopped).
 */
enum status sweep_compute(const struct sweep_points *p, const struct sweep_run *run,
                          size_t *computed, size_t *missing) MUST_CHECK;

/* Points ranked: which of the choices is best, for each of the rest. */
struct sweep_ranking {
    const struct experiment *e;
    double *score; /* [points] higher is better, of the mean over seeds, at the point with the first
                    * seed; NAN: not all ok */
};
/* With the scores of `finalists` (NULL or none: not) instead of those of `all`. Groups that have
 * finalists rank only them. */
enum status sweep_rank(const struct sweep_points *all, const struct sweep_points *finalists,
                       struct database *db, struct sweep_ranking *out) MUST_CHECK;
void sweep_ranking_free(struct sweep_ranking *r); /* accepts {0}; leaves {0} */
/* Is it the first point of its group: first choice of every chosen axis, first seed? */
bool sweep_is_group(const struct experiment *e, size_t point);
/* The best points of a group, best first: up to `most` into best; returns how many have a score. */
size_t sweep_best(const struct sweep_ranking *r, size_t group, size_t *best, size_t most);
/* The best e->finalists of every group, with all their seeds; malloc'd. */
enum status sweep_finalists(const struct sweep_ranking *r, size_t **number, size_t *n) MUST_CHECK;

/* Numbers, hashes and varied settings, tab-separated. */
void sweep_print_list(const struct sweep_points *p, FILE *to);
/* Every row: settings, status, result; `separator` is a tab or a comma. Points that are not there
 * are left out. */
enum status sweep_print_rows(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct database *db, char separator, FILE *to) MUST_CHECK;

/* What a point of an axis is called; and what all that is chosen is called ("stages 8, zero 1"; "-"
 * when nothing is). */
const char *experiment_label(const struct experiment *e, size_t point, size_t axis);
const char *sweep_plan_label(const struct experiment *e, size_t point, char text[RESULT_VALUE]);
/* The result of a point by its number. O(n), of all points O(1). */
enum status sweep_get(const struct sweep_points *p, struct database *db, size_t number,
                      bool *found, struct point_result *out) MUST_CHECK;
/* The last axis that varies and is not chosen over: changes are sought along it. e->axes: none. */
size_t sweep_along(const struct experiment *e);

/* The best of each group, and where it changes along that axis. */
enum { SWEEP_CELL = 48, SWEEP_COLUMNS = EXPERIMENT_AXES + 3 };
struct sweep_table {
    size_t columns, rows;       /* row 0: names of columns */
    char (*cell)[SWEEP_CELL];   /* [rows * columns] */
    char (*note)[RESULT_REASON]; /* [rows] behind the last column */
    bool right[SWEEP_COLUMNS];  /* a number */
    size_t *best;               /* [rows] point, SIZE_MAX: none */
    size_t *before;             /* [rows] the best of the row before when that is another choice,
                                 * SIZE_MAX: it is not */
};
enum status sweep_tabulate(const struct sweep_points *all, const struct sweep_points *finalists,
                           struct database *db, struct sweep_table *out) MUST_CHECK;
void sweep_table_free(struct sweep_table *t); /* accepts {0}; leaves {0} */
/* For people. */
enum status sweep_print_best(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct database *db, FILE *to) MUST_CHECK;

/* A database to read: the experiment that was first started last. Borrows nothing; must stay where
 * it is. */
struct sweep_view {
    struct database *db;
    int64_t id;
    struct experiment e;
    struct sweep_points all, finalists; /* finalists.n 0: none */
};
enum status sweep_view_open(const char *path, struct sweep_view *out) MUST_CHECK;
void sweep_view_close(struct sweep_view *v); /* accepts {0}; leaves {0} */
/* Its rows, as sweep_print_rows() prints them, of the points that `keep` (NULL: all) says.
 * STATUS_PARSE when there are none. */
struct table;
enum status sweep_view_table(const struct sweep_view *v,
                             bool (*keep)(const void *context, size_t point), const void *context,
                             struct table *out) MUST_CHECK;
/* The result of a point, by the second engine if `finalist`. */
enum status sweep_view_get(const struct sweep_view *v, size_t point, bool finalist, bool *found,
                           struct point_result *out) MUST_CHECK;
/* As those functions take it: NULL when there are none. */
const struct sweep_points *sweep_view_finalists(const struct sweep_view *v);

#endif
