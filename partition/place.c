#include "partition/place.h"

#include <math.h>
#include <stdlib.h>

#include "core/cost.h"

static const double reference_bytes = 1048576;

enum status place_neighbours(const struct topology *t, uint32_t *order)
{
    bool *visited = calloc(t->n + 1, sizeof *visited);
    if (!visited)
        return error_set(STATUS_NOMEM, "%zu devices", t->n);
    uint32_t at = 0;
    visited[0] = true;
    order[0] = 0;
    for (size_t k = 1; k < t->n; k++) {
        uint32_t nearest = 0;
        double least = INFINITY;
        for (uint32_t d = 0; d < t->n; d++) {
            if (visited[d])
                continue;
            double distance =
                cost_transfer(t, at, d, reference_bytes) + cost_transfer(t, d, at, reference_bytes);
            if (distance < least) {
                least = distance;
                nearest = d;
            }
        }
        visited[nearest] = true;
        order[k] = at = nearest;
    }
    free(visited);
    return STATUS_OK;
}
