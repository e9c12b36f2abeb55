#include "sim/pairs.h"

#include <stdlib.h>

static int by_ranks(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

enum status pairs_of(const struct program *p, struct pair **pair, size_t *n)
{
    size_t room = p->channels, used = 0, kept = 0;
    for (size_t i = 0; i < p->ops; i++)
        room += p->op[i].kind >= OP_ALLREDUCE;
    struct pair *all = calloc(room + 1, sizeof *all);
    if (!all)
        return error_set(STATUS_NOMEM, "%zu pairs of ranks", room);
    for (; used < p->channels; used++)
        all[used] = (struct pair){p->channel[used].from, p->channel[used].to, 0};
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (o->kind == OP_SEND)
                all[o->channel].bytes += (double)o->bytes;
            if (o->kind < OP_ALLREDUCE || group_size(p, o) < 2)
                continue;
            double members = (double)group_size(p, o);
            all[used++] = (struct pair){r, program_rank_of(p, o->match),
                                        2 * (members - 1) / members * (double)o->bytes};
        }
    qsort(all, used, sizeof *all, by_ranks);
    for (size_t k = 0; k < used; k++) {
        if (kept > 0 && by_ranks(&all[kept - 1], &all[k]) == 0)
            all[kept - 1].bytes += all[k].bytes;
        else
            all[kept++] = all[k];
    }
    *pair = all;
    *n = kept;
    return STATUS_OK;
}
