/* Weights that two stages of one device share: each has a copy, and nobody sends gradients. */
#include "core/array.h"
#include "exec/device/cpu/stage_parts.h"

/* The stages that have op i and the op whose parameters it borrows, if these are two of the device;
 * else false. */
static bool are_tied(const struct cpu *c, const struct model *m, uint32_t i,
                     struct stage **borrower, struct stage **owner)
{
    for (size_t a = 0; m->op[i].shares != MODEL_NO_OP && a < c->stages; a++)
        for (size_t b = 0; b < c->stages; b++)
            if (a != b && stage_find(&c->stage[a], i) != NOWHERE &&
                stage_find(&c->stage[b], m->op[i].shares) != NOWHERE) {
                *borrower = &c->stage[a];
                *owner = &c->stage[b];
                return true;
            }
    return false;
}

/* What is in the way of summing gradients of op `owner` before the first update; NULL: nothing. */
static const char *hindrance(const struct stage *s, uint32_t owner)
{
    const struct program *p = s->program;
    if (s->share.zero > 0)
        return "with ZeRO, which has divided their gradients by then";
    for (size_t k = p->op_start[s->rank]; k < p->op_start[s->rank + 1]; k++)
        if (op_is_collective(&p->op[k]) && p->op[k].purpose == FOR_TIES && p->op[k].tag == owner)
            return "and of others, which wait for their sum";
    return p->asynchronous ? "with updates without flush" : NULL;
}

enum status cpu_check_ties(const struct model *m, const struct cpu *c)
{
    struct stage *a, *b;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t owner = m->op[i].shares;
        const char *why = are_tied(c, m, i, &a, &b) ? hindrance(a, owner) : NULL;
        if (why)
            return error_set(STATUS_UNSUPPORTED,
                             "ops '%s' and '%s' share parameters and are in stages %u and %u of "
                             "one device, %s",
                             m->op[owner].name, m->op[i].name, b->index, a->index, why);
    }
    return STATUS_OK;
}

/* Owner before borrower, as in one stage and between ranks. */
enum status cpu_sum_ties(struct cpu *c, const struct model *m)
{
    struct stage *a, *b;
    for (uint32_t i = 0; i < m->n && !c->tied; i++) {
        real *borrowed, *own;
        size_t n, same;
        if (!are_tied(c, m, i, &a, &b))
            continue;
        PASS(stage_tied(a, m->op[i].shares, &borrowed, &n));
        PASS(stage_tied(b, m->op[i].shares, &own, &same));
        if (n != same)
            return error_set(STATUS_INVALID, "op '%s' borrows %zu numbers of %zu", m->op[i].name, n,
                             same);
        a->on.backend->add(a->on.self, own, borrowed, n);
        a->on.backend->copy(a->on.self, borrowed, own, n * sizeof *own);
    }
    c->tied = true;
    return STATUS_OK;
}
