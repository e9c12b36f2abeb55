/* pipedream.h - the objective of PipeDream's optimizer, a row of the table in objective.c. */
#ifndef PARTITION_PUBLISHED_PIPEDREAM_PIPEDREAM_H
#define PARTITION_PUBLISHED_PIPEDREAM_PIPEDREAM_H

#include "partition/published/objective.h"

extern const struct objective objective_pipedream;

#endif
