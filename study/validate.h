/* validate.h - how good predictions are: plans of an experiment predicted, run, and compared.
 *
 * A validation is an experiment (experiment.h) whose axis `engine` lists engines that predict
 * and one that runs plans, and whose axis `seed` numbers the runs of each plan. Its other axes
 * make plans: a point here is a plan, named after what varies. All predictions are on disk
 * before the first run.
 *
 *     validate_experiment.c  options -> experiment -> points
 *     validate_run.c         plans, predictions and measurements, in a folder
 *     validate_setup.c       what was asked for, where and when
 *     validate.c             points and their files; measurement files of others
 *     validate_table.c       rows and summaries
 *     validate_report.c      report.md, results.tsv and pictures */
#ifndef STUDY_VALIDATE_H
#define STUDY_VALIDATE_H

#include <stdio.h>

#include "core/base/provenance.h"
#include "core/data/measurement.h"
#include "study/point.h"

/* ---- what is validated */

struct validate_point {
    char *name;    /* of its files and in the table */
    char *plan;    /* path of the plan file */
    char *failure; /* why it is not, or not wholly, in the table; NULL */
    size_t number; /* of its first run, in the experiment */
};

struct validation {
    size_t points;
    struct validate_point *point; /* [points] */
    size_t files;
    struct measurement *m; /* [files] predictions and runs */
    char **file;           /* [files] where each was read from or belongs; what plots call it */
};

/* The engines that predict, and how many. */
enum { VALIDATE_ENGINES = 2 };
const struct engine *validate_engine(size_t k); /* k < VALIDATE_ENGINES */

enum status validate_add_point(struct validation *v, const char *name, const char *plan) MUST_CHECK;
/* Takes *m over, leaving {0}. */
enum status validate_add_file(struct validation *v, const char *path,
                              struct measurement *m) MUST_CHECK;
/* Remember the current error message as the point's failure, unless it has one. */
enum status validate_fail(struct validate_point *p) MUST_CHECK;
void validation_free(struct validation *v); /* accepts {0}; leaves {0} */

enum { VALIDATE_NAME = 64 }; /* of a plan: style_plan_name() */

/* Add measurement files of runs, and predictions of their plans, made now; written below
 * `directory` unless that is NULL. Files whose plan is missing, has changed or cannot be predicted
 * make failed points. */
enum status validate_read_files(struct validation *v, const char *const *path, size_t n,
                                const char *directory, const struct provenance *by) MUST_CHECK;

/* ---- the experiment */

/* The experiment that options and plan files (none: a grid of plans) of the command make. Lists
 * have commas between. STATUS_USAGE for a value that is not taken, is empty or stands in its list
 * twice, and for more than a million points. */
enum status validate_compose(const struct arguments *a, const char *const *plan, size_t plans,
                             struct experiment *out) MUST_CHECK;

/* Is that operand an experiment ("x.yml", "x.yaml"), and no plan file? */
bool validate_is_experiment(const char *path);

struct validate_job {
    const char *directory;
    struct experiment e;
    size_t repeats;                  /* runs of each plan */
    uint64_t seed;                   /* of plans, and of the order of runs */
    struct point_run run;            /* how the first plan is run */
    double timeout_s;                /* longest silence of a worker */
    const volatile int *interrupted; /* once set, no run begins; may be NULL */
    FILE *progress;                  /* a line for each run; NULL: none */
    const struct provenance *by;
};

/* Find out the job of job->e: repeats, seed and run; and its points, in *v, which must be {0}.
 * STATUS_USAGE when two points have one name, or the engines are not what is said above. */
enum status validate_make_points(struct validate_job *job, struct validation *v) MUST_CHECK;
/* A file name that tells a point of an experiment apart, of the axes that vary, engines and seeds
 * apart: "laptop-s2-1f1b-m8"; "plan" if none does. Distinct when the base names of paths are. */
enum { VALIDATE_POINT_NAME = 128 };
void validate_point_name(const struct experiment *e, size_t number, char name[VALIDATE_POINT_NAME]);

/* ---- the folder
 *   experiment.yml   the experiment, as `foreline sweep` takes it
 *   grid.json        what was asked for, on which machine, since when
 *   plans/NAME.json, predicted/NAME.ENGINE.json, measured/NAME.REPEAT.json
 *   predictions.tsv  every prediction with its SHA-256; complete before the first measurement
 *   runs.tsv         a line per run made, in order
 * Every file appears when complete, so that a second start goes on where the first one ended. */

enum { VALIDATE_PATH = 4096 };
/* "DIRECTORY/FOLDER/NAMESUFFIX"; folder "" for none. STATUS_INVALID when it is too long. */
enum status validate_path(const char *directory, const char *folder, const char *name,
                          const char *suffix, char path[VALIDATE_PATH]) MUST_CHECK;
bool validate_exists(const char *path);
/* Make a folder of the directory, "" the directory itself, unless it is there. STATUS_IO. */
enum status validate_make_directory(const char *directory, const char *folder) MUST_CHECK;
/* Create a file of the directory itself, for file_commit(). */
struct file_out;
enum status validate_create(const char *directory, const char *name,
                            struct file_out *out) MUST_CHECK;

/* Add a line to runs.tsv: time, run, plan, repeat, load, result. */
enum status validate_log(const char *directory, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

/* What the report says about where and when; all owned. */
struct validate_setup {
    char *command, *version; /* that began it */
    char *request;           /* SHA-256 of what was asked for */
    char *host, *cpu, *kernel;
    int64_t cores, memory_bytes;
    char *began;            /* times are UTC: 2026-11-21T17:50:03Z */
    char *predicted, *hash; /* when predictions.tsv was complete, its SHA-256 */
    char *measured;         /* when the first measurement began; NULL: none did */
    size_t runs;            /* lines of runs.tsv */
    double load[3];         /* load average at the start of runs: least, median, greatest */
};

/* Make the folder and write grid.json, or read the one that is there: STATUS_INVALID when it is
 * about another experiment, made by another version or on another machine. *out must be {0}. */
enum status validate_open(const struct validate_job *job, const struct validation *v,
                          struct validate_setup *out) MUST_CHECK;
/* Read from runs.tsv and predictions.tsv what the report says. */
enum status validate_read_times(const char *directory, struct validate_setup *out) MUST_CHECK;
void validate_setup_free(struct validate_setup *s); /* accepts {0}; leaves {0} */

/* Make plans and predictions that are missing, on all cores, then predictions.tsv; or check that it
 * says the same: STATUS_INVALID. Points without a plan or a prediction fail. */
enum status validate_predict(const struct validate_job *job, struct validation *v) MUST_CHECK;
/* Make the measurements that are missing: per repeat every point once, in an order shuffled by the
 * seed. A point that cannot be run fails and is not tried again. STATUS_INVALID when
 * predictions.tsv is not there. Ends early, with STATUS_OK, when interrupted. */
enum status validate_measure(const struct validate_job *job, struct validation *v) MUST_CHECK;
/* Add the files of all points: predictions first, then runs. */
enum status validate_collect(const struct validate_job *job, struct validation *v) MUST_CHECK;

/* ---- the table */

struct validate_row { /* a plan that was predicted and run by one engine */
    char plan[VALIDATE_NAME];
    const char *platform, *engine; /* borrowed; engine: that ran it */
    size_t runs, iterations;
    double measured_s;    /* median of the runs' medians */
    double low_s, high_s; /* quartiles of all iterations of all runs */
    double samples;       /* per iteration */
    double predicted_s[VALIDATE_ENGINES], error[VALIDATE_ENGINES]; /* NAN: no prediction */
};

/* One predicting engine against one that ran. Orders are those of the time per sample, so that
 * plans of different batches can be compared. */
struct validate_summary {
    const char *predicted_by, *measured_by; /* borrowed */
    const char *platform;                   /* NULL: all there are */
    size_t plans;
    double median_error, worst_error; /* absolute */
    size_t worst, chosen, best;       /* rows: worst error, predicted fastest, measured fastest */
    /* NAN as in core/data/compare.h, regrets also over several platforms; of the plan predicted
     * fastest, and of the best of the first REGRET_FIRST */
    double kendall_tau, regret, regret_first;
    double regret_least; /* below regret: several plans are predicted to be the fastest */
    size_t noisy;        /* plans whose quartiles are further apart than prediction and median */
    double spread;       /* distance of the quartiles / median, median over the plans */
};

struct validate_table {
    size_t rows, summaries;
    struct validate_row *row;         /* [rows] by point, then by engine */
    struct validate_summary *summary; /* [summaries] */
};

/* Borrows strings of *v. No rows when nothing was both predicted and run. O(files^2). */
enum status validate_tabulate(const struct validation *v, struct validate_table *out) MUST_CHECK;
void validate_table_free(struct validate_table *t);
/* Tab-separated, SI units, with # lines for failed points and summaries. */
void validate_print(const struct validation *v, const struct validate_table *t, FILE *out);
/* "simgrid against tcp: 4 plans; ..." */
enum { VALIDATE_TEXT = 512 };
const char *validate_describe(const struct validate_table *t, const struct validate_summary *s,
                              char text[VALIDATE_TEXT]);

/* "noise: the runs of 5 of 8 plans ...; stop other work": the runs scatter too much to judge, by
 * the errors of the engine that judges, or of the quick one where it predicts nothing. NULL where
 * fewer than half of the plans are noisy or the median spread is at most 10 %. */
const char *validate_noise(const struct validate_table *t, char text[VALIDATE_TEXT]);

/* ---- the report */

struct validate_outcome { /* borrows all */
    const struct validation *validation;
    const struct validate_table *table;
    const struct validate_job *job;     /* NULL, like setup: measurement files of others */
    const struct validate_setup *setup; /* validate_read_times() done */
    const char *directory;
    FILE *notes; /* a line when there are no pictures, as there is no gnuplot */
    const struct provenance *by;
};

/* Write results.tsv, scatter.svg and bars.svg with their tables (when there are rows and gnuplot)
 * and report.md. Same input, same bytes. */
enum status validate_report(const struct validate_outcome *o) MUST_CHECK;
/* "warning: the machine was not idle: ... (in 3 of 18 predictions and runs)": each kind of warning
 * once. O(warnings^2). */
void validate_print_warnings(const struct validation *v, FILE *out);

#endif
