/* PipeDream with updates after as many microbatches as are in flight, by their mean gradient: then
 * there are never more than two versions of the weights. Source: option "macrobatch" of PipeDream's
 * runtime; Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021 (two
 * versions, one interval for all stages). */
#include "core/schedule/steps.h"

const struct schedule schedule_macrobatch = {
    .name = "macrobatch",
    .summary =
        "pipedream that updates once per group of in-flight microbatches: two weight versions",
    .asynchronous = true,
    .gathers = true,
    .order = schedule_order_1f1b,
};
