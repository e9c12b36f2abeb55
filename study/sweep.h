/* sweep.h - `foreline sweep`: the points of an experiment, computed once each and kept in a
 * database.
 *
 * The order of a sweep: points are identified (a hash of all they depend on), those that the
 * database has not are computed, predictions before any run, then ranked (rank.h) and printed. */
#ifndef STUDY_SWEEP_H
#define STUDY_SWEEP_H

#include <stdio.h>

#include "core/base/provenance.h"
#include "core/engine/engine.h"
#include "study/database.h"
#include "study/experiment.h"

/* Some of the points of an experiment. */
struct sweep_points {
    size_t n;
    size_t *number;           /* [n] */
    char (*hash)[DIGEST_HEX]; /* [n] */
};

struct sweep {
    struct experiment e;
    struct database *db;
    int64_t id;                         /* of the experiment in the database */
    struct sweep_points all, finalists; /* finalists: those that SimGrid looks at, too */
    bool has_finalists;                 /* they are known, though there may be none */
};
void sweep_free(struct sweep *s); /* accepts {0}; leaves {0}; closes the database */

/* Identify all points of s->e: sets s->all. An unknown model or platform is STATUS_PARSE with its
 * line. O(points). */
enum status sweep_identify(struct sweep *s) MUST_CHECK;

struct sweep_run {
    size_t workers;       /* 0: one per core, and one where plans are run */
    size_t shard, shards; /* only points whose number is `shard` modulo `shards`; shards >= 1 */
    bool retry;           /* those that failed, too */
    bool add;             /* also to a database of other experiments */
    const volatile int *stop;
    FILE *notes;                          /* which files of shards were taken in */
    FILE *progress;                       /* a line that is written over and over; NULL: none */
    const struct simulation_watch *watch; /* told of points, its answer ignored; NULL: nobody */
};
struct sweep_count {
    size_t computed, missing; /* missing: of this shard; 0 unless stopped */
};

/* Compute what the database at `path` has not: all points, and the finalists once all are there.
 * All predictions are in the database before the first plan is run, so that none can have seen a
 * measurement. What shards have computed beside `path` is taken in first. Sets db, id and finalists
 * of *s. STATUS_USAGE: a database of other experiments, without `add`. */
enum status sweep_compute(struct sweep *s, const char *path, const struct provenance *by,
                          const struct sweep_run *run, struct sweep_count *out) MUST_CHECK;

/* A database to read: the experiment that was first started last. */
enum status sweep_open(const char *path, struct sweep *out) MUST_CHECK;

/* The result of a point, by the second engine if `finalist`. O(1); of finalists O(finalists). */
enum status sweep_get(const struct sweep *s, size_t point, bool finalist, bool *found,
                      struct point_result *out) MUST_CHECK;
/* The second engine's where it has looked at the point, else the first one's. */
enum status sweep_get_best(const struct sweep *s, size_t point, bool *found,
                           struct point_result *out) MUST_CHECK;
/* How many results there are of each status, finalists' too; how many are missing; and why the
 * first point without a prediction has none, "" where all have one (reason may be NULL). */
enum status sweep_count(const struct sweep *s, size_t count[POINT_STATUSES], size_t *missing,
                        char reason[RESULT_REASON]) MUST_CHECK;

/* ---- tables of all points (rows.c) */

/* Numbers, hashes and varied settings, tab-separated. */
void sweep_print_list(const struct sweep *s, FILE *to);
/* Every row: settings, status, result; `separator` is a tab or a comma. Points that are not there
 * are left out, and those that `keep` (NULL: all) does not say. */
enum status sweep_print_rows(const struct sweep *s, bool (*keep)(const void *context, size_t point),
                             const void *context, char separator, FILE *to) MUST_CHECK;
/* The same as a table for plots. STATUS_PARSE when there are no rows. */
struct plot_table;
enum status sweep_table(const struct sweep *s, bool (*keep)(const void *context, size_t point),
                        const void *context, struct plot_table *out) MUST_CHECK;

#endif
