/* experiment.h - an experiment file (YAML): what is varied, and the points that come of it.
 *
 *     model: gpt2-small
 *     platform: hidup-8xv100
 *     platform.nic.bandwidth: [1Gbps, 10Gbps, 100Gbps]     # an axis: every value
 *     plan: {algorithm: balanced, stages: [1, 2, 4, 8]}    # plan.algorithm, plan.stages
 *     cases:                                               # an axis: what is set together
 *       - {name: cheap, devices: 8, jitter: 5%}
 *       - {name: dear, devices: 64}                      # {size: [...], way: [...]}: axes of these
 *                                                        names
 *     repeats: 3                                           # an axis: seed 1, 2, 3
 *     finalists: 2
 *     best: {of: [plan.stages], by: samples_per_s}
 *
 * Every combination of the axes is a point; they are numbered 0 .. points - 1, the axis that comes
 * last in the file varying fastest. Settings are texts here; what they mean is the caller's
 * business, who checks them one by one while the file is read. */
#ifndef STUDY_EXPERIMENT_H
#define STUDY_EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/array.h"
#include "core/base/digest.h"

enum { EXPERIMENT_AXES = 64, EXPERIMENT_POINTS = 1000000, EXPERIMENT_BYTES = 1 << 20 };

struct experiment_setting {
    const char *key, *value;
    size_t line; /* of the file */
};

/* A value of an axis, or what a case sets. */
struct experiment_choice {
    const char *label; /* the value, or the name of the case */
    size_t n;
    struct experiment_setting *setting; /* [n] */
};

struct experiment_axis {
    const char *name; /* a key, or "case", or what cases are called */
    size_t line;
    bool chosen; /* the best of these is asked for; else it is asked for each of these */
    bool cases;  /* each choice sets what it likes, under a name */
    bool seeds;  /* repetitions of the same: medians are compared */
    size_t n;    /* 1: a constant */
    struct experiment_choice *choice; /* [n] */
};

struct experiment {
    struct arena arena;             /* owns all that is below */
    const char *path, *name, *text; /* the text is all of the file */
    char sha256[DIGEST_HEX];        /* of the text */
    size_t axes, points;
    struct experiment_axis *axis; /* [axes] */
    size_t finalists;             /* per group, that SimGrid looks at; 0: none */
    bool fewest_seconds;          /* best by iteration_s or days, else by samples_per_s */
    bool by_days;                 /* fewest_seconds, too */
    /* [points] what a point's setting of the same key is instead, NULL: as the file says
     * (equal.h); or NULL: of none */
    const struct experiment_setting **equal;
};

/* What the caller says about a setting: STATUS_OK, or a message without a place. */
struct experiment_check {
    enum status (*setting)(void *context, const char *key, const char *value);
    void *context;
};

/* `check` may be NULL. STATUS_PARSE as "path:line: what was found, what was expected", STATUS_IO,
 * STATUS_NOMEM. */
enum status experiment_read(const char *path, const struct experiment_check *check,
                            struct experiment *out) MUST_CHECK;
/* The same of a text in memory; `path` is for messages. */
enum status experiment_parse(const char *path, const char *text, size_t length,
                             const struct experiment_check *check,
                             struct experiment *out) MUST_CHECK;
void experiment_free(struct experiment *e); /* accepts {0}; leaves {0} */

/* The axis of that name; e->axes: there is none. */
size_t experiment_find(const struct experiment *e, const char *name);
/* Which choice of an axis a point is. */
size_t experiment_choice(const struct experiment *e, size_t point, size_t axis);
/* The number of the point that differs from `point` only in that axis. */
size_t experiment_with(const struct experiment *e, size_t point, size_t axis, size_t choice);
/* What a point's choice of an axis is called. */
const char *experiment_label(const struct experiment *e, size_t point, size_t axis);
/* A setting of a point by its key, NULL: it has none. */
const char *experiment_value(const struct experiment *e, size_t point, const char *key);
/* All settings of a point, sorted by key, malloc'd; borrowed from e. STATUS_PARSE when a key is set
 * twice (by a case and elsewhere), STATUS_NOMEM. */
enum status experiment_settings(const struct experiment *e, size_t point,
                                const struct experiment_setting ***out, size_t *n) MUST_CHECK;

#endif
