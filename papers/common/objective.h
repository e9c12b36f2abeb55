/* objective.h - ways to judge a split, each with the algorithms that minimise it.
 *
 * The pipeline objective of this project (partition.h) plans for a platform. The objectives here
 * are those of published tools, computed exactly as they do, on their own inputs and in their own
 * units, so that results can be compared with theirs. An objective is a folder and a line of
 * model/papers.def; an algorithm is a file with OBJECTIVE_NAME_solve() and a line there. */
#ifndef PAPERS_COMMON_OBJECTIVE_H
#define PAPERS_COMMON_OBJECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/array.h"
#include "core/base/error.h"
#include "core/data/model.h"
#include "core/data/topology.h"
#include "study/settings.h"

struct objective_result;
struct plan;
struct provenance;

enum { OBJECTIVE_LEVELS = 8, OBJECTIVE_NOTE = 1024 };

/* What the command line says; 0 (NAN for memory) where it says nothing. */
struct objective_request {
    const char *spec;          /* of the model: path or zoo name */
    const struct model *model; /* NULL when the objective reads the file itself (own_format) */
    size_t devices, stages;
    double memory_bytes;
    size_t levels; /* of machines and bandwidths, innermost first */
    size_t machines[OBJECTIVE_LEVELS];
    double bandwidth_Bps[OBJECTIVE_LEVELS];
    size_t hierarchy_levels;
    size_t hierarchy[OBJECTIVE_LEVELS];     /* outermost first */
    const struct topology *topology;        /* devices and what lies between them; or NULL */
    uint32_t microbatches, microbatch_size; /* of a plan */
    /* cpsc526: told each value that is better than all before; may be NULL. */
    void (*better)(void *context, double value);
    void *context; /* of better() */
    size_t batch;  /* microbatches per batch; hidup: samples of an iteration, 0 as the model says */
    /* What only published objectives read, as it was given (model/papers_options.def) */
    struct papers_arguments said;
    double noise; /* hidup: of the numbers that a search is given; with so many samples */
    size_t samples;
    const char *optimizer; /* of the plan; NULL: adam */
    /* How long collectives of so many whole bytes take over the topology's first devices (kind [n]:
     * enum collective_kind); NULL: closed forms (core/collective/collective.h). */
    enum status (*collectives)(const struct topology *t, size_t devices, size_t n,
                               const uint8_t *kind, const int64_t *bytes, double *seconds);
    /* Seconds of an iteration of the plan that a result makes, INFINITY where it cannot run or does
     * not fit: the last word of algorithms that estimate such times. NULL: nobody says. */
    enum status (*simulate)(void *simulator, const struct objective_result *split, double *seconds);
    void *simulator;
    double time_limit_s; /* wall clock; 0: the algorithm's default */
    uint64_t seed;
    const volatile int *stop; /* non-zero: finish with the best so far; may be NULL */
};

struct objective_part {
    size_t ops;
    char **op; /* [ops] names (ids as text where the input has only ids) */
    uint32_t replicas, tensor_parallel;
    bool recompute;       /* of at least one op */
    bool recompute_all;   /* of all ops */
    char **configuration; /* [ops] name of what was chosen for each op; NULL: there is no choice */
    char *device;         /* "cpu", "fpga1", ... where the objective tells devices apart, or NULL */
};

/* Parts by part[], everything else in `memory`. */
struct objective_result {
    const char *algorithm; /* its name in the table */
    double value;          /* in the objective's own unit */
    double lower_bound;    /* proved; NAN if none */
    bool proved_optimal;   /* within the algorithm's stated search space */
    bool interrupted;      /* time limit or stop: best so far */
    size_t microbatches;   /* per batch, where the objective counts them; else 0 */
    size_t parts;
    struct objective_part *part; /* [parts] stages or devices in order */
    char *note; /* one line: search space, sizes after presolve, fallback ...; or NULL */
    double cpu_s;
    struct arena memory;
};

/* A row below an objective. Every algorithm of an objective minimises the same value over
 * splits that it says. */
struct objective_algorithm {
    const char *name;
    /* STATUS_INFEASIBLE with the reason when there is no plan; STATUS_INVALID when an option that
     * is needed is missing (named), STATUS_PARSE with file:line for a malformed input. */
    enum status (*solve)(const struct objective_request *r, struct objective_result *out);
    bool on_devices; /* decides by times on r->topology, and by r->simulate() */
};

/* How a decision can be shown. */
enum objective_look { OBJECTIVE_TEXT, OBJECTIVE_JSON, OBJECTIVE_DOT };

/* A row of the table. Values are in `unit`; they compare within one objective only. */
struct objective {
    const char *name, *unit, *summary;
    double unit_s;        /* seconds in one unit; 0 where it is not a time */
    const char *schedule; /* whose steady state it is about (core/schedule/schedule.h); NULL: any */
    bool own_format;      /* reads r->spec itself instead of r->model */
    bool nodes_apart;     /* wants every node of a graph file as an op, see model/import.h */
    /* Value of the split in the JSON file `split` (docs/reference/partitioners.md):
     * {"parts": [{"ops": [...]}]}
     * or the published tool's own format); NULL where there is no such thing. */
    enum status (*score)(const struct objective_request *r, const char *split, double *value);
    /* What was decided beyond the parts: a strategy; NULL where there is no such thing. */
    enum status (*show)(const struct objective_request *r, const struct objective_result *result,
                        enum objective_look look, const struct provenance *by, FILE *to);
    /* The stages of a plan that says more than parts do, on r->topology; NULL: what parts say. */
    enum status (*plan)(const struct objective_request *r, const struct objective_result *result,
                        struct plan *out);
};

#define OBJECTIVE(name, plans) extern const struct objective objective_##name;
#define ALGORITHM(objective, name, on_devices, summary, guarantee)                                 \
    enum status objective##_##name##_solve(const struct objective_request *r,                      \
                                           struct objective_result *out) MUST_CHECK;
#include "model/papers.def"
#undef OBJECTIVE
#undef ALGORITHM
extern const struct objective *const objectives[];
extern const size_t objectives_n;
enum status objective_find(const char *name, const struct objective **out) MUST_CHECK;
/* Algorithm number i of an objective, the default first; NULL: there are no more. */
const struct objective_algorithm *objective_algorithm(const struct objective *o, size_t i);
/* The one of this name, NULL: the default; STATUS_USAGE when there is none. */
enum status objective_find_algorithm(const struct objective *o, const char *name,
                                     const struct objective_algorithm **out) MUST_CHECK;
/* How far the value is above its proved bound, per cent; 0 where they differ by rounding alone, or
 * the bound seems to be above. */
double objective_gap(const struct objective_result *r);
enum status objective_solve(const struct objective *o, const char *algorithm,
                            const struct objective_request *r,
                            struct objective_result *out) MUST_CHECK;
void objective_result_free(struct objective_result *r); /* accepts {0}; leaves {0} */

/* ---- for algorithms */

/* Has the time come to stop? `begin_s` from clock_now(). */
bool objective_must_stop(const struct objective_request *r, double begin_s, double default_limit_s);
double objective_limit_s(const struct objective_request *r, double default_limit_s);

/* What the ops of a problem are called. */
struct objective_ops {
    size_t n;
    const struct model *model; /* [n] ops of a model, */
    const int64_t *id;         /* or nodes of a file by number */
};

/* Append the part of the ops with part_of[op] == which; `device` is copied, NULL: none. */
enum status objective_add_part(struct objective_result *out, const struct objective_ops *ops,
                               const uint32_t *part_of, uint32_t which,
                               const char *device) MUST_CHECK;
enum status objective_set_note(struct objective_result *out, const char *fmt, ...)
    PRINTF_LIKE(2, 3) MUST_CHECK;

#endif
