/* Weights that two stages of one device share: each has a copy, and nobody sends gradients. */
#include "core/base/array.h"
#include "exec/device/cpu/stage_parts.h"

/* The stages that have op i and the op whose parameters it borrows, if these are two of the device;
 * else false. */
static bool are_tied(const struct stage_set *c, const struct model *m, uint32_t i,
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

/* Does an op before i in the same stage borrow the same? */
static bool is_again(const struct model *m, uint32_t i, const struct stage *s)
{
    for (uint32_t j = m->op[i].shares + 1; j < i; j++)
        if (m->op[j].shares == m->op[i].shares && stage_find(s, j) != NOWHERE)
            return true;
    return false;
}

/* Copies of what another device owns are summed between devices, one for each. */
static enum status check_copies(const struct model *m, const struct stage_set *c, uint32_t owner)
{
    size_t copies = 0;
    for (size_t a = 0; owner != MODEL_NO_OP && a < c->stages; a++) {
        bool borrows = false;
        if (stage_find(&c->stage[a], owner) != NOWHERE)
            return STATUS_OK;
        for (uint32_t i = owner + 1; i < m->n && !borrows; i++)
            borrows = m->op[i].shares == owner && stage_find(&c->stage[a], i) != NOWHERE;
        copies += borrows;
    }
    if (copies < 2)
        return STATUS_OK;
    return error_set(
        STATUS_UNSUPPORTED,
        "op '%s' shares its parameters with %zu stages of another device, expected at most one",
        m->op[owner].name, copies);
}

/* What is in the way of summing gradients of op `owner` before the first update; NULL: nothing. */
static const char *ties_hindrance(const struct stage *s, uint32_t owner)
{
    const struct program *p = s->program;
    if (s->share.zero > 0)
        return "with ZeRO";
    for (size_t k = p->op_start[s->rank]; k < p->op_start[s->rank + 1]; k++)
        if (op_is_collective(&p->op[k]) && p->op[k].purpose == FOR_TIES && p->op[k].tag == owner)
            return "where other devices share them too";
    return p->asynchronous ? "without a pipeline flush" : NULL;
}

enum status cpu_check_ties(const struct model *m, const struct stage_set *c)
{
    struct stage *a, *b;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t owner = m->op[i].shares;
        PASS(check_copies(m, c, owner));
        const char *why = are_tied(c, m, i, &a, &b) ? ties_hindrance(a, owner) : NULL;
        if (why)
            return error_set(STATUS_UNSUPPORTED,
                             "ops '%s' and '%s' share parameters in stages %u and %u of one "
                             "device, which is unsupported %s",
                             m->op[owner].name, m->op[i].name, b->index, a->index, why);
    }
    return STATUS_OK;
}

/* Owner before borrower, as in one stage and between ranks; `back`: the sum to the copies. */
static enum status sum_copies(struct stage_set *c, const struct model *m, bool back)
{
    struct stage *a, *b;
    for (uint32_t i = 0; i < m->n; i++) {
        real *borrowed, *own;
        size_t n, same;
        if (!are_tied(c, m, i, &a, &b) || is_again(m, i, a))
            continue;
        PASS(stage_tied(a, m->op[i].shares, &borrowed, &n));
        PASS(stage_tied(b, m->op[i].shares, &own, &same));
        if (n != same)
            return error_set(STATUS_INVALID, "op '%s' shares %zu parameters of an op that has %zu",
                             m->op[i].name, n, same);
        if (back)
            a->on.backend->copy(a->on.self, borrowed, own, n * sizeof *own);
        else
            a->on.backend->add(a->on.self, own, borrowed, n);
    }
    return STATUS_OK;
}

enum status cpu_sum_ties(struct stage_set *c, const struct model *m)
{
    if (c->tied)
        return STATUS_OK;
    c->tied = true;
    PASS(sum_copies(c, m, false));
    return sum_copies(c, m, true);
}
