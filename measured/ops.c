/* Which of the host's ops, or kernels, take the time of a run. */
#include <stdlib.h>

#include "core/base/array.h"
#include "measured/run.h"

static int by_seconds(const void *a, const void *b)
{
    const struct run_op *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->phase - y->phase;
}

/* Add what a rank did to the ops, which `number` tells apart. */
static enum status add_rank(const struct run_rank *rank, size_t warmup, double ranks,
                            struct interner *number, struct run_op **op)
{
    struct run_interval w;
    PASS(run_window(rank, warmup, &w));
    const double share = 1 / (ranks * (double)(rank->steps > 0 ? rank->steps - warmup : 1));
    for (size_t i = 0; i < rank->spans; i++) {
        const struct span *s = &rank->span[i];
        int64_t from = s->start_ns > w.start_ns ? s->start_ns : w.start_ns;
        int64_t to = s->end_ns < w.end_ns ? s->end_ns : w.end_ns;
        const uint32_t key[] = {s->op == RUN_NO_OP ? s->name : s->op, s->phase};
        uint32_t k;
        bool fresh;
        if (s->what == SPAN_COPY || to <= from)
            continue;
        PASS(intern(number, key, sizeof key, &k, &fresh));
        if (fresh) {
            PASS(ARRAY_ROOM(*op, k));
            (*op)[k] = (struct run_op){.name = key[0], .phase = (uint8_t)key[1]};
        }
        (*op)[k].calls += share;
        (*op)[k].seconds += (double)(to - from) * 1e-9 * share;
    }
    return STATUS_OK;
}

enum status measured_run_ops(const struct measured_run *run, size_t warmup, struct run_op **out,
                             size_t *ops)
{
    enum status st = STATUS_OK;
    struct run_op *op = NULL;
    struct interner number = {.size = 2 * sizeof(uint32_t)};
    for (size_t r = 0; r < run->ranks; r++)
        TRY(add_rank(&run->rank[r], warmup, (double)run->ranks, &number, &op));
    if (number.n > 0)
        qsort(op, number.n, sizeof *op, by_seconds);
    *out = op;
    *ops = number.n;
    op = NULL;
out:
    interner_free(&number);
    free(op);
    return st;
}
