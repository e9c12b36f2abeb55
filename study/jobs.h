/* jobs.h - several plans at the same time on one platform, and background traffic beside them.
 *
 * Each job does iteration after iteration, from its start on, until all jobs have done as many as
 * are asked for while all run: those that begin when the last job has started and end before the
 * first one stops are counted. Its time together is their mean, its slowdown that over an iteration
 * alone. */
#ifndef STUDY_JOBS_H
#define STUDY_JOBS_H

#include "core/base/provenance.h"
#include "core/data/program_join.h"
#include "study/evaluate.h"
#include "study/load.h"

struct text_list;

struct job {
    char *name;       /* of the plan file, without folder and .json; owned, unique */
    const char *path; /* borrowed */
    struct loaded_plan p;
    double start_s;
    size_t iterations; /* simulated together */
    double alone_s, together_s;
    size_t counted;
    double *iteration_s; /* [counted] together */
    /* [repeats] means of what was emulated; NULL: nothing was */
    double *emulated_alone_s, *emulated_together_s;
};

/* A link that several jobs use at once, or a job and the traffic. */
struct jobs_link {
    uint32_t link;   /* of the topology */
    double shared_s; /* of the time in which all jobs run */
    double load;     /* share of its bandwidth that is used meanwhile */
    double *bytes;   /* [parts] of an iteration of each job; of the traffic per second */
    double *pair_s;  /* [a * parts + b], a < b: of shared_s, what these two use it at once */
};

/* Messages between two devices at a mean rate. */
struct jobs_flow {
    uint32_t from, to;
    double Bps;
};

struct jobs {
    size_t n;
    struct job *job; /* [n] */
    size_t flows;
    struct jobs_flow *flow; /* [flows] of the background, by sender, then receiver */
    size_t iterations;      /* asked for: so many are counted of each job */
    const struct engine *engine;
    const struct topology *topology; /* of all plans: the first one's */
    const char *platform;
    struct simulation_options options;
    /* out of jobs_run(): */
    struct program_joined joined; /* what was simulated last: parts are jobs, then traffic */
    struct program traffic;
    struct timeline timeline;
    double from_s, to_s; /* when all jobs run */
    double sent_Bps;     /* of the traffic, meanwhile */
    size_t repeats;      /* of the emulation; 0: there was none */
    size_t links;
    struct jobs_link *link; /* [links] most contended first: by shared_s x load */
};

/* Load the plans; `starts` are "NAME=TIME". STATUS_USAGE: a start of no job; STATUS_INVALID: plans
 * of different platforms, or without flush. */
enum status jobs_load(char *const *path, size_t n, const struct text_list *starts,
                      struct jobs *out) MUST_CHECK;
void jobs_free(struct jobs *js); /* accepts {0}; leaves {0} */

/* Is no device in two jobs? STATUS_INVALID names both and the device. */
enum status jobs_check(const struct jobs *js) MUST_CHECK;

/* Simulate each job alone: alone_s. STATUS_INVALID: an iteration takes no time. */
enum status jobs_alone(struct jobs *js) MUST_CHECK;
/* Then all together, until enough iterations of each are counted. STATUS_INFEASIBLE: iterations are
 * so different that it takes too many ops. */
enum status jobs_run(struct jobs *js) MUST_CHECK;
/* Fill link[], of a topology that knows its links. O(ops x links of a route). */
enum status jobs_find_links(struct jobs *js) MUST_CHECK;

/* Of iterations that begin at begin_s[] and end at end_s[], [n]: the mean of those within
 * [from, to], which become iteration_s[*counted]; NAN when there is none. */
double jobs_count(const double *begin_s, const double *end_s, size_t n, double from, double to,
                  double *iteration_s, size_t *counted);

/* Give the jobs other devices of the platform, and lower them again.
 *   packed  one job after the other, in the order of the platform
 *   spread  all devices of the platform dealt in turn, evenly
 *   search  the least sum of iterations together over those alone on the plans' own devices, from
 *           these three on, by exchanging devices of two jobs or one for a free one, as often as
 *           `tries` says, drawn from the seed
 * STATUS_INVALID: there are too few devices. */
const char *jobs_place_word(size_t i); /* NULL behind the last */
enum status jobs_place(struct jobs *js, const char *how, size_t tries, uint64_t seed) MUST_CHECK;

/* Background traffic of a table: columns from, to, rate ("10Gbps", or bytes per second), or a
 * matrix: first cell any, hosts above and at the left, bytes per second from row to column, 0 or
 * empty: none. STATUS_PARSE with file and line. */
enum status jobs_read_traffic(const char *path, struct jobs *js) MUST_CHECK;

/* JSON, format "foreline-jobs", or tables for people. */
enum status jobs_write(const struct jobs *js, const char *path,
                       const struct provenance *by) MUST_CHECK;
void jobs_print(const struct jobs *js, size_t link_rows, FILE *out);

#endif
