/* settings_columns.h - short names for the columns of settings_table.c, and sets of takers that
 * many rows share. Included there only. */
#ifndef STUDY_SETTINGS_COLUMNS_H
#define STUDY_SETTINGS_COLUMNS_H

#include <stddef.h>

#include "study/settings.h"

/* A row reads: name, type and field, takers, what stands for the value, default, help; then bounds
 * or words where there are any.
 *
 * The offset of a field, which must be of this type: comparing other pointers does not compile. */
#define FIELD(type, field)                                                                         \
    (offsetof(struct arguments, field) + 0 * sizeof((type *)0 == &((struct arguments *)0)->field))
#define FLAG(field)    SETTING_FLAG, FIELD(bool, field)
#define COUNT(field)   SETTING_COUNT, FIELD(size_t, field)
#define NUMBER(field)  SETTING_NUMBER, FIELD(size_t, field)
#define REAL(field)    SETTING_REAL, FIELD(double, field)
#define SHARE(field)   SETTING_SHARE, FIELD(double, field)
#define SECONDS(field) SETTING_SECONDS, FIELD(double, field)
#define BYTES(field)   SETTING_BYTES, FIELD(double, field)
#define TEXT(field)    SETTING_TEXT, FIELD(const char *, field)
#define WORD(field)    SETTING_WORD, FIELD(const char *, field)
#define LIST(field)    SETTING_LIST, FIELD(struct text_list, field)

/* Sets of takers that many rows share: OBJECTIVES are those whose parts become stages. Read `PLANS
 * | OBJECTIVES` as: means something with every algorithm and with every such objective. */
#define T(name)   TAKES(name)
#define KEYS      (T(KEY_POINT) | T(KEY_RUN))
#define SEARCHES  (T(PLAN_AUTO) | T(PLAN_CAMPAIGN))
#define PLANS     (SEARCHES | T(PLAN_CUT))
#define PLAN_KEYS (PLANS | T(KEY_PLAN))
#define OBJECTIVES                                                                                 \
    (T(PLAN_CPSC526) | T(PLAN_PIPEDREAM) | T(PLAN_PIPER) | T(PLAN_PIPPY) | T(PLAN_PLACEMENT))
#define SOLVED       (OBJECTIVES | T(PLAN_HIDUP))
#define SCORED       (SOLVED | T(PLAN_SCORE))
#define SCORES(name) (T(PLAN_##name) | T(PLAN_SCORE))
#define SIMULATIONS  (T(SIMULATE) | T(SIMULATE_JSON))
#define SIMULATE_ANY (SIMULATIONS | T(SIMULATE_CAPTURE))
#define SIMULATE_ALL (SIMULATE_ANY | T(SIMULATE_JOBS))
/* What is predicted, not what is made of that. */
#define PREDICT_ANY (SIMULATE_ANY | T(COMPARE_PLANS))
#define PREDICT_ALL (SIMULATE_ALL | T(COMPARE_PLANS))
#define JOBS        (T(SIMULATE_JOBS) | T(EMULATE_JOBS))
#define CAMPAIGNS   (T(CAMPAIGN) | T(CAMPAIGN_OVER))
#define TRAININGS   (CAMPAIGNS | T(PLAN_CAMPAIGN) | T(KEY_POINT))
/* and what a platform may say of them */
#define SITES        (TRAININGS | T(TOPOLOGY_GENERATE))
#define RUNS         (T(RUN_REAL) | T(RUN_PACED))
#define RUN_KEYS     (RUNS | T(KEY_RUN))
#define REAL_KEYS    (T(RUN_REAL) | T(KEY_RUN))
#define EMULATIONS   (T(EMULATE_SMPI) | T(EMULATE_NETNS))
#define CALIBRATIONS (T(CALIBRATE_CPU) | T(CALIBRATE_CUDA) | T(CALIBRATE_JSON))
#define CALIBRATE_ON (T(CALIBRATE_CPU) | T(CALIBRATE_JSON))
#define PLOTS        (T(PLOT_LINES) | T(PLOT_HEATMAP))
#define PICTURES     (PLOTS | T(PLOT_FILES) | T(PLOT_TRACES) | T(PLOT_MODEL))
#define DRAWN        (PICTURES | T(TOPOLOGY_DRAW))
#define IMPORTS      (T(TOPOLOGY_IMPORT) | T(TOPOLOGY_DISCOVER))
#define VALIDATIONS                                                                                \
    (T(VALIDATE) | T(VALIDATE_FILES) | T(VALIDATE_EXPERIMENT) | T(VALIDATE_MEASUREMENTS) |         \
     T(LAB_SCOREBOARD))
/* All but keys and what lists or prints tables: they start programs, meet others, or read files. */
#define WAITS                                                                                      \
    ((((taker_set)1 << TAKERS) - 1) &                                                              \
     ~(KEYS | T(KEY_PLAN) | T(KEY_CAPTURE) | T(PLAN_LIST) | T(MODEL_LIST) | T(SWEEP_LIST) |        \
       T(TOPOLOGY_LIST) | T(TOPOLOGY_GENERATE) | T(EMULATE_JOIN)))
/* A capture, and what makes one in an experiment. */
#define CAPTURES    (T(CAPTURE) | T(KEY_CAPTURE))
#define VALIDATE_ON (T(VALIDATE) | T(VALIDATE_FILES))

#endif
