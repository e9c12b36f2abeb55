/* Units by the places where stages may begin; tensors by who reads them. */
#include "partition/graph/units.h"

#include <stdlib.h>

#include "core/base/order.h"
#include "core/cost/cost.h"
#include "core/strategy/optimizer.h"

void units_free(struct units *u)
{
    arena_free(&u->memory);
    *u = (struct units){0};
}

/* Seconds and bytes of every unit are sums over its ops. */
static void add_costs(struct units *u, const struct plan *p, const struct model *m,
                      const struct topology *t)
{
    const struct plan_stage *first = &p->stage[0];
    struct cost_split split = cost_split_of(p, first);
    struct cost_memory times =
        cost_memory(p->optimizer, m->element_bytes, plan_reduce_bytes(p, m), split.framework);
    double ranks = plan_streams(first), over[4] = {ranks, ranks, ranks, ranks};
    for (uint32_t level = p->zero; level < 4; level++)
        over[level] = 1; /* ZeRO 1 spreads the state, 2 gradients too, 3 all */
    double kept = (double)times.state / over[0] + (double)times.gradients / over[1] +
                  (double)times.weights / over[2];
    bool again = first->recompute == RECOMPUTE_FULL;
    for (size_t k = 0; k < u->n; k++)
        for (uint32_t i = u->first[k]; i < u->first[k + 1]; i++) {
            const struct model_op *op = &m->op[i];
            struct cost_part part = cost_part(op, &split);
            double parameters = part.parameters * (double)op->parameter_bytes;
            double stash = (double)cost_stash(m, op, split.framework);
            u->held_bytes[k] += kept * parameters;
            u->summed_bytes[k] += parameters;
            u->stash_bytes[k] += again ? 0 : p->microbatch_size * part.stash * stash;
            for (size_t type = 0; type < t->types; type++) {
                struct op_cost c =
                    cost_op(m, &t->type[type], i, p->microbatch_size, p->optimizer, &split);
                u->forward_s[type * u->n + k] += op_cost_forward(&c);
                u->backward_s[type * u->n + k] += op_cost_backward(&c) + (again ? c.again_s : 0);
                u->update_s[type * u->n + k] += c.update_s;
            }
        }
}

/* A tensor of a unit and one that reads it; of equal ones the second goes. */
struct reading {
    uint32_t op, reader;
};

static enum status find_tensors(struct units *u, const struct model *m, const uint32_t *unit_of,
                                double samples)
{
    enum status st;
    struct reading *all = NULL;
    size_t n = 0;
    TRY(ARRAY_NEW(all, m->edges));
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            if (unit_of[m->out[k]] != unit_of[i])
                all[n++] = (struct reading){i, unit_of[m->out[k]]};
    qsort(all, n, sizeof *all, order_by_pair);
    TRY(ARENA_NEW(&u->memory, u->tensor, n));
    TRY(ARENA_NEW(&u->memory, u->reader_start, n + 1));
    TRY(ARENA_NEW(&u->memory, u->reader, n));
    TRY(ARENA_NEW(&u->memory, u->read, n));
    for (size_t k = 0, readers = 0; k < n; k++) {
        if (k > 0 && order_by_pair(&all[k - 1], &all[k]) == 0)
            continue;
        if (k == 0 || all[k].op != all[k - 1].op) {
            double bytes = (double)m->op[all[k].op].output_bytes * samples;
            u->tensor[u->tensors++] = (struct unit_tensor){unit_of[all[k].op], bytes};
        }
        u->reader[readers++] = all[k].reader;
        u->reader_start[u->tensors] = readers;
    }
out:
    free(all);
    return st;
}

/* CSR the other way round. Counts are one place late, so that filling moves every start to where it
 * belongs. */
static enum status index_tensors(struct units *u)
{
    PASS(ARENA_NEW(&u->memory, u->made_start, u->n + 1));
    PASS(ARENA_NEW(&u->memory, u->read_start, u->n + 2));
    for (size_t k = 0; k < u->tensors; k++)
        u->made_start[u->tensor[k].from + 1]++;
    for (size_t k = 0; k < u->reader_start[u->tensors]; k++)
        u->read_start[u->reader[k] + 2]++;
    for (size_t k = 0; k < u->n; k++) {
        u->made_start[k + 1] += u->made_start[k];
        u->read_start[k + 2] += u->read_start[k + 1];
    }
    for (uint32_t k = 0; k < u->tensors; k++)
        for (size_t r = u->reader_start[k]; r < u->reader_start[k + 1]; r++)
            u->read[u->read_start[u->reader[r] + 1]++] = k;
    return STATUS_OK;
}

static enum status find_ties(struct units *u, const struct plan *p, const struct model *m,
                             const uint32_t *unit_of)
{
    struct cost_split split = cost_split_of(p, &p->stage[0]);
    double reduced = (double)plan_reduce_bytes(p, m) / (double)m->element_bytes;
    PASS(ARENA_NEW(&u->memory, u->tie, m->n));
    for (uint32_t i = 0; i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        if (op->shared_bytes == 0 || unit_of[op->shares] == unit_of[i])
            continue;
        double part = cost_part(op, &split).parameters;
        u->tie[u->ties++] = (struct unit_tie){unit_of[op->shares], unit_of[i],
                                              reduced * part * (double)op->shared_bytes};
    }
    return STATUS_OK;
}

enum status units_make(const struct plan *p, const struct model *m, const struct topology *t,
                       const size_t *begins, struct units *out)
{
    enum status st;
    struct units u = {.n = begins[m->n], .ops = m->n, .types = t->types};
    uint32_t *unit_of = NULL, units = 0;
    TRY(ARRAY_NEW(unit_of, m->n));
    TRY(ARENA_NEW(&u.memory, u.first, u.n + 1));
    TRY(ARENA_NEW(&u.memory, u.forward_s, u.types * u.n));
    TRY(ARENA_NEW(&u.memory, u.backward_s, u.types * u.n));
    TRY(ARENA_NEW(&u.memory, u.update_s, u.types * u.n));
    TRY(ARENA_NEW(&u.memory, u.held_bytes, u.n));
    TRY(ARENA_NEW(&u.memory, u.summed_bytes, u.n));
    TRY(ARENA_NEW(&u.memory, u.stash_bytes, u.n));
    for (uint32_t i = 0; i < m->n; i++) {
        if (begins[i + 1] > begins[i])
            u.first[units++] = i;
        unit_of[i] = units - 1;
    }
    u.first[u.n] = (uint32_t)m->n;
    add_costs(&u, p, m, t);
    TRY(find_tensors(&u, m, unit_of, p->microbatch_size));
    TRY(index_tensors(&u));
    TRY(find_ties(&u, p, m, unit_of));
    MOVE(out, u);
out:
    free(unit_of);
    units_free(&u);
    return st;
}

bool units_are_chain(const struct units *u)
{
    for (uint32_t k = 0; k + 1 < u->n; k++) {
        bool next = false;
        for (size_t i = u->made_start[k]; i < u->made_start[k + 1]; i++)
            next = next || u->reader[u->reader_start[i]] == k + 1;
        if (!next)
            return false;
    }
    return true;
}
