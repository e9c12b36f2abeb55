/* What ranks need of memory at their peaks, from what stages cost and the order of passes, without
 * any ops: what a rank keeps hangs on nothing else. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/program_check.h"
#include "core/lower/lowering.h"

static void at_least(int64_t *most, int64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

/* With asynchronous updates one set of weights for each microbatch between forward and backward.
 * Each of its stages has its own scratch, as in the executor, unless a framework issues its
 * kernels, which allocates what one pass needs; they share the buckets of ZeRO 2 and 3. */
enum status lowering_memory(struct lowering *l, uint32_t team, uint32_t device,
                            struct program_rank *out)
{
    int64_t gathered_bytes = 0, reduced_bytes = 0, scratch_bytes = 0;
    const struct framework *f = plan_framework(l->plan);
    bool frees = f && f->by_kernel;
    int64_t versions =
        l->schedule->asynchronous ? lowering_depth(l->plan, l->shape.teams, team) : 1;
    versions = l->schedule->gathers && versions > 2 ? 2 : versions;
    for (uint32_t k = 0; k < l->shape.chunks; k++) {
        const struct lowering_cost *c;
        uint32_t s = lowering_stage(l, team, k);
        PASS(lowering_cost(l, s, device, &c));
        out->weight_bytes += versions * c->weight_bytes;
        out->gradient_bytes += c->gradient_bytes;
        out->state_bytes += c->state_bytes;
        out->host_bytes += c->host_bytes;
        if (frees)
            at_least(&scratch_bytes, c->scratch_bytes);
        else
            scratch_bytes += c->scratch_bytes;
        at_least(&gathered_bytes, c->gathered_bytes);
        at_least(&reduced_bytes, c->reduced_bytes);
    }
    out->scratch_bytes += scratch_bytes + gathered_bytes + reduced_bytes;
    out->scratch_bytes += frees ? (int64_t)f->workspace : 0;
    return STATUS_OK;
}

/* Most bytes that n steps keep at once, of stages of one chunk, or of all: `chunk` == chunks. */
static int64_t most_kept(const struct schedule_step *step, size_t n,
                         const struct lowering_cost *const *cost /* [chunks] */, uint32_t chunk,
                         uint32_t chunks)
{
    int64_t held = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (chunk < chunks && step[i].chunk != chunk)
            continue;
        int64_t bytes = pass_bytes(step[i].kind, cost[step[i].chunk]);
        bool takes = step[i].kind == OP_FORWARD || step[i].kind == OP_BACKWARD_INPUT;
        held += takes ? bytes : -bytes;
        at_least(&most, held);
    }
    return most;
}

/* A rank on that device whose replica takes n steps; as program_peak() has it. */
static enum status peak_of(struct lowering *l, const struct lowering_replica *replica,
                           uint32_t device, const struct lowering_cost **cost /* [chunks] room */,
                           int64_t *peak)
{
    const struct schedule_step *step = replica->schedule;
    uint32_t team = replica->team, chunks = l->shape.chunks;
    struct program_rank rank = {0};
    int64_t most = 0;
    PASS(lowering_memory(l, team, device, &rank));
    for (uint32_t k = 0; k < chunks; k++)
        PASS(lowering_cost(l, lowering_stage(l, team, k), device, &cost[k]));
    if (plan_framework(l->plan))
        most = most_kept(step, replica->steps, cost, chunks, chunks);
    for (uint32_t k = 0; k < chunks && !plan_framework(l->plan); k++)
        most += most_kept(step, replica->steps, cost, k, chunks);
    at_least(peak, program_static_bytes(&rank) + most + rank.scratch_bytes);
    return STATUS_OK;
}

/* The replica's devices, of each type the first one. */
static enum status replica_peaks(struct lowering *l, const struct lowering_replica *replica,
                                 int64_t *peak /* [types] */)
{
    enum status st = STATUS_OK;
    const struct lowering_cost **cost = NULL;
    bool *done = NULL;
    TRY(ARRAY_NEW(cost, l->shape.chunks));
    TRY(ARRAY_NEW(done, l->topology->types));
    for (uint32_t k = 0; k < lowering_team(l, replica->team)->tensor_parallel; k++) {
        uint32_t device = lowering_device(l, replica->team, replica->number, k),
                 type = l->topology->type_of[device];
        if (!done[type])
            TRY(peak_of(l, replica, device, cost, &peak[type]));
        done[type] = true;
    }
out:
    free(cost);
    free(done);
    return st;
}

static enum status peaks_of_steps(struct lowering *l, int64_t *peak, double *work)
{
    PASS(plan_check(l->plan, l->model, l->topology));
    l->fold = lowering_ranks_alike(l->plan, l->topology);
    PASS(lowering_prepare(l));
    PASS(lowering_check(l));
    for (uint32_t c = 0; c < l->shape.replicas; c++) {
        struct lowering_replica *replica = &l->replay.replica[c];
        PASS(lowering_schedule(l, replica));
        PASS(replica_peaks(l, replica, peak));
        *work += (double)replica->steps;
    }
    return STATUS_OK;
}

/* What goes to the host and comes back is seen in the lists only. */
static enum status peaks_of_program(const struct lowering *l, int64_t *peak, double *work)
{
    struct program p = {0};
    const struct plan_lower_options how = {.fold = true, .costs = l->costs};
    PASS(plan_lower_with(l->plan, l->model, l->topology, &how, &p));
    for (uint32_t r = 0; r < p.ranks; r++)
        at_least(&peak[l->topology->type_of[p.rank[r].device]], program_peak(&p, r, NULL));
    *work = (double)p.ops;
    program_free(&p);
    return STATUS_OK;
}

enum status plan_lower_peaks(const struct plan *p, const struct model *m, const struct topology *t,
                             struct op_costs *costs, int64_t *peak, double *work)
{
    struct lowering l = {.plan = p, .model = m, .topology = t, .costs = costs};
    *work = 0;
    for (size_t k = 0; k < t->types; k++)
        peak[k] = 0;
    if (p->steps > 0 || (p->offload & OFFLOAD_ACTIVATIONS))
        return peaks_of_program(&l, peak, work);
    enum status st = peaks_of_steps(&l, peak, work);
    lowering_free(&l);
    return st;
}
