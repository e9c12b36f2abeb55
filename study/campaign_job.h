/* campaign_job.h - a plan as a training of weeks: what it computes, what may fail under it, what
 * its checkpoints weigh; and the answers about it. */
#ifndef STUDY_CAMPAIGN_JOB_H
#define STUDY_CAMPAIGN_JOB_H

#include "campaign/campaign.h"
#include "campaign/storage.h"
#include "core/base/provenance.h"
#include "study/campaign_settings.h"
#include "study/campaign_shrink.h"
#include "study/evaluate.h"

enum { CAMPAIGN_SPARES_MOST = 256 }; /* spare nodes that are tried where --spares is not given */

/* Refers to what it was made of. */
struct campaign_job {
    const struct plan *plan;
    const struct evaluation_context *on; /* model, topology, platform file */
    struct failures failures;
    const char *rates; /* as given: "llama3:scale=2"; borrowed of the arguments */
    struct storage storage;
    struct storage_load load;
    struct campaign c; /* refers to `failures` and `shrink` */
    struct campaign_shrink shrink;
    double nodes, tokens, tokens_per_s;
    double watts, price_per_hour; /* of all devices; 0: not known */
    bool beside;                  /* checkpoints are written beside the training */
    double copy_s;                /* a checkpoint from the fullest device to its host's memory */
    double stop_s, interference;  /* as asked: beside copies; of checkpoints written beside */
    bool chosen_every, chosen_spares; /* by us, as the best */
};

/* A plan, and what is said of its training; s->a.train_tokens is given. *out must stay where it is,
 * and be freed after failures, too.
 *   iteration_s  0: predicted by s->a.sim.engine, NULL: the analytic one
 * STATUS_USAGE, and what predicting a plan may fail with. */
enum status campaign_job_make(const struct campaign_settings *s, const struct plan *plan,
                              const struct evaluation_context *on, double iteration_s,
                              struct campaign_job *out) MUST_CHECK;

void campaign_job_free(struct campaign_job *j); /* accepts {0}; leaves {0} */

/* What would shorten it: a change, and what it leaves of the wall time. */
struct campaign_remedy {
    const char *text;
    double wall_s; /* on average */
};
enum { CAMPAIGN_REMEDIES = 9 };
/* Remedies that shorten it at all, the best one first; *n of them. *now_s: as it is, by the same
 * draws. STATUS_NOMEM. */
enum status campaign_remedies(const struct campaign_job *j, uint64_t seed, double *now_s,
                              struct campaign_remedy out[CAMPAIGN_REMEDIES], size_t *n) MUST_CHECK;

/* The answer for people, and as JSON (format "foreline-campaign") to stdout. */
struct campaign_answer {
    struct campaign_forecast f;
    struct campaign_remedy remedy[CAMPAIGN_REMEDIES];
    size_t remedies;
    double now_s;
};
/* Its first lines: the days, and what was assumed. */
void campaign_print_days(const struct campaign_job *j, const struct campaign_forecast *f,
                         FILE *out);
void campaign_print_settings(const struct campaign_job *j, FILE *out);
void campaign_print(const struct campaign_job *j, const struct campaign_answer *a, FILE *out);
enum status campaign_write(const struct campaign_job *j, const struct campaign_answer *a,
                           const char *path, const struct provenance *by) MUST_CHECK;

/* A table of what the campaign would be with other values of one of its quantities: "interval",
 * "spares", or "size": of as many replicas more or fewer, all else alike. */
enum status campaign_print_over(const struct campaign_job *j, const char *axis, uint64_t seed,
                                FILE *out) MUST_CHECK;

#endif
