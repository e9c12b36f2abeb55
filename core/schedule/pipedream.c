/* 1F1B without flush: every backward is followed by an update, and weights are stashed.
 * Source: Narayanan et al., PipeDream, SOSP 2019. */
#include "core/schedule/steps.h"

const struct schedule schedule_pipedream = {
    .name = "pipedream",
    .summary = "asynchronous 1f1b: updates after every backward, stashed weights, no flush",
    .asynchronous = true,
    .order = schedule_order_1f1b,
};
