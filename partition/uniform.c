/* uniform - stages of equally many ops: the baseline every other algorithm is measured against. */
#include "partition/partition.h"

#include <math.h>

static enum status uniform_cut(const struct partition_problem *p, size_t *first,
                               double *objective_s)
{
    partition_evenly(p, first);
    *objective_s = NAN;
    return STATUS_OK;
}

const struct partition_algorithm partition_uniform = {
    .name = "uniform",
    .summary = "equally many ops per stage",
    .guarantee = "none: a baseline",
    .cut = uniform_cut,
};
