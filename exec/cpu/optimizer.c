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
        vector_add(s->gradient + o->shared, tied, o->layer.shared);
        memset(tied, 0, o->layer.shared * sizeof *tied);
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

static void sgd(struct stage *s)
{
    real rate = (real)s->learning_rate;
    for (size_t i = 0; i < s->parameters; i++)
        s->parameter[i] -= rate * s->gradient[i];
}

/* Adam, no weight decay. Kingma & Ba, ICLR 2015, arXiv:1412.6980, algorithm 1. */
static void adam(struct stage *s)
{
    const real beta1 = (real)0.9, beta2 = (real)0.999, epsilon = (real)1e-8;
    real rate = (real)(s->learning_rate / (1 - pow(0.9, s->updates)));
    real unbias = (real)(1 / sqrt(1 - pow(0.999, s->updates)));
    real *restrict p = s->parameter, *restrict g = s->gradient;
    real *restrict moment = s->moment, *restrict square = s->square;
    for (size_t i = 0; i < s->parameters; i++) {
        moment[i] = beta1 * moment[i] + (1 - beta1) * g[i];
        square[i] = beta2 * square[i] + (1 - beta2) * g[i] * g[i];
        real root = sizeof(real) == sizeof(float) ? (real)sqrtf((float)square[i])
                                                  : (real)sqrt((double)square[i]);
        p[i] -= rate * moment[i] / (root * unbias + epsilon);
    }
}

enum status stage_update(struct stage *s)
{
    fold(s);
    s->updates++;
    if (s->moment)
        adam(s);
    else
        sgd(s);
    memset(s->gradient, 0, s->parameters * sizeof *s->gradient);
    return STATUS_OK;
}
