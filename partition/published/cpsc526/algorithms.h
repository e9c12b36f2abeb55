/* algorithms.h - one row per algorithm of the objective. Private to partition/published/cpsc526/. */
#ifndef PARTITION_PUBLISHED_CPSC526_ALGORITHMS_H
#define PARTITION_PUBLISHED_CPSC526_ALGORITHMS_H

#include "partition/published/objective.h"

extern const struct objective_algorithm cpsc526_algorithm_local, cpsc526_algorithm_hierarchical,
    cpsc526_algorithm_exhaustive;

#endif
