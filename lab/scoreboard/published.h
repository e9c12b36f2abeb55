/* published.h - runs that others measured and published, predicted and compared: how far off we
 * are.
 *
 * A row is a configuration and what was measured of it. What is predicted is a function of the
 * configuration alone: published_predict() is not given the other part.
 *
 *     published_read.c   files of the published schema -> rows
 *     published_other.c  the formats of vTrain and Sailor -> rows
 *     published_profile.c  times of layers that others measured, of Sailor's form
 *     published_facts.c  texts of rows -> framework, GPU, type of numbers, ZeRO, recomputation
 *     published_setup.c  configuration -> struct setup -> model, platform, plan
 *     published.c        plan -> prediction, rows side by side; the same with other constants
 *     published_score.c  errors, rank correlations and regrets of groups of rows
 *     published_fit.c    constants fitted to rows, and without some (published_fit.h)
 *     published_expected.c  how far off the next one may be, by those (published_expected.h)
 *     published_layers.c what layers take, out of a few runs (published_layers.h)
 *     published_plans.c  rows with a time as plan files
 *     published_print.c  all of that as text, JSON, tables and a picture */
#ifndef LAB_SCOREBOARD_PUBLISHED_H
#define LAB_SCOREBOARD_PUBLISHED_H

#include <stdint.h>
#include <stdio.h>

#include "core/base/array.h"
#include "core/base/provenance.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "core/strategy/constants.h"
#include "study/frameworks/setup.h"

/* ---- rows */

enum published_said { SAID_NOTHING, SAID_NO, SAID_YES };

enum {
    PUBLISHED_ROWS = 100000,   /* of all files */
    PUBLISHED_TEXT = 1000,     /* letters of a text of a row */
    PUBLISHED_ARGUMENTS = 500, /* of the framework, of a row */
    PUBLISHED_GPUS = 1 << 16,
    PUBLISHED_BATCH = 10000000
};

struct published_argument {
    const char *name, *value; /* value NULL: a flag */
};

/* Numbers 0 and texts NULL: not said. Texts as in the file. */
struct published_config {
    const char *source;             /* name of the set, repository and address */
    const char *framework, *system; /* who trained, as the row or its set says */
    const char *name;               /* of the model */
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
    int64_t experts, top_k, expert_ffn, moe_layers, window, window_layers;
    int64_t gated, tied, biases, learned; /* enum published_said, as all yes and no here */
    const char *profile;                  /* the model's name in profiles of layers */
    const char *gpu, *network, *dtype;
    int64_t gpus, gpus_per_node;
    int64_t tp, pp, vp, cp, ep, expert_tp, micro_batch, local_batch, global_batch, microbatches;
    int64_t sequence_parallel, compiled, async_tp, fsdp, exchange_overlap;
    const char *zero, *reduce, *recompute, *schedule, *task, *layout, *attention, *tp_overlap,
        *optimizer_step, *container, *table, *graph, *graph_scope, *dispatcher;
    size_t cuts;
    int64_t *cut; /* [cuts] transformer layers of each stage; 0: evenly */
    size_t arguments;
    struct published_argument *argument; /* [arguments] of Megatron */
};

/* 0: not measured. */
struct published_measured {
    double step_s, derived_s; /* of an iteration: measured; of others' rounded figures */
    double tokens_per_s;      /* of a GPU */
    double tokens_if;         /* the same out of FLOP/s, by one way to count those of attention */
    double samples_per_s;     /* of all GPUs */
    double memory_gib;        /* at the peak, of the fullest GPU */
    double last_gib;          /* of a GPU of the last stage */
};

struct published_row {
    const char *set, *id;
    struct published_config config;
    struct published_measured measured;
    const char *left_out; /* why; NULL: it is not */
};

/* What layers took that somebody measured by themselves. */
struct gpu;
enum { PROFILE_TIMES = 3 };
struct published_profile {
    const char *name; /* of the model */
    const struct gpu *gpu;
    int64_t micro_batch, tp;
    size_t layers; /* the embedding, layers, the head */
    struct {
        double s[PROFILE_TIMES]; /* forward, backward, update; what shards sum is in it */
    } * time;                    /* [layers] */
};

struct published {
    struct arena memory; /* of everything here */
    size_t sets;
    const char **set; /* [sets] in order of the files */
    size_t rows;
    struct published_row *row; /* [rows] */
    size_t profiles;
    struct published_profile *profile; /* [profiles] */
};

/* Append the rows of a file, or of all files of a directory, by name, that are of a format that we
 * know. STATUS_PARSE with path:line:column where a file is none, or has no rows; a row of which a
 * field is of the wrong kind or out of range is left out and says so. */
enum status published_read(const char *path, struct published *p) MUST_CHECK;
/* The same for a text in memory; `path` names the set. */
enum status published_parse(const char *path, const char *text, size_t length,
                            struct published *p) MUST_CHECK;
void published_free(struct published *p); /* accepts {0}; leaves {0} */

/* For readers: append a row of the set; the pointer is good until the next one. NULL: no memory, or
 * too many rows. */
struct published_row *published_add(struct published *p, const char *set);
enum status published_leave_out(struct published *p, struct published_row *row, const char *fmt,
                                ...) PRINTF_LIKE(3, 4);
/* Is the text of that format? Then its rows are appended. */
struct json_document;
bool published_is_vtrain(const char *text);
enum status published_parse_vtrain(const char *path, const char *text,
                                   struct published *p) MUST_CHECK;
enum status published_add_sailor(const struct json_document *d, const char *path,
                                 struct published *p) MUST_CHECK;
struct json_at;
bool published_is_profile(const struct json_at *root);
enum status published_add_profile(const struct json_at *root, struct published *p) MUST_CHECK;

/* ---- facts behind texts */

/* Who trained: what rows leave unsaid. */
struct published_source {
    const char *word;                     /* of the framework, or in the source */
    const char *framework;                /* of core/strategy/framework.h; NULL: not known */
    bool sequence;                        /* tensor parallelism comes with sequence parallelism */
    bool tensor_overlap;                  /* and is overlapped with it */
    bool plain;                           /* attention keeps its scores */
    bool scatter;                         /* shards send parts of activations to the next stage */
    int64_t reduce_bits;                  /* of gradients that are summed; 0: as in the model */
    bool overlap;                         /* gradients are summed during the last backward */
    bool dropout;                         /* there is */
    bool as_stages;                       /* as many microbatches as stages where none are said */
    bool cut_by_work;                     /* stages have equal shares of products, not of layers */
    enum { DEPTH_ONE, DEPTH_FIVE } depth; /* virtual stages where none are said */
};
const struct published_source *published_source(const struct published_config *c);

/* STATUS_UNSUPPORTED: with the reason why such a row cannot be predicted. */
enum status published_dtype(const struct published_config *c, enum data_type *out) MUST_CHECK;
enum status published_zero(const struct published_config *c, int64_t *out) MUST_CHECK;
enum status published_recompute(const struct published_config *c, struct setup *s) MUST_CHECK;
/* Where the prediction is above its device's memory, what of its bytes may have been elsewhere at
 * no cost of time, taken off; its words. NULL: nothing of the kind. */
struct published_prediction;
const char *published_spare(const struct published_config *c, struct published_prediction *p);
/* Assumption k >= 0 about what the row leaves unsaid, into *s; its words. NULL: there is none. */
const char *published_assume(const struct published_config *c, size_t k, struct setup *s);
/* The share of activations that the host has. */
double published_away(const struct published_config *c);
/* Bytes that the row's GPU has. */
int64_t published_memory(const struct published_config *c, int64_t nominal);
/* "nvl:domains=4,gpus=64,type=GB200": the platform of such a row. */
enum { PUBLISHED_PLATFORM = 512 };
enum status published_platform(const struct published_config *c,
                               char text[PUBLISHED_PLATFORM]) MUST_CHECK;

/* "megatron:host=0.5": the framework, as plan_set_framework() takes it. */
void published_framework(const struct published_config *c, const struct constants *constants,
                         char text[PUBLISHED_PLATFORM]);

/* ---- predictions */

/* A configuration as model and plan. STATUS_INVALID, STATUS_UNSUPPORTED: with the reason why it
 * cannot be. */
enum status published_model(const struct published_config *c, struct setup *s,
                            struct model *m) MUST_CHECK;
/* Give the model the times that a profile of p has for the row's layers, GPU, microbatch and
 * shards; none: nothing changes. STATUS_UNSUPPORTED where the model has other layers than its
 * profile. */
enum status published_attach(const struct published *p, const struct published_config *c,
                             const char *device, struct model *m) MUST_CHECK;
enum status published_plan(const struct published_config *c, struct setup *s, const struct model *m,
                           const struct topology *t, const char *framework,
                           struct plan *p) MUST_CHECK;
/* Members of *s that both need; s->keys has an arena. */
enum status published_setup(const struct published_config *c, struct setup *s) MUST_CHECK;

enum { PUBLISHED_REASON = 160 };
struct published_prediction {
    double step_s; /* 0: there is none: */
    char reason[PUBLISHED_REASON];
    double busy, exposed, idle; /* shares of the ranks' time */
    double update_s;
    int64_t peak_bytes, last_bytes, device_bytes;
    /* of the rank that needs most, or of the last one where that was measured */
    int64_t weight_bytes, gradient_bytes, state_bytes, stash_bytes, scratch_bytes;
    const char *
        assumed; /* so that it fits its devices, what the row does not say; static, NULL: nothing */
};

/* Predict every row that is not left out, on all cores.
 *
 *   framework  of all rows; NULL: each has its own
 *   out        [p->rows] */
enum status published_predict(const struct published *p, const char *framework,
                              struct published_prediction *out) MUST_CHECK;

/* What parts of a row take, times what is expected: `layers` and `head` of its framework, and
 * `step_s`. */
enum { PACE_LAYERS, PACE_HEAD, PACE_STEP, PUBLISHED_PACES };
struct published_pace {
    double times[PUBLISHED_PACES];
};

/* Seconds of an iteration by other constants than the shipped ones, on all cores. Constants come in
 * groups; one that cannot matter for a row takes no time there: it is as the first of its group. */
struct published_variation {
    size_t groups, each;               /* groups * each <= PUBLISHED_VARIED */
    const struct constants *constants; /* [groups * each] */
    const bool *want; /* [rows * groups] of which rows; NULL: all that have a prediction */
    const struct published_pace *pace; /* [rows * groups] NULL: 1 */
};
enum { PUBLISHED_VARIED = 900 };
/* out [p->rows * groups * each] row by row; 0: not asked for, or no prediction. */
enum status published_vary(const struct published *p, const struct published_variation *v,
                           double *out) MUST_CHECK;

/* ---- errors */

struct published_score {
    char name[64];
    size_t rows, used, left_out;
    double mean, median, p95, max, bias; /* of |predicted / measured - 1|; of the signed error */
    double tau;                          /* NAN: too few */
    size_t groups, best;                 /* choices, and of how many the best was found */
    /* means over them, of the plan predicted fastest and of the best of the first REGRET_FIRST
     * (core/data/compare.h); NAN: there are none */
    double regret, regret_first;
    double roofline; /* mean error of the bare roofline; NAN: not predicted */
    size_t memories, false_oom;
    double memory_median; /* error of the peak; NAN: not measured */
};

struct published_reason {
    const char *set, *text;
    size_t rows;
};

/* What p->rows rows came to. */
struct published_table {
    double *error;        /* [rows] signed; NAN: left out */
    double *memory_error; /* [rows] NAN: not measured */
    double *measured_s;   /* [rows] 0: not measured */
    size_t kinds;
    struct {
        const char *by; /* "set", "gpu", "dtype", "parallelism" */
        size_t n;
        struct published_score *score; /* [n] */
    } kind[5];                         /* the last one is of all rows */
    size_t reasons;
    struct published_reason *reason; /* [reasons] */
    size_t worst[10], worsts;        /* rows */
};

/* roofline: [rows] predictions with --framework foreline, NULL: none. */
enum status published_tabulate(struct published *p, const struct published_prediction *prediction,
                               const struct published_prediction *roofline,
                               struct published_table *out) MUST_CHECK;
void published_table_free(struct published_table *t);
/* Seconds of an iteration by whatever was measured, 0: none. */
double published_step_s(const struct published_row *row);
/* "gpus=64 tp=4 pp=8": degrees that are not 1. */
const char *published_kind(const struct published_config *c, char text[64]);

void published_print(const struct published *p, const struct published_prediction *prediction,
                     const struct published_table *t, FILE *out);
/* fits: of published_fit.h, NULL: none; misses: of published_expected.h, where there are fits. */
struct published_fits;
struct published_misses;
enum status published_print_json(const struct published *p,
                                 const struct published_prediction *prediction,
                                 const struct published_table *t, const struct published_fits *fits,
                                 const struct published_misses *misses, FILE *out) MUST_CHECK;
/* Tables of all rows and scores, and a picture, in a folder; fits as above. */
enum status published_write(const struct published *p,
                            const struct published_prediction *prediction,
                            const struct published_table *t, const struct published_fits *fits,
                            const char *folder, const struct provenance *by) MUST_CHECK;
/* Rows with a time and a plan as files of a folder, and runs.tsv: set, id, model, gpu, network,
 * dtype, framework, plan, gpus, iteration_s, memory. Those whose time is without the update are
 * left out. */
enum status published_write_plans(const struct published *p, const char *folder,
                                  const struct provenance *by) MUST_CHECK;

#endif
