/* Ranks, groups and ops of the parts one after the other; of a rank all iterations in a row. */
#include "core/data/program_join.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"

/* Ops of an iteration on a rank of the part: the first one has the op that begins it, too. */
static size_t join_rank_ops(const struct program *p, size_t rank)
{
    return p->op_start[rank + 1] - p->op_start[rank] + (rank == 0);
}

size_t program_joined_begin(const struct program_joined *j, size_t part, size_t k)
{
    const struct program *p = j->part[part].program;
    return j->program.op_start[j->first_rank[part]] + k * join_rank_ops(p, 0);
}

static size_t join_op_of_rank(const struct program_joined *j, size_t part, size_t k, size_t rank,
                              size_t i)
{
    const struct program *p = j->part[part].program;
    return j->program.op_start[j->first_rank[part] + rank] + k * join_rank_ops(p, rank) +
           (rank == 0) + (i - p->op_start[rank]);
}

size_t program_joined_op(const struct program_joined *j, size_t part, size_t k, size_t i)
{
    return join_op_of_rank(j, part, k, program_rank_of(j->part[part].program, i), i);
}

/* last[i]: does no op wait for op i of the program, so that the end of an iteration has to? Compute
 * ops of a rank follow each other. */
static enum status join_find_last(const struct program *p, bool **last)
{
    bool *is = NULL;
    PASS(ARRAY_NEW(is, p->ops + 1));
    for (size_t i = 0; i < p->ops; i++)
        is[i] = true;
    for (size_t d = 0; d < p->deps; d++)
        is[p->dep[d]] = false;
    for (size_t r = 0; r < p->ranks; r++) {
        size_t before = SIZE_MAX;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            if (!op_computes(&p->op[i]))
                continue;
            if (before != SIZE_MAX)
                is[before] = false;
            before = i;
        }
    }
    *last = is;
    return STATUS_OK;
}

static enum status join_add_dep(struct program *p, size_t op)
{
    PASS(ARRAY_ROOM(p->dep, p->deps));
    p->dep[p->deps++] = (uint32_t)op;
    return STATUS_OK;
}

/* The op that begins iteration k of a part. */
static enum status join_begin(struct program_joined *j, size_t part, size_t k, const bool *last)
{
    const struct program_part *of = &j->part[part];
    struct program *p = &j->program;
    p->op[program_joined_begin(j, part, k)] =
        (struct program_op){.kind = OP_UPDATE,
                            .microbatch = PROGRAM_NONE,
                            .channel = PROGRAM_NONE,
                            .match = PROGRAM_NONE,
                            .count = 1,
                            .dep_start = (uint32_t)p->deps,
                            .seconds = k == 0 ? of->start_s : of->period_s};
    for (size_t r = 0; k > 0 && of->period_s == 0 && r < of->program->ranks; r++)
        for (size_t i = of->program->op_start[r]; i < of->program->op_start[r + 1]; i++)
            if (last[i])
                PASS(join_add_dep(p, join_op_of_rank(j, part, k - 1, r, i)));
    return STATUS_OK;
}

/* Op i of rank r in iteration k. What depends on nothing depends on the begin. */
static enum status join_copy_op(struct program_joined *j, size_t part, size_t k, size_t r, size_t i)
{
    const struct program *from = j->part[part].program;
    struct program *p = &j->program;
    struct program_op *o = &p->op[join_op_of_rank(j, part, k, r, i)];
    *o = from->op[i];
    o->dep_start = (uint32_t)p->deps;
    if (op_is_message(o)) {
        o->match = (uint32_t)join_op_of_rank(j, part, k, o->peer, o->match);
        o->peer += (uint32_t)j->first_rank[part];
    } else if (op_is_collective(o)) {
        for (size_t q = 0; q < part; q++)
            o->peer += (uint32_t)j->part[q].program->groups;
    }
    for (size_t d = from->op[i].dep_start; d < from->op[i + 1].dep_start; d++)
        PASS(join_add_dep(p, join_op_of_rank(j, part, k, r, from->dep[d])));
    if (from->op[i].dep_start == from->op[i + 1].dep_start)
        PASS(join_add_dep(p, program_joined_begin(j, part, k)));
    return STATUS_OK;
}

static enum status join_fill_ops(struct program_joined *j, size_t part)
{
    enum status st;
    const struct program *from = j->part[part].program;
    bool *last = NULL;
    TRY(join_find_last(from, &last));
    for (size_t r = 0; r < from->ranks; r++)
        for (size_t k = 0; k < j->part[part].iterations; k++) {
            if (r == 0)
                TRY(join_begin(j, part, k, last));
            for (size_t i = from->op_start[r]; i < from->op_start[r + 1]; i++)
                TRY(join_copy_op(j, part, k, r, i));
        }
out:
    free(last);
    return st;
}

/* Groups of the part behind those of the parts before it. */
static void join_add_groups(struct program *p, const struct program *from, size_t first_rank)
{
    for (size_t g = 0; g < from->groups; g++, p->groups++) {
        size_t to = p->group_start[p->groups], n = from->group_start[g + 1] - from->group_start[g];
        for (size_t m = 0; m < n; m++)
            p->member[to + m] = from->member[from->group_start[g] + m] + (uint32_t)first_rank;
        p->group_start[p->groups + 1] = to + n;
    }
}

/* Ranks of the part, and how many ops they have. */
static enum status join_add_ranks(struct program_joined *j, size_t part)
{
    const struct program *from = j->part[part].program;
    struct program *p = &j->program;
    for (size_t r = 0; r < from->ranks; r++, p->ranks++) {
        p->rank[p->ranks] = from->rank[r];
        p->rank[p->ranks].name = NULL;
        PASS(text_copy(from->rank[r].name, &p->rank[p->ranks].name));
        p->op_start[p->ranks + 1] =
            p->op_start[p->ranks] + j->part[part].iterations * join_rank_ops(from, r);
    }
    j->first_rank[part + 1] = p->ranks;
    return STATUS_OK;
}

/* Arrays for all parts; ranks and groups are counted when they are added. */
static enum status join_allocate(struct program_joined *j)
{
    size_t ranks = 0, groups = 0, members = 0;
    for (size_t k = 0; k < j->parts; k++) {
        const struct program *from = j->part[k].program;
        ranks += from->ranks;
        groups += from->groups;
        members += from->groups > 0 ? from->group_start[from->groups] : 0;
        if (from->attained != j->part[0].program->attained)
            return error_set(
                STATUS_UNSUPPORTED,
                "unsupported: some of the plans use the measured bandwidth of NCCL (key "
                "'framework') and others do not, so they cannot be simulated together");
    }
    PASS(ARRAY_NEW(j->first_rank, j->parts + 1));
    PASS(ARRAY_NEW(j->program.rank, ranks + 1));
    PASS(ARRAY_NEW(j->program.op_start, ranks + 1));
    PASS(ARRAY_NEW(j->program.group_start, groups + 1));
    return ARRAY_NEW(j->program.member, members + 1);
}

enum status program_join(const struct program_part *part, size_t n, struct program_joined *out)
{
    enum status st;
    struct program_joined j = {.parts = n};
    TRY(ARRAY_COPY(j.part, part, n));
    TRY(join_allocate(&j));
    j.program.attained = n > 0 && part[0].program->attained;
    for (size_t k = 0; k < n; k++) {
        TRY(join_add_ranks(&j, k));
        join_add_groups(&j.program, part[k].program, j.first_rank[k]);
    }
    j.program.ops = j.program.op_start[j.program.ranks];
    if (j.program.ops >= PROGRAM_NONE)
        FAIL(STATUS_INVALID,
             "joined program has %zu ops, expected at most %u; use fewer microbatches or ranks",
             j.program.ops, PROGRAM_NONE - 1);
    TRY(ARRAY_NEW(j.program.op, j.program.ops + 1));
    for (size_t k = 0; k < n; k++)
        TRY(join_fill_ops(&j, k));
    j.program.op[j.program.ops].dep_start = (uint32_t)j.program.deps;
    TRY(program_link(&j.program));
    MOVE(out, j);
out:
    program_joined_free(&j);
    return st;
}

void program_joined_free(struct program_joined *j)
{
    program_free(&j->program);
    free(j->part);
    free(j->first_rank);
    *j = (struct program_joined){0};
}
