/* planning.h - plans from arguments: what `foreline plan` does, and points of experiments.
 *
 *     plan_check.c      are they possible with this model
 *     plan_framework.c  for which framework, where none is named
 *     plan_request.c    arguments -> a request to one algorithm; are they possible together, and
 *                       does a plan obey them?
 *     plan_search.c     `--algorithm auto`: the search
 *     plan_ranking.c    its ranking, as text and as JSON; why nothing fits
 *     plan_remedies.c   what would make a plan fit when none does
 *     plan_jitter.c     the ranking in noise
 *     plan_campaign.c   the ranking by the days of a whole training
 *     plan_explain.c    where the time of a plan goes
 *     plan_candidates.c the cuts of a graph that a search has scored
 *     papers.c          published objectives on their own inputs (papers.h)
 *     plan_print.c      stages, and all algorithms, as text and as JSON
 *     plan_words.c      a plan in a line
 *
 * A constraint that is given (stages, replicas, batch, ...) is kept by every algorithm, or there is
 * an error: no plan is ever made that breaks one silently. */
#ifndef STUDY_PLANNING_H
#define STUDY_PLANNING_H

#include <stdio.h>

#include "core/base/json.h"
#include "core/base/provenance.h"
#include "partition/partition.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/machine.h"
#include "study/settings.h"

/* In which way `foreline plan` is called, for arguments_check(): PLAN_AUTO, ... */
taker_set plan_takers(const struct arguments *a);
/* Are plans ranked by the days of a whole training? */
bool plan_is_by_campaign(const struct arguments *a);
/* Does everything that was given mean something to the way, the algorithm and the objective that
 * are asked for? STATUS_USAGE. */
enum status plan_check_given(const struct arguments *a) MUST_CHECK;

/* Are the constraints possible together? Fill in what follows from them: algorithm and stages from
 * split_at, microbatches from the batch. STATUS_USAGE. */
enum status plan_settle(struct arguments *a) MUST_CHECK;

/* The framework of a plan (core/strategy/framework.h) and, where that is not what was given but a
 * choice on GPUs of the catalogue, why: "compiled", unless the plan must be executable, times of
 * ops are measured, or the model's kernels are not known. Otherwise, and on cores of CPUs, NULL:
 * foreline. */
struct framework_choice {
    const char *name, *why; /* of the arguments, or constant; each may be NULL */
};
struct framework_choice plan_choose_framework(const struct arguments *a, const struct model *m,
                                              const struct topology *t);
/* "framework   compiled: none is named, ..."; nothing where there was no choice. */
void framework_choice_print(const struct framework_choice *f, FILE *out);
/* Why times of this model on these devices are not by a framework's kernels: constant; NULL: they
 * are. */
const char *framework_unknown(const struct model *m, const struct topology *t);

/* The request to an algorithm, for partition_run() or, as `fixed`, for auto_search(); zeros where
 * the arguments, which must be settled, say nothing. */
struct partition_request plan_request(const struct arguments *a);

/* Name of a constraint that the plan breaks, NULL if it keeps all. */
const char *plan_breaks(const struct plan *p, const struct arguments *a);

/* Can the model do what is given? STATUS_INFEASIBLE: it has no experts to spread, or not a multiple
 * of so many, or not so many layers to make again. STATUS_NOMEM. */
enum status plan_check_model(const struct arguments *a, const struct model *m) MUST_CHECK;
/* Do these stages have as many layers as are to be made again? More than the longest has would be
 * as good as all of them, and is not what was meant. STATUS_INFEASIBLE. */
enum status plan_check_layers(const struct arguments *a, const struct model *m,
                              const struct plan_stage *stage, size_t stages) MUST_CHECK;
/* Is anything of the model summed in numbers of --reduce-dtype, if that is given: over replicas,
 * shards or tied weights? STATUS_USAGE. For commands; a grid of points may have corners without. */
enum status plan_check_sums(const struct arguments *a, const struct model *m) MUST_CHECK;
/* One algorithm of partition/partition.h, with defaults for what `a` does not say. STATUS_USAGE
 * for an unknown algorithm or schedule, else as partition_run(). */
enum status plan_by_algorithm(const struct arguments *a, const struct model *m,
                              const struct topology *t, struct plan *out) MUST_CHECK;

/* The search, silently: all plans that keep the constraints, ranked by a->objective, of which there
 * is at least one. Finalists are evaluated as `context` says; `stop` as in partition/auto.h.
 * STATUS_INFEASIBLE when there is no such plan. */
enum status plan_search(const struct arguments *a, struct evaluation_context *context,
                        const volatile int *stop, struct auto_result *out) MUST_CHECK;
/* Is there a plan that fits, in the space of plan_search()? No is not proved: the search has a
 * budget. Seconds at most. STATUS_NOMEM. */
enum status plan_could_fit(const struct arguments *a, struct evaluation_context *context,
                           const volatile int *stop, bool *out) MUST_CHECK;
/* Of the samples of a candidate. */
struct plan_jitter {
    double mean_s, worst_s;
    uint64_t seed; /* of the worst */
};
/* Of a candidate with samples, c->sampled_s[a->samples]. */
struct plan_jitter plan_jitter_of(const struct auto_candidate *c, const struct arguments *a);
/* Have the plans of plan_search() simulated with a->samples samples of a->jitter each, whole, by
 * the engine of their ranking, and rank them by a->rank_by. In the order of the quiet ranking, for
 * as long as a fixed number of ops lasts; those behind it keep their order, after the others.
 * STATUS_UNSUPPORTED when not even the first one can be sampled. */
enum status plan_rank_in_jitter(const struct arguments *a, const struct evaluation_context *context,
                                const volatile int *stop, struct auto_result *r) MUST_CHECK;
/* Rank the plans of a search by the median days to a->train_tokens, of courses of one seed (first
 * those that fit): each with its best checkpoint interval, all with as many spare nodes, where
 * these are not given. Plans that take longer without failures than the best one with them keep
 * their order, behind the others. STATUS_USAGE: as campaign_job_make(). */
enum status plan_rank_in_campaign(const struct arguments *a, struct evaluation_context *context,
                                  const volatile int *stop, struct auto_result *r) MUST_CHECK;
/* The training by the first plan, what was assumed, and the plan of the shortest iteration if that
 * is another one. */
enum status plan_print_campaign(const struct arguments *a, const struct auto_result *r,
                                const struct evaluation_context *context, FILE *out) MUST_CHECK;
/* Samples per iteration, the same for all candidates: what is given, else 8 per device rounded down
 * to whole microbatches of what is given about these. */
size_t plan_samples(const struct arguments *a, const struct topology *t);
/* Bytes that a plan must leave free on a device of the type: what is given, else the platform's
 * framework_memory, else 5 % of the memory. STATUS_USAGE: --reserve is neither a size nor a
 * share. */
enum status plan_reserve(const struct arguments *a, const struct device_type *type,
                         int64_t *out) MUST_CHECK;
void plan_print_ranking(const struct auto_result *r, const struct arguments *a,
                        const struct evaluation_context *context, FILE *out);
/* "candidates": [...] of an object that is open, and "jitter" before it where that is asked for. */
void plan_put_candidates(struct json_writer *w, const struct auto_result *r,
                         const struct arguments *a);
/* STATUS_INFEASIBLE, with what the plan of least memory needs on which rank, and what would help,
 * by plan_remedies(). */
enum status plan_fails_to_fit(const struct auto_result *r, const struct arguments *a,
                              const struct evaluation_context *context,
                              const volatile int *stop) MUST_CHECK;
/* What would make a plan fit, found by trying: "; with --offload both it needs 70 GiB" of the one
 * change of `least` that needs least, "; without --stages a plan fits" of each option that was
 * given, "; on 64 such devices a plan fits (--platform rail:nodes=8)" where the platform is a
 * generated one: nodes are doubled until a plan fits, then counted up from where none was found, in
 * at most 8 steps. The memory of devices that would do for `least` is always said. Some seconds;
 * `stop` as in plan_search(). STATUS_NOMEM. */
enum { PLAN_REMEDIES = 768 };
enum status plan_remedies(const struct auto_candidate *least, const struct arguments *a,
                          const struct evaluation_context *context, const volatile int *stop,
                          char text[PLAN_REMEDIES]) MUST_CHECK;

/* By a->algorithm, or by the search: silently, for points of experiments and runs from files. The
 * arguments need not be settled. Errors: those of plan_settle(), plan_by_algorithm() and
 * plan_search(). */
enum status plan_make(const struct arguments *a, struct evaluation_context *context,
                      struct plan *out) MUST_CHECK;

/* A line for each cut of the model's graph that the search has scored, in SI units: who proposed
 * it, its stages, replicas and shards, bytes that cross, balance, estimate and prediction.
 * `samples` are those of an iteration. */
enum status plan_candidates_write(const struct auto_result *r, size_t samples, const char *path,
                                  const struct provenance *by) MUST_CHECK;

/* What a plan is limited by, and what would change if that were different; names as below. Large
 * plans are simulated folded, or where that cannot be without contention, which the text says.
 * `watch` (NULL: none) is told how many simulations are done; it cannot stop them. */
enum status plan_explain(const char *path, bool wide, const struct simulation_watch *watch,
                         FILE *out) MUST_CHECK;

/* Set the objective by an algorithm that only one published one has, where none is given. */
void plan_settle_objective(struct arguments *a);
/* Does the algorithm belong to a published objective whose plans say all by themselves (spmd)? */
bool plan_is_published(const struct arguments *a);
/* Does a->objective's algorithm decide by times on the devices of a platform, of plans that it
 * simulates? */
bool plan_is_on_devices(const struct arguments *a);
/* Its plan, of a model that a specification names, which `m` is, perhaps measured wrongly, on `t`.
 * STATUS_USAGE: something else is given that means nothing to it. */
enum status plan_of_objective(const struct arguments *a, const struct model *m,
                              const struct topology *t, struct plan *out) MUST_CHECK;
/* Solve or score one of the published objectives (papers.h). STATUS_IO: their module is not
 * there. */
enum status plan_by_objective(const struct arguments *a, const struct provenance *by,
                              const volatile int *stop) MUST_CHECK;

/* "TP 4, PP 4, VP 2, DP 2, CP 2, SP; interleaved, MBS 1, GBS 256; ZeRO-1 keep": degrees as
 * Megatron counts them (DP without the replicas that share a sequence), where they are not 1, "a-b"
 * where stages differ. Returns `text`. */
enum { PLAN_WORDS = 512 };
const char *plan_words(const struct plan *p, char text[PLAN_WORDS]);
/* What b has that a has not: "TP" 4 and 8, "recompute" none and full, ..., where stages of a plan
 * differ "1-3": sizes, knobs that mean something, schedule, optimizer; ops by stage (of the same
 * model) and devices (of the same platform), for which there are no words: `from` and `to` are
 * empty. Returns how many; 0: plans that do the same. */
enum { PLAN_CHANGES = STRATEGY_KNOBS + 12 };
struct plan_change {
    char what[STRATEGY_TEXT], from[STRATEGY_TEXT], to[STRATEGY_TEXT];
};
size_t plan_changes(const struct plan *a, const struct plan *b,
                    struct plan_change change[PLAN_CHANGES]);
/* "plan        TP 4, ...": the words in lines of at most 100 columns. */
void plan_print_words(const struct plan *p, FILE *out);
/* One line per stage: ops, seconds per microbatch of one shard, bytes of parameters, devices. At
 * most eight of at most 100 columns, for which names lose their middle; wide ones keep both. */
void plan_print_stages(const struct plan *p, const struct model *m, const struct topology *t,
                       bool wide, FILE *out);
/* What plan_print_json() says besides the plan. */
struct plan_outcome {
    const struct evaluation *evaluation; /* of the plan, by the engine that it names */
    struct training_machine machine;     /* its devices, and what they do */
    const struct auto_result *ranking;   /* NULL: there was no search */
    const struct arguments *a;           /* of the search */
    double cpu_s;                        /* of planning */
};
/* The document foreline-planning of docs/objectives. */
void plan_print_json(const struct plan *p, const struct model *m, const struct topology *t,
                     const struct plan_outcome *outcome, const struct provenance *by, FILE *out);
/* All algorithms with what they guarantee. */
void plan_print_algorithms(FILE *out);

#endif
