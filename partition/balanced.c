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

#include "core/cost.h"
#include "partition/graph.h"

enum { MOST_OPS = 20000 }; /* n^2 doubles: 3.2 GB */

struct problem {
    const struct model *m;
    const struct partition_request *r;
    double *in_bytes; /* [n * n] see graph_entering_bytes() */
    double *until_s;  /* [types][n + 1] compute seconds of ops 0..i-1 per device type */
};

static enum status prepare(struct problem *p, const struct topology *t)
{
    size_t n = p->m->n;
    if (n > MOST_OPS)
        return error_set(STATUS_UNSUPPORTED, "balanced: %zu ops, at most %d are possible", n,
                         MOST_OPS);
    p->in_bytes = calloc(n * n, sizeof *p->in_bytes);
    p->until_s = calloc(t->types * (n + 1), sizeof *p->until_s);
    if (!p->in_bytes || !p->until_s)
        return error_set(STATUS_NOMEM, "balanced: %zu ops", n);
    graph_entering_bytes(p->m, p->in_bytes);
    struct cost_split spread = partition_spread(p->r);
    for (size_t k = 0; k < t->types; k++)
        for (uint32_t i = 0; i < n; i++) {
            struct op_cost c =
                cost_op(p->m, &t->type[k], i, p->r->microbatch_size, p->r->optimizer, &spread);
            p->until_s[k * (n + 1) + i + 1] =
                p->until_s[k * (n + 1) + i] + c.forward_s + c.backward_s;
        }
    return STATUS_OK;
}

static enum status cut(const struct model *m, const struct topology *t,
                       const struct partition_request *r, const uint32_t *device, size_t *first,
                       double *objective_s)
{
    enum status st;
    size_t n = m->n;
    struct problem p = {.m = m, .r = r};
    double *best = NULL;    /* [stages][n] */
    uint32_t *start = NULL; /* [stages][n] first op of the last stage */

    TRY(prepare(&p, t));
    best = calloc(r->stages * n, sizeof *best);
    start = calloc(r->stages * n, sizeof *start);
    if (!best || !start) {
        st = error_set(STATUS_NOMEM, "balanced: %zu stages of %zu ops", r->stages, n);
        goto out;
    }
    for (size_t s = 0; s < r->stages; s++) {
        const double *until = p.until_s + t->type_of[device[s]] * (n + 1);
        const struct topology_tier *link = s > 0 && device[s] != device[s - 1]
                                               ? topology_between(t, device[s - 1], device[s])
                                               : NULL;
        double pace = link ? 2 * (double)r->microbatch_size / link->bandwidth_Bps : 0;
        double latency = link ? 2 * link->latency_s : 0;
        for (size_t j = s; j < n; j++) {
            double value = INFINITY;
            for (size_t i = s > 0 ? j : 0; i + 1 > s; i--) {
                double load = until[j + 1] - until[i] + latency + pace * p.in_bytes[i * n + j];
                double v = s > 0 ? fmax(best[(s - 1) * n + i - 1], load) : load;
                if (v <= value) {
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
    free(start);
    free(best);
    free(p.until_s);
    free(p.in_bytes);
    return st;
}

const struct partition_algorithm partition_balanced = {
    .name = "balanced",
    .summary = "least slowest stage, compute plus transfers",
    .guarantee = "exact for contiguous stages of the model's order",
    .cut = cut,
};
