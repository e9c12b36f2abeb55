/* Where tokens went in ops of experts: what ranks report of it before they are done, and what of it
 * is in the measurement. */
#include <math.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "exec/launch/run.h"

static size_t routing_experts(const struct launch_state *run, size_t op)
{
    return (size_t)model_attribute(&run->model->op[op], "experts", 0);
}

bool launch_routing_fits(const struct launch_state *run, uint64_t bytes)
{
    size_t most = 0;
    for (size_t i = 0; i < run->model->n; i++)
        most = routing_experts(run, i) > most ? routing_experts(run, i) : most;
    return bytes >= sizeof(struct frame_routed) &&
           bytes <= sizeof(struct frame_routed) + most * sizeof(uint64_t);
}

/* Shards route the same tokens: the first one's count. */
enum status launch_take_routing(struct launch_state *run, uint32_t rank, const char *payload,
                                uint64_t bytes)
{
    struct frame_routed f;
    memcpy(&f, payload, sizeof f);
    if (f.op >= run->model->n || f.experts == 0 || f.experts != routing_experts(run, f.op) ||
        bytes != sizeof f + f.experts * sizeof(uint64_t))
        return error_set(STATUS_IO,
                         "the worker reported token routing of op %llu to %llu experts, which does "
                         "not match the model",
                         (unsigned long long)f.op, (unsigned long long)f.experts);
    if (run->program->rank[rank].shard > 0)
        return STATUS_OK;
    if (!run->reports.routed)
        PASS(ARENA_NEW(&run->reports.memory, run->reports.routed, run->model->n));
    struct run_routed *to = &run->reports.routed[f.op];
    if (!to->rows)
        PASS(ARENA_NEW(&run->reports.memory, to->rows, f.experts));
    for (size_t e = 0; e < f.experts; e++) {
        uint64_t rows;
        memcpy(&rows, payload + sizeof f + e * sizeof rows, sizeof rows);
        to->rows[e] += (double)rows;
    }
    to->calls += (double)f.calls;
    for (size_t k = 0; k < LAYER_SPREADS; k++)
        to->busiest[k] += f.busiest[k];
    return STATUS_OK;
}

static enum status routing_fill(const struct launch_state *run, size_t op,
                                struct measured_experts *out)
{
    const struct run_routed *from = &run->reports.routed[op];
    double most = 0, all = 0;
    PASS(text_copy(run->model->op[op].name, &out->op));
    PASS(ARRAY_COPY(out->rows, from->rows, routing_experts(run, op)));
    out->experts = routing_experts(run, op);
    for (size_t e = 0; e < out->experts; e++) {
        most = fmax(most, out->rows[e]);
        all += out->rows[e];
    }
    out->imbalance = all > 0 ? most * (double)out->experts / all : 1;
    PASS(ARRAY_NEW(out->busiest, LAYER_SPREADS));
    for (size_t k = 0; k < LAYER_SPREADS && from->busiest[k] > 0; k++)
        out->busiest[out->spreads++] = from->busiest[k] / from->calls;
    return STATUS_OK;
}

enum status launch_fill_routing(const struct launch_state *run, struct measurement *out)
{
    size_t n = 0;
    if (!run->reports.routed)
        return STATUS_OK;
    for (size_t i = 0; i < run->model->n; i++)
        n += run->reports.routed[i].rows != NULL;
    PASS(ARRAY_NEW(out->expert, n));
    for (size_t i = 0; i < run->model->n; i++)
        if (run->reports.routed[i].rows)
            PASS(routing_fill(run, i, &out->expert[out->expert_ops++]));
    return STATUS_OK;
}
