/* Which of the host's ops, or kernels, take the time of a run. */
#include <stdlib.h>

#include "core/array.h"
#include "measured/run.h"

static int by_name(const void *a, const void *b)
{
    const struct run_op *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->phase - y->phase;
}

static int by_seconds(const void *a, const void *b)
{
    const struct run_op *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return by_name(a, b);
}

/* Those of a rank behind the n that are there. */
static enum status add_rank(const struct run_rank *rank, size_t warmup, double ranks,
                            struct run_op *op, size_t *n)
{
    struct run_interval w;
    PASS(run_window(rank, warmup, &w));
    const double share = 1 / (ranks * (double)(rank->steps > 0 ? rank->steps - warmup : 1));
    for (size_t i = 0; i < rank->spans; i++) {
        const struct span *s = &rank->span[i];
        int64_t from = s->start_ns > w.start_ns ? s->start_ns : w.start_ns;
        int64_t to = s->end_ns < w.end_ns ? s->end_ns : w.end_ns;
        if (s->what != SPAN_COPY && to > from)
            op[(*n)++] = (struct run_op){s->op == RUN_NO_OP ? s->name : s->op, s->phase, share,
                                         (double)(to - from) * 1e-9 * share};
    }
    return STATUS_OK;
}

enum status measured_run_ops(const struct measured_run *run, size_t warmup, struct run_op **out,
                             size_t *ops)
{
    enum status st = STATUS_OK;
    struct run_op *op = NULL;
    size_t all = 0, n = 0, kept = 0;
    for (size_t r = 0; r < run->ranks; r++)
        all += run->rank[r].spans;
    TRY(ARRAY_NEW(op, all + 1));
    for (size_t r = 0; r < run->ranks; r++)
        TRY(add_rank(&run->rank[r], warmup, (double)run->ranks, op, &n));
    qsort(op, n, sizeof *op, by_name);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && by_name(&op[kept - 1], &op[i]) == 0) {
            op[kept - 1].calls += op[i].calls;
            op[kept - 1].seconds += op[i].seconds;
        } else {
            op[kept++] = op[i];
        }
    }
    qsort(op, kept, sizeof *op, by_seconds);
    *out = op;
    *ops = kept;
    op = NULL;
out:
    free(op);
    return st;
}
