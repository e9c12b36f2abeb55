/* balanced - contiguous stages of the model's order with the least slowest stage.
 *
 * A stage costs its forward and backward time on its device plus the transfer of what enters it,
 * forward and as gradients back; a tensor counts once per stage that reads it, wherever it comes
 * from. best[s][j] = min over i of max(best[s - 1][i - 1], cost of ops i..j as stage s).
 * Exact; O(stages * n^2 + n * edges) time, O(n^2) memory. Ties go to the leftmost cut.
 * Source: chains-on-chains partitioning, Pinar & Aykanat, JPDC 64 (2004) 974-996. */
#include "partition/partition.h"

#include <math.h>
#include <stdlib.h>

#include "partition/graph.h"
#include "partition/stage_cost.h"

enum { MOST_OPS = 20000 }; /* n^2 doubles: 3.2 GB */

static enum status cut(const struct model *m, const struct topology *t,
                       const struct partition_request *r, const uint32_t *device, size_t *first,
                       double *objective_s)
{
    enum status st;
    size_t n = m->n;
    struct stage_cost c = {0};
    double *in_bytes = NULL; /* [n * n] see graph_entering_bytes() */
    double *best = NULL;     /* [stages][n] */
    bool *whole = NULL;      /* [n] see graph_whole_cuts() */
    uint32_t *start = NULL;  /* [stages][n] first op of the last stage */

    if (n > MOST_OPS)
        return error_set(STATUS_UNSUPPORTED,
                         "balanced: %zu ops, at most %d are possible; hierarchical takes more", n,
                         MOST_OPS);
    TRY(stage_cost_begin(m, t, r, device, &c));
    in_bytes = calloc(n * n, sizeof *in_bytes);
    best = calloc(r->stages * n, sizeof *best);
    start = calloc(r->stages * n, sizeof *start);
    whole = malloc(n * sizeof *whole);
    if (!in_bytes || !best || !start || !whole) {
        st = error_set(STATUS_NOMEM, "balanced: %zu stages of %zu ops", r->stages, n);
        goto out;
    }
    graph_entering_bytes(m, in_bytes);
    graph_whole_cuts(m, r->tensor_parallel > 1, whole);
    for (size_t s = 0; s < r->stages; s++) {
        const double *until = stage_cost_until(&c, s);
        for (size_t j = s; j < n; j++) {
            double value = INFINITY;
            for (size_t i = s > 0 ? j : 0; i + 1 > s; i--) {
                double load = until[j + 1] - until[i] + c.latency_s[s];
                load += c.pace[s] * in_bytes[i * n + j];
                double v = s > 0 ? fmax(best[(s - 1) * n + i - 1], load) : load;
                if (v <= value && whole[i]) {
                    value = v;
                    start[s * n + j] = (uint32_t)i;
                }
                if (i == 0 || until[j + 1] - until[i] > value)
                    break; /* compute alone is worse from here on */
            }
            best[s * n + j] = value;
        }
    }
    for (size_t s = r->stages, j = n - 1; s-- > 0; j = first[s] - 1)
        first[s] = start[s * n + j];
    *objective_s = best[r->stages * n - 1];
out:
    free(whole);
    free(start);
    free(best);
    free(in_bytes);
    stage_cost_free(&c);
    return st;
}

const struct partition_algorithm partition_balanced = {
    .name = "balanced",
    .summary = "least slowest stage, compute plus transfers",
    .guarantee = "exact for contiguous stages of the model's order",
    .cut = cut,
};
