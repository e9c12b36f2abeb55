#include "core/plan.h"

#include <math.h>
#include <stdlib.h>

#include "core/model.h"
#include "core/schedule.h"
#include "core/topology.h"

void plan_free(struct plan *p)
{
    for (size_t s = 0; p->stage && s < p->stages; s++) {
        free(p->stage[s].op);
        free(p->stage[s].device);
    }
    free(p->stage);
    free(p->model);
    free(p->platform);
    free(p->schedule);
    free(p->optimizer);
    free(p->algorithm);
    *p = (struct plan){0};
}

/* stage_of[op] = stage, UINT32_MAX where an op has none. */
static enum status check_ops(const struct plan *p, const struct model *m, uint32_t *stage_of)
{
    for (size_t i = 0; i < m->n; i++)
        stage_of[i] = UINT32_MAX;
    for (uint32_t s = 0; s < p->stages; s++) {
        if (p->stage[s].ops == 0)
            return error_set(STATUS_INVALID, "stage %u has no ops", s);
        for (size_t k = 0; k < p->stage[s].ops; k++) {
            uint32_t op = p->stage[s].op[k];
            if (op >= m->n || (k > 0 && op <= p->stage[s].op[k - 1]))
                return error_set(STATUS_INVALID, "stage %u: ops are not ascending", s);
            if (stage_of[op] != UINT32_MAX)
                return error_set(STATUS_INVALID, "op '%s' is in stages %u and %u", m->op[op].name,
                                 stage_of[op], s);
            stage_of[op] = s;
        }
    }
    for (uint32_t i = 0; i < m->n; i++) {
        if (stage_of[i] == UINT32_MAX)
            return error_set(STATUS_INVALID, "op '%s' is in no stage", m->op[i].name);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            if (stage_of[m->in[k]] > stage_of[i])
                return error_set(
                    STATUS_INVALID, "op '%s' of stage %u needs '%s' of the later stage %u",
                    m->op[i].name, stage_of[i], m->op[m->in[k]].name, stage_of[m->in[k]]);
    }
    return STATUS_OK;
}

static enum status check_devices(const struct plan *p, const struct topology *t, bool *used)
{
    for (uint32_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        if (stage->replicas < 1 || stage->tensor_parallel < 1 ||
            stage->devices != (size_t)stage->replicas * stage->tensor_parallel)
            return error_set(STATUS_INVALID, "stage %u: %zu devices for %u replicas x %u", s,
                             stage->devices, stage->replicas, stage->tensor_parallel);
        if (stage->replicas > p->microbatches)
            return error_set(
                STATUS_INVALID,
                "stage %u: %u replicas but only %u microbatches; each replica needs one", s,
                stage->replicas, p->microbatches);
        for (size_t k = 0; k < stage->devices; k++) {
            uint32_t d = stage->device[k];
            if (d >= t->n)
                return error_set(STATUS_INVALID, "stage %u: no such device", s);
            if (used[d])
                return error_set(STATUS_INVALID, "device '%s' serves twice", t->device[d]);
            used[d] = true;
        }
    }
    return STATUS_OK;
}

enum status plan_check(const struct plan *p, const struct model *m, const struct topology *t)
{
    enum status st;
    const struct schedule *schedule;
    uint32_t *stage_of = calloc(m->n + 1, sizeof *stage_of);
    bool *used = calloc(t->n + 1, sizeof *used);

    if (!stage_of || !used) {
        st = error_set(STATUS_NOMEM, "plan of %zu stages", p->stages);
        goto out;
    }
    if (p->stages == 0 || p->stages > m->n) {
        st = error_set(STATUS_INVALID, "%zu stages for %zu ops", p->stages, m->n);
        goto out;
    }
    if (p->microbatches < 1 || p->microbatch_size < 1) {
        st = error_set(STATUS_INVALID, "%u microbatches of %u samples", p->microbatches,
                       p->microbatch_size);
        goto out;
    }
    TRY(schedule_find(p->schedule, &schedule));
    TRY(check_ops(p, m, stage_of));
    TRY(check_devices(p, t, used));
out:
    free(used);
    free(stage_of);
    return st;
}
