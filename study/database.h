/* database.h - results of points in an SQLite file, one transaction per point.
 *
 *     experiment  name, text of its file, when it was first started
 *     member      which points an experiment has: number, and hash; `finalist` for those that the
 *                 second engine looked at
 *     point       hash of all settings, versions and input files; status, reason
 *     parameter   the settings of a point
 *     result      the prediction (result.h's columns), where there is one
 *     provenance  version, command line, host and process that computed a point, when, CPU seconds
 *
 * Write-ahead log: a process that is killed loses what it had not put, nothing else, and others may
 * read at any time. One process at a time may write: it holds a lock on PATH-lock. Texts of errors
 * begin with the path. */
#ifndef STUDY_DATABASE_H
#define STUDY_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "study/experiment.h"
#include "study/result.h"

struct provenance;
struct database;

/* Create or open for writing. STATUS_IO: cannot be opened, is read-only, damaged, no database of
 * sweeps, a newer version's, another process's, or locked for longer than 10 s. */
enum status database_open(const char *path, struct database **out) MUST_CHECK;
/* Open what is there, for reading only; another process may write to it. STATUS_IO likewise. */
enum status database_open_to_read(const char *path, struct database **out) MUST_CHECK;
/* Does a file begin like an SQLite database? */
bool database_is(const char *path);
void database_close(struct database *db); /* accepts NULL */

/* The id of an experiment, which is made unless it is there. `by` is remembered for what is put
 * from now on. */
enum status database_begin(struct database *db, const struct experiment *e,
                           const struct provenance *by, int64_t *experiment) MUST_CHECK;

/* How many experiments of other names are in it, if there is none of this one's: 0 for a new file,
 * and for one to which the experiment belongs. */
enum status database_strangers(struct database *db, const struct experiment *e,
                               int64_t *n) MUST_CHECK;

/* Say that points are the experiment's: hash[n], numbers number[n]. One transaction. */
enum status database_add_members(struct database *db, int64_t experiment, bool finalist, size_t n,
                                 const size_t *number, const char (*hash)[DIGEST_HEX]) MUST_CHECK;

/* The experiment that was first started last, as its file was, and its id. STATUS_IO when there is
 * none, or what is there is no experiment. */
enum status database_experiment(struct database *db, struct experiment *out,
                                int64_t *experiment) MUST_CHECK;
/* Its points by number: number[n], hash[n], malloc'd. STATUS_IO for what e cannot have. */
enum status database_members(struct database *db, int64_t experiment, bool finalist,
                             const struct experiment *e, size_t *n, size_t **number,
                             char (**hash)[DIGEST_HEX]) MUST_CHECK;

/* Who computed an experiment's points: one for each version, command and host, by time. */
struct database_source {
    const char *version, *command, *host, *first, *last; /* borrowed; times finished, UTC */
    size_t points;
    double cpu_s;
};
enum status database_sources(struct database *db, int64_t experiment,
                             void (*tell)(void *context, const struct database_source *s),
                             void *context) MUST_CHECK;

/* Look a point up by its hash. */
enum status database_get(struct database *db, const char *hash, bool *found,
                         struct point_result *out) MUST_CHECK;

/* Store a point, instead of what is there under its hash. One transaction. */
enum status database_put(struct database *db, const char *hash,
                         const struct experiment_setting *const *setting, size_t n,
                         const struct point_result *r) MUST_CHECK;

/* Take over the points of another such file that are not here. One transaction. */
enum status database_merge(struct database *db, const char *path, size_t *added) MUST_CHECK;

#endif
