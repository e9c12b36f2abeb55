/* plan.h - the parts of `foreline plan`: one way of planning per file. Besides the command, points
 * of grids (study/point.h) plan by it. */
#ifndef STUDY_PLANNING_H
#define STUDY_PLANNING_H

#include <stdbool.h>
#include <stddef.h>

#include "partition/partition.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/option.h"

/* What the command line says; 0 or NULL where it says nothing. */
struct plan_arguments {
    const char *model, *platform, *algorithm, *schedule, *optimizer, *output, *explain;
    const char *objective, *score, *machines, *bandwidth, *hierarchy; /* lists as typed */
    const char *split_at;                                             /* likewise */
    const char *recompute;
    size_t tensor_parallel, expert_parallel, chunks, zero;
    size_t stages, replicas, microbatches, microbatch_size, batch, finalists, seed, devices;
    double time_limit_s, memory_bytes, bucket_bytes;
    bool json, charge_activations, straight, compat, sequence_parallel, executable;
};

/* What the command line says about a plan, zeros where it says nothing. STATUS_USAGE. */
enum status plan_request(const struct plan_arguments *a, struct partition_request *out) MUST_CHECK;

/* What the command takes when nothing is said. */
extern const struct plan_arguments plan_defaults;
/* Its options, and where they put what the command line says. */
extern const struct option_spec plan_options[];
extern struct plan_arguments plan_command_line;
/* Set what --NAME VALUE of the command sets; texts are borrowed. STATUS_USAGE: no such option, none
 * that says something about a plan, or a value that it does not take. */
enum status plan_set(struct plan_arguments *a, const char *name, const char *value) MUST_CHECK;
/* Are they possible together? --split-at becomes what follows from it. STATUS_USAGE. */
enum status plan_check_arguments(struct plan_arguments *a) MUST_CHECK;

/* One algorithm of partition/partition.h, with defaults for what `a` does not say. */
enum status plan_by_algorithm(const struct plan_arguments *a, const struct model *m,
                              const struct topology *t, struct plan *out) MUST_CHECK;

/* The search alone, silently: all that was ranked. Finalists are evaluated as `context` says;
 * `stop` as in partition/auto.h. */
enum status plan_search(const struct plan_arguments *a, struct evaluation_context *context,
                        const volatile int *stop, struct auto_result *out) MUST_CHECK;

/* By a->algorithm, or by the search: silently. */
enum status plan_make(const struct plan_arguments *a, struct evaluation_context *context,
                      struct plan *out) MUST_CHECK;

/* Search and rank (partition/auto.h); *out is the winner. Prints the ranking unless a->json. */
enum status plan_by_search(const struct plan_arguments *a, const struct model *m,
                           const struct topology *t, const char *platform,
                           struct plan *out) MUST_CHECK;

/* What a plan is limited by, and what would change if that were different. */
enum status plan_explain(const char *path) MUST_CHECK;

/* Solve or score one of the published objectives (partition/published/objective.h). */
enum status plan_by_objective(const struct plan_arguments *a) MUST_CHECK;
void plan_list_objectives(void);

/* One line per stage. */
void plan_print_stages(const struct plan *p, const struct model *m, const struct topology *t);

#endif
