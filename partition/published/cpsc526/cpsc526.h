/* cpsc526.h - the metric of a course project, a row of the table in objective.c. */
#ifndef PARTITION_PUBLISHED_CPSC526_CPSC526_H
#define PARTITION_PUBLISHED_CPSC526_CPSC526_H

#include "partition/published/objective.h"

extern const struct objective objective_cpsc526;

#endif
