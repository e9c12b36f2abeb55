/* pipedream.h - the objective of PipeDream's optimizer, a row of the table in objective.c. */
#ifndef PARTITION_PIPEDREAM_PIPEDREAM_H
#define PARTITION_PIPEDREAM_PIPEDREAM_H

#include "partition/objective.h"

extern const struct objective objective_pipedream;

#endif
