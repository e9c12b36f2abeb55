/* The forwards of a program alone: what a trained model makes of data, without training on them. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/model.h"
#include "core/data/program.h"
#include "core/data/program_check.h"

/* Where what is left is not a subset of the list that devices and transports understand. */
static enum status forward_check_stages(const struct program *p)
{
    for (size_t s = 0; s < p->stages; s++) {
        const struct program_stage *of = &p->stage[s];
        const char *what = of->stepped
                               ? "plans that have the key \"steps\" (ops sharded step by step)"
                           : of->tensor_parallel > 1  ? "tensor parallelism"
                           : of->context_parallel > 1 ? "context parallelism"
                           : of->expert_parallel > 1  ? "expert parallelism"
                           : program_reshards(of)     ? "ZeRO 3"
                           : of->keep ? "parameters that stay gathered (--zero-keep)"
                                      : NULL;
        if (what)
            return error_set(STATUS_UNSUPPORTED, "stage %zu: --forward-only is unsupported with %s",
                             s, what);
    }
    return STATUS_OK;
}

static bool stays(const struct program_op *o)
{
    return o->kind == OP_FORWARD || (op_is_message(o) && !o->backward);
}

/* Every op that stays moves to its place, at most as far up as it is; to [ops]: where each has
 * gone, or PROGRAM_NONE. Dependencies on what does not stay are only of backwards. */
static void move_ops(struct program *p, uint32_t *to)
{
    size_t ops = 0, deps = 0, from = 0;
    for (size_t r = 0; r < p->ranks; r++) {
        size_t end = p->op_start[r + 1];
        int64_t largest = 0;
        for (p->op_start[r] = ops; from < end; from++) {
            size_t first = deps, d = p->op[from].dep_start, d_end = p->op[from + 1].dep_start;
            to[from] = stays(&p->op[from]) ? (uint32_t)ops : PROGRAM_NONE;
            if (to[from] == PROGRAM_NONE)
                continue;
            for (; d < d_end; d++)
                if (to[p->dep[d]] != PROGRAM_NONE)
                    p->dep[deps++] = to[p->dep[d]];
            struct program_op *o = &p->op[ops++];
            *o = p->op[from];
            o->dep_start = (uint32_t)first;
            if (o->kind == OP_FORWARD && o->bytes > largest)
                largest = o->bytes;
            if (o->kind == OP_FORWARD)
                o->bytes = 0; /* nothing stays for a backward: one stash at a time */
        }
        p->rank[r].scratch_bytes += largest;
    }
    p->op_start[p->ranks] = p->ops = ops;
    p->deps = deps;
    p->op[ops] = (struct program_op){.dep_start = (uint32_t)deps};
}

enum status program_keep_forwards(struct program *p, const struct model *m)
{
    enum status st;
    uint32_t *to = NULL;
    TRY(forward_check_stages(p));
    TRY(ARRAY_NEW(to, p->ops));
    move_ops(p, to);
    free(p->channel);
    p->channel = NULL;
    p->channels = 0;
    p->forward_only = true;
    for (size_t s = 0; s < p->stages; s++)
        p->stage[s].split = false;
    p->sample_flop = p->recompute_flop = 0;
    for (size_t i = 0; i < m->n; i++)
        p->sample_flop += m->op[i].forward_flop;
    TRY(program_match(p));
    st = program_check(p);
out:
    free(to);
    return st;
}

enum status program_infer(struct program *p, const struct model *m)
{
    PASS(program_keep_forwards(p, m));
    for (size_t r = 0; r < p->ranks; r++)
        p->rank[r].gradient_bytes = p->rank[r].state_bytes = p->rank[r].host_bytes = 0;
    return STATUS_OK;
}
