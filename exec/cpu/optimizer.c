#include <math.h>

#include "exec/cpu/stage.h"
#include "exec/cpu/vector.h"

/* Gradients of what is borrowed within the stage join their owner's; zero afterwards, so that
 * doing it again changes nothing. */
static void fold(struct stage *s)
{
    for (size_t k = 0; k < s->n; k++) {
        const struct stage_op *o = &s->op[k];
        if (o->owner == NOWHERE || !o->layer.tied)
            continue;
        real *tied = s->tied + o->d_shared;
        s->on.backend->add(s->on.self, s->gradient + o->shared, tied, o->layer.shared);
        s->on.backend->zero(s->on.self, tied, o->layer.shared * sizeof *tied);
    }
}

enum status stage_gradients(struct stage *s, uint32_t shared, real **data, size_t *n)
{
    const struct model *m = s->model;
    fold(s);
    if (shared == MODEL_NO_OP) {
        *data = s->gradient;
        *n = s->parameters;
        return STATUS_OK;
    }
    uint32_t owner = stage_find(s, shared);
    for (uint32_t i = 0; i < m->n; i++) { /* the borrowers agree on how much: check_ties() */
        uint32_t k = m->op[i].shares == shared ? stage_find(s, i) : NOWHERE;
        if (m->op[i].shares != shared || (owner == NOWHERE && k == NOWHERE))
            continue;
        *data = s->gradient + (owner == NOWHERE ? s->op[k].shared : s->op[owner].parameter);
        *n = (size_t)m->op[i].shared_bytes / 4;
        return STATUS_OK;
    }
    return error_set(STATUS_INVALID, "stage %u holds no tied parameters of op %u", s->index,
                     shared);
}

enum status stage_update(struct stage *s)
{
    const struct backend *b = s->on.backend;
    struct optimizer_step o = {.n = s->parameters,
                               .parameter = s->parameter,
                               .gradient = s->gradient,
                               .moment = s->moment,
                               .square = s->square,
                               .rate = (real)s->learning_rate};
    fold(s);
    s->updates++;
    if (s->moment) {
        o.rate = (real)(s->learning_rate / (1 - pow(ADAM_BETA1, s->updates)));
        o.unbias = (real)(1 / sqrt(1 - pow(ADAM_BETA2, s->updates)));
    }
    b->update(s->on.self, &o);
    b->zero(s->on.self, s->gradient, s->parameters * sizeof *s->gradient);
    return STATUS_OK;
}
