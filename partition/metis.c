/* metis - the pipeline that a general graph partitioner suggests: METIS balances compute time with
 * a small cut; its parts, in order of their mean position, become the stages that agree with them
 * in the most compute time among the contiguous ones. O(stages * n) after METIS. */
#include "partition/graph/metis.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/cost/cost.h"
#include "partition/partition.h"

static const double imbalance = 1.05;

/* A part that METIS made; they are ordered by the mean position of their ops. */
struct metis_part {
    double sum; /* of positions */
    size_t ops;
    uint32_t number;
};

struct alignment {
    double *time_s;          /* [n] */
    struct metis_edge *edge; /* [edges] */
    uint32_t *part_of;       /* [n] */
    struct metis_part *part; /* [stages] */
    double *best;            /* [stages][n + 1] A(s, j) below */
    uint32_t *start;         /* [stages][n + 1] first op of stage s then */
};

static void alignment_free(struct alignment *a)
{
    free(a->time_s);
    free(a->edge);
    free(a->part_of);
    free(a->part);
    free(a->best);
    free(a->start);
}

static enum status alignment_begin(const struct partition_problem *p, struct alignment *a)
{
    const struct model *m = p->m;
    const struct device_type *type = topology_type(p->t, p->device[0]);
    const struct cost_split whole = {.shards = 1,
                                     .sequence = 1,
                                     .experts = 1,
                                     .context = 1,
                                     .framework = partition_spread(p->r).framework};
    PASS(ARRAY_NEW(a->time_s, m->n));
    PASS(ARRAY_NEW(a->edge, m->edges));
    PASS(ARRAY_NEW(a->part_of, m->n));
    PASS(ARRAY_NEW(a->part, p->r->stages));
    PASS(ARRAY_NEW(a->best, p->r->stages * (m->n + 1)));
    PASS(ARRAY_NEW(a->start, p->r->stages * (m->n + 1)));
    for (uint32_t i = 0; i < m->n; i++) {
        struct op_cost c = cost_op(m, type, i, p->r->microbatch_size, p->r->optimizer, &whole);
        a->time_s[i] = op_cost_forward(&c) + op_cost_backward(&c);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            a->edge[k] = (struct metis_edge){m->in[k], i, (double)m->op[m->in[k]].output_bytes};
    }
    return STATUS_OK;
}

static int metis_by_position(const void *a, const void *b)
{
    const struct metis_part *x = a, *y = b;
    double p = x->ops ? x->sum / (double)x->ops : INFINITY;
    double q = y->ops ? y->sum / (double)y->ops : INFINITY;
    if (p < q || p > q)
        return p < q ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void order_parts(size_t n, size_t stages, struct alignment *a)
{
    for (size_t s = 0; s < stages; s++)
        a->part[s].number = (uint32_t)s;
    for (size_t i = 0; i < n; i++) {
        a->part[a->part_of[i]].sum += (double)i;
        a->part[a->part_of[i]].ops++;
    }
    qsort(a->part, stages, sizeof *a->part, metis_by_position);
}

/* A(s, j), the most time that the first j ops in the first s + 1 stages spend in the parts of those
 * stages: with T(s, i, j) the time of the ops i..j-1 that are in part s,
 *     A(s, j) = max over i < j of A(s - 1, i) + T(s, i, j),
 * i only where a stage may begin. As T(s, i, j) = T(s, 0, j) - T(s, 0, i), the maximum of
 * A(s - 1, i) - T(s, 0, i) so far is all that is needed: O(n) for each stage. */
static void align(const struct partition_problem *p, struct alignment *a)
{
    size_t n = p->m->n;
    for (size_t s = 0; s < p->r->stages; s++) {
        double *best = a->best + s * (n + 1), until = 0, top = -INFINITY;
        const double *before = s > 0 ? best - (n + 1) : NULL;
        uint32_t *start = a->start + s * (n + 1), at = 0;
        for (size_t j = 0; j <= n; j++) {
            best[j] = top + until; /* at least one op per stage: i < j */
            start[j] = at;
            double here = before ? before[j] : j == 0 ? 0 : -INFINITY;
            if (here - until > top && j < n && partition_may_begin(p, j)) {
                top = here - until;
                at = (uint32_t)j;
            }
            if (j < n && a->part_of[j] == a->part[s].number)
                until += a->time_s[j];
        }
    }
}

static enum status metis_cut(const struct partition_problem *p, size_t *first, double *objective_s)
{
    enum status st;
    size_t n = p->m->n;
    struct alignment a = {0};
    const struct metis_options o = {.seed = p->r->seed, .imbalance = imbalance};
    TRY(alignment_begin(p, &a));
    struct metis_graph g = {n, a.time_s, p->m->edges, a.edge};
    TRY(metis_partition(&g, p->r->stages, &o, a.part_of));
    order_parts(n, p->r->stages, &a);
    align(p, &a);
    for (size_t s = p->r->stages, j = n; s-- > 0; j = first[s])
        first[s] = a.start[s * (n + 1) + j];
    *objective_s = NAN;
out:
    alignment_free(&a);
    return st;
}

const struct partition_algorithm partition_metis = {
    .name = "metis",
    .summary = "METIS on compute time and tensors, made contiguous",
    .guarantee = metis_guarantee,
    .needs_metis = true,
    .cut = metis_cut,
};
