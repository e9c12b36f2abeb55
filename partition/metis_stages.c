/* metis - the pipeline that a general graph partitioner suggests: METIS balances compute time with
 * a small cut; its parts, in order of their mean position, become the stages that agree with them
 * in the most compute time among the contiguous ones. O(stages * n) after METIS. */
#include "partition/metis.h"

#include <math.h>
#include <stdlib.h>

#include "core/cost.h"
#include "partition/partition.h"

static const double imbalance = 1.05;

struct work {
    double *time_s;          /* [n] */
    struct metis_edge *edge; /* [edges] */
    uint32_t *part;          /* [n] */
    struct place {
        double sum;
        size_t ops;
        uint32_t part;
    } * place;       /* [stages] */
    double *best;    /* [stages][n + 1] agreement of the first j ops in the first s + 1 stages */
    uint32_t *start; /* [stages][n + 1] first op of stage s then */
};

static void work_free(struct work *w)
{
    free(w->time_s);
    free(w->edge);
    free(w->part);
    free(w->place);
    free(w->best);
    free(w->start);
}

static enum status prepare(const struct model *m, const struct topology *t,
                           const struct partition_request *r, const uint32_t *device,
                           struct work *w)
{
    w->time_s = calloc(m->n, sizeof *w->time_s);
    w->edge = calloc(m->edges + 1, sizeof *w->edge);
    w->part = calloc(m->n, sizeof *w->part);
    w->place = calloc(r->stages, sizeof *w->place);
    w->best = calloc(r->stages * (m->n + 1), sizeof *w->best);
    w->start = calloc(r->stages * (m->n + 1), sizeof *w->start);
    if (!w->time_s || !w->edge || !w->part || !w->place || !w->best || !w->start)
        return error_set(STATUS_NOMEM, "metis: %zu stages of %zu ops", r->stages, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        struct op_cost c =
            cost_op(m, topology_type(t, device[0]), i, r->microbatch_size, r->optimizer, NULL);
        w->time_s[i] = c.forward_s + c.backward_s;
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            w->edge[k] = (struct metis_edge){m->in[k], i, (double)m->op[m->in[k]].output_bytes};
    }
    return STATUS_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    double p = x->ops ? x->sum / (double)x->ops : INFINITY;
    double q = y->ops ? y->sum / (double)y->ops : INFINITY;
    if (p < q || p > q)
        return p < q ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static void order_parts(size_t n, size_t stages, struct work *w)
{
    for (size_t s = 0; s < stages; s++)
        w->place[s].part = (uint32_t)s;
    for (size_t i = 0; i < n; i++) {
        w->place[w->part[i]].sum += (double)i;
        w->place[w->part[i]].ops++;
    }
    qsort(w->place, stages, sizeof *w->place, compare_places);
}

/* best[s][j] = max over i < j of best[s - 1][i] + time of ops i..j-1 that are in part s. */
static void align(size_t n, size_t stages, struct work *w)
{
    for (size_t s = 0; s < stages; s++) {
        double *best = w->best + s * (n + 1), until = 0, top = -INFINITY;
        const double *before = s > 0 ? best - (n + 1) : NULL;
        uint32_t *start = w->start + s * (n + 1), at = 0;
        for (size_t j = 0; j <= n; j++) {
            best[j] = top + until; /* at least one op per stage: i < j */
            start[j] = at;
            double here = before ? before[j] : j == 0 ? 0 : -INFINITY;
            if (here - until > top) {
                top = here - until;
                at = (uint32_t)j;
            }
            if (j < n && w->part[j] == w->place[s].part)
                until += w->time_s[j];
        }
    }
}

static enum status cut(const struct model *m, const struct topology *t,
                       const struct partition_request *r, const uint32_t *device, size_t *first,
                       double *objective_s)
{
    enum status st;
    struct work w = {0};
    const struct metis_options o = {.seed = r->seed, .imbalance = imbalance};
    TRY(prepare(m, t, r, device, &w));
    struct metis_graph g = {m->n, w.time_s, m->edges, w.edge};
    TRY(metis_partition(&g, r->stages, &o, w.part));
    order_parts(m->n, r->stages, &w);
    align(m->n, r->stages, &w);
    for (size_t s = r->stages, j = m->n; s-- > 0; j = first[s])
        first[s] = w.start[s * (m->n + 1) + j];
    *objective_s = NAN;
out:
    work_free(&w);
    return st;
}

const struct partition_algorithm partition_metis = {
    .name = "metis",
    .summary = "METIS on compute time and tensors, made contiguous",
    .guarantee = metis_guarantee,
    .cut = cut,
};
