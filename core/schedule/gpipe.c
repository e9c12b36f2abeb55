/* All forwards, then all backwards.
 * Source: Huang et al., GPipe, NeurIPS 2019. */
#include "core/schedule/steps.h"

const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .summary = "all forwards, then all backwards",
    .searched = true,
    .order = schedule_order_breadth_first,
};
