/* The measurement of a whole program from that of its folded one: copies of ranks. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/data/measurement.h"
#include "core/data/plan.h"
#include "core/data/program_check.h"
#include "core/data/topology.h"

/* All but the name; `at` is the op at which the rank's memory is fullest. The microbatches of
 * replica k are those of the replica that was simulated for it, as many later as its stream is. */
static enum status copy_rank(const struct program *p, uint32_t r, uint32_t at, uint32_t replica,
                             const struct measured_rank *from, struct measured_rank *to)
{
    char label[OP_LABEL];
    *to = *from;
    to->name = to->peak_at = NULL;
    to->loss = NULL; /* predictions have none */
    to->losses = 0;
    if (at == PROGRAM_NONE)
        return STATUS_OK;
    struct program_op op = p->op[at];
    uint32_t c = p->stage[op.stage].context_parallel,
             streams = replica / c - p->rank[r].replica / c;
    op.microbatch += op.microbatch == PROGRAM_NONE ? 0 : streams;
    return text_copy(op_label(&op, label), &to->peak_at);
}

enum status measurement_unfold(struct measurement *m, const struct program *p,
                               const struct plan *plan, const struct topology *t)
{
    enum status st = STATUS_OK;
    struct measurement whole = {0}; /* only its ranks */
    size_t all = 0;
    double idle_s = 0;
    uint32_t *at = NULL; /* [ranks] where memory is fullest */
    TRY(ARRAY_NEW(at, p->ranks));
    for (uint32_t r = 0; r < p->ranks; r++) {
        program_peak(p, r, &at[r]);
        all += program_rank_copies(p, r);
        idle_s += (double)program_rank_copies(p, r) * m->rank[r].idle_s;
    }
    TRY(ARRAY_NEW(whole.rank, all));
    for (uint32_t r = 0; r < p->ranks; r += p->copies.classes) { /* those of one stage */
        const struct plan_stage *s = &plan->stage[p->rank[r].stage];
        for (uint32_t k = 0; k < s->devices; k++) {
            struct measured_rank *to = &whole.rank[whole.ranks++];
            uint32_t replica = k / s->tensor_parallel, from = r + p->copies.class_of[replica];
            TRY(copy_rank(p, from, at[from], replica, &m->rank[from], to));
            TRY(text_copy(t->device[s->device[k]], &to->name));
        }
    }
    if (m->iteration_s > 0)
        m->bubble_fraction = idle_s / ((double)all * m->iteration_s);
    m->ranks_simulated = (uint32_t)p->ranks;
    struct measured_rank *few = m->rank;
    m->rank = whole.rank;
    whole.rank = few;
    m->ranks = all;
    whole.ranks = p->ranks;
out:
    free(at);
    measurement_free(&whole);
    return st;
}
