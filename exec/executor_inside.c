/* Collectives in the middle of an op, which devices call for: sums of tensor parallelism, rows of
 * sequence parallelism, exchanges of experts and of shared sequences. The program has them as one
 * op of several calls behind the pass, or before it; they are reported as that op
 * (executor_book_sums()). */
#include "core/base/clock.h"
#include "exec/executor_running.h"

/* Collective `op` of the program in the middle of the op at work; its seconds go to *seconds. */
static void executor_inside_call(struct running *r, uint32_t op, enum element of, void *data,
                                 size_t n, double *seconds)
{
    double start_s = clock_now();
    if (r->st != STATUS_OK)
        return;
    if (op == PROGRAM_NONE) {
        r->st =
            error_set(STATUS_INVALID, "the device started a collective that is not in the program");
        return;
    }
    executor_report(r, op, WORKER_WAITS);
    *executor_state_of(r, op) = OP_INSIDE;
    r->st = executor_call(r->e, op, of, data, n);
    *seconds += clock_now() - start_s;
    executor_report(r, r->now, WORKER_COMPUTES);
}

/* What devices call inside an op (struct layer_reduction); failures are kept for compute(). What
 * comes before the pass in the program is booked there. */
void executor_move(void *self, enum layer_move how, enum element of, void *data, size_t n)
{
    struct running *r = self;
    uint32_t op = executor_move_of(r->e->program, r->e->rank, r->now, how);
    double seconds = 0, *sums_s = r->out->sums_s;
    if (op == PROGRAM_NONE) { /* few numbers, once in a step: counted as computed */
        op = executor_move_elsewhere(r->e->program, r->e->rank, how);
        executor_inside_call(r, op, of, data, n, &seconds);
        return;
    }
    executor_inside_call(r, op, of, data, n, &seconds);
    if (r->e->device->moved)
        return; /* which knows how long it took */
    sums_s[op - r->first] += seconds;
    if (op > r->now)
        sums_s[r->now - r->first] += seconds;
}

/* Where the shards' sums are scattered, the program has no other: two halves. */
void executor_sum(void *self, enum element of, void *data, size_t n)
{
    struct running *r = self;
    if (r->sum != PROGRAM_NONE) {
        executor_inside_call(r, r->sum, of, data, n, &r->out->sums_s[r->now - r->first]);
        return;
    }
    executor_move(r, MOVE_SCATTER, of, data, n);
    executor_move(r, MOVE_GATHER, of, data, n);
}

/* Those of experts come after the pass, as sums, those between replicas that share sequences before
 * it. */
void executor_exchange(void *self, enum op_purpose purpose, enum op_kind kind, void *data, size_t n)
{
    struct running *r = self;
    uint32_t op = r->exchange;
    double none_s = 0, *seconds = &r->out->exchanges_s[r->now - r->first];
    if (purpose == FOR_CONTEXT) {
        op = executor_context_before(r->e->program, r->e->rank, r->now, kind);
        seconds = op == PROGRAM_NONE ? &none_s : &r->out->sums_s[op - r->first];
    }
    executor_inside_call(r, op, ELEMENT_FP32, data, n, r->e->device->moved ? &none_s : seconds);
}

void executor_fail(void *self, enum status st)
{
    struct running *r = self;
    r->st = r->st == STATUS_OK ? st : r->st;
}
