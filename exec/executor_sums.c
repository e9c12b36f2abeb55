/* Sums of tensor parallelism and exchanges of experts, which devices make in the middle of passes,
 * as the program has them. */
#include "exec/executor.h"

/* The next op of this kind and purpose of the stage, before another pass begins. */
static uint32_t inside_after(const struct program *p, uint32_t rank, uint32_t op, enum op_kind kind,
                             enum op_purpose purpose)
{
    uint8_t part = p->op[op].part;
    if (executor_is_stepped(p, p->op[op].stage))
        return PROGRAM_NONE;
    for (uint32_t i = op + 1; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o) && (part == 0 || o->part <= part))
            return PROGRAM_NONE;
        if (o->kind == kind && o->purpose == purpose && o->stage == p->op[op].stage && !o->backward)
            return i;
    }
    return PROGRAM_NONE;
}

uint32_t executor_sum_after(const struct program *p, uint32_t rank, uint32_t op)
{
    return inside_after(p, rank, op, OP_ALLREDUCE, FOR_TENSOR);
}

uint32_t executor_exchange_after(const struct program *p, uint32_t rank, uint32_t op)
{
    return inside_after(p, rank, op, OP_ALLTOALL, FOR_EXPERTS);
}

/* Do shards have parts of the tokens? */
static bool executor_sums_has_rows(const struct program *p, uint32_t op)
{
    return p->stages > 0 && p->stage[p->op[op].stage].sequence;
}

/* The op of this kind and purpose before pass `op`, with what computes beside it at most in
 * between. */
static uint32_t inside_before(const struct program *p, uint32_t rank, uint32_t op,
                              enum op_kind kind, enum op_purpose purpose)
{
    const struct program_op *pass = &p->op[op];
    if (executor_is_stepped(p, pass->stage))
        return PROGRAM_NONE;
    for (uint32_t i = op; i-- > p->op_start[rank];) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o) && !op_is_beside(o))
            return PROGRAM_NONE;
        if (o->kind == kind && o->purpose == purpose && o->stage == pass->stage &&
            o->microbatch == pass->microbatch && o->part == pass->part)
            return i;
    }
    return PROGRAM_NONE;
}

/* The last op of this kind inside pass `op`. */
static uint32_t last_after(const struct program *p, uint32_t rank, uint32_t op, enum op_kind kind)
{
    uint32_t found = PROGRAM_NONE, next = inside_after(p, rank, op, kind, FOR_TENSOR);
    while (next != PROGRAM_NONE) {
        found = next;
        next = inside_after(p, rank, found, kind, FOR_TENSOR);
    }
    return found;
}

/* Inputs are gathered again before the backward, or behind all else where it is one of a pair of
 * passes; what else is gathered, behind the pass, and with inputs where nothing else is. */
uint32_t executor_move_of(const struct program *p, uint32_t rank, uint32_t op, enum layer_move how)
{
    uint32_t found = PROGRAM_NONE;
    if (!executor_sums_has_rows(p, op))
        return PROGRAM_NONE;
    if (how == MOVE_SCATTER)
        return inside_after(p, rank, op, OP_REDUCESCATTER, FOR_TENSOR);
    if (how == MOVE_GATHER)
        found = inside_after(p, rank, op, OP_ALLGATHER, FOR_TENSOR);
    if (found == PROGRAM_NONE)
        found = inside_before(p, rank, op, OP_ALLGATHER, FOR_TENSOR);
    return found != PROGRAM_NONE ? found : last_after(p, rank, op, OP_ALLGATHER);
}

uint32_t executor_move_elsewhere(const struct program *p, uint32_t rank, enum layer_move how)
{
    enum op_kind kind = how == MOVE_SCATTER ? OP_REDUCESCATTER : OP_ALLGATHER;
    for (uint32_t i = (uint32_t)p->op_start[rank]; i < p->op_start[rank + 1]; i++)
        if (p->op[i].kind == kind && p->op[i].purpose == FOR_TENSOR)
            return i;
    return PROGRAM_NONE;
}

/* Is there no compute op between a pass, or a part of one, and the op of its sums? */
static bool is_last_part(const struct program *p, uint32_t op, uint32_t sum)
{
    for (uint32_t i = op + 1; i < sum; i++)
        if (op_computes(&p->op[i]))
            return false;
    return true;
}

/* The op of the sums of a pass; where they are scattered, *gather is that of what is gathered,
 * unless that is all there is. */
static uint32_t sums_after(const struct program *p, uint32_t rank, uint32_t op, uint32_t *gather)
{
    uint32_t sum = executor_sum_after(p, rank, op);
    if (sum != PROGRAM_NONE || !executor_sums_has_rows(p, op))
        return sum;
    sum = inside_after(p, rank, op, OP_REDUCESCATTER, FOR_TENSOR);
    uint32_t after = inside_after(p, rank, op, OP_ALLGATHER, FOR_TENSOR);
    *gather = sum != PROGRAM_NONE ? after : (uint32_t)PROGRAM_NONE;
    return sum != PROGRAM_NONE ? sum : after;
}

/* The sums come first, then the exchanges, as in the program. */
void executor_book_sums(const struct program *p, uint32_t rank, struct executor_step *s)
{
    size_t first = p->op_start[rank];
    double *start_s = s->op_start_s - first, *end_s = s->op_end_s - first, sums_s = 0,
           exchanges_s = 0;
    for (uint32_t op = (uint32_t)first; op < p->op_start[rank + 1]; op++) {
        bool passes = op_computes(&p->op[op]) && !op_is_beside(&p->op[op]);
        uint32_t gather = PROGRAM_NONE;
        uint32_t sum = passes ? sums_after(p, rank, op, &gather) : (uint32_t)PROGRAM_NONE;
        uint32_t exchange = passes ? executor_exchange_after(p, rank, op) : (uint32_t)PROGRAM_NONE;
        if (sum == PROGRAM_NONE && exchange == PROGRAM_NONE)
            continue;
        double now_s = end_s[op];
        start_s[op] -= sums_s + exchanges_s;
        sums_s += s->sums_s[op - first];
        exchanges_s += s->exchanges_s[op - first];
        end_s[op] -= sums_s + exchanges_s;
        if (!is_last_part(p, op, sum != PROGRAM_NONE ? sum : exchange))
            continue;
        if (sums_s > 0) {
            start_s[sum] = end_s[op];
            end_s[sum] = now_s - exchanges_s;
        }
        if (sums_s > 0 && gather != PROGRAM_NONE) {
            const uint32_t last = last_after(p, rank, op, OP_ALLGATHER), behind[] = {last, gather};
            for (size_t k = last == gather; k < 2; k++) {
                start_s[behind[k]] = end_s[sum] - s->sums_s[behind[k] - first];
                end_s[behind[k]] = end_s[sum];
                end_s[sum] = start_s[behind[k]];
            }
        }
        if (exchanges_s > 0) {
            start_s[exchange] = now_s - exchanges_s;
            end_s[exchange] = now_s;
        }
        sums_s = exchanges_s = 0;
    }
}

uint32_t executor_context_before(const struct program *p, uint32_t rank, uint32_t op,
                                 enum op_kind kind)
{
    return inside_before(p, rank, op, kind, FOR_CONTEXT);
}

void executor_book_context(const struct program *p, uint32_t rank, struct executor_step *s)
{
    size_t first = p->op_start[rank];
    double *start_s = s->op_start_s - first, *end_s = s->op_end_s - first;
    for (uint32_t op = (uint32_t)first; op < p->op_start[rank + 1]; op++)
        for (int k = 0; k < 4 && op_computes(&p->op[op]); k++) {
            static const enum op_kind kind[] = {OP_ALLGATHER, OP_ALLGATHER, OP_REDUCESCATTER,
                                                OP_ALLTOALL};
            uint32_t at =
                op_is_beside(&p->op[op])
                    ? (uint32_t)PROGRAM_NONE
                    : inside_before(p, rank, op, kind[k], k == 0 ? FOR_TENSOR : FOR_CONTEXT);
            if (at == PROGRAM_NONE || s->sums_s[at - first] <= 0)
                continue;
            start_s[at] = start_s[op];
            end_s[at] = start_s[op] += s->sums_s[at - first];
        }
}
