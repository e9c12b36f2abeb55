/* uniform - stages of equally many ops: the baseline every other algorithm is measured against. */
#include "partition/partition.h"

#include <math.h>

static enum status cut(const struct model *m, const struct topology *t,
                       const struct partition_request *r, const uint32_t *device, size_t *first,
                       double *objective_s)
{
    (void)t;
    (void)device;
    for (size_t s = 0; s < r->stages; s++)
        first[s] = s * m->n / r->stages;
    *objective_s = NAN;
    return STATUS_OK;
}

const struct partition_algorithm partition_uniform = {
    .name = "uniform",
    .summary = "equally many ops per stage",
    .guarantee = "none: a baseline",
    .cut = cut,
};
