#include "exec/device/cuda/graphs.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "exec/device.h"
#include "exec/device/cpu/stage_parts.h"

/* ---- what there can be no graphs of */

static const char *cuda_graph_hindrance(const struct program *p, const struct stage *s)
{
    if (s->share.shard.shards > 1)
        return "tensor parallelism communicates inside forward and backward passes";
    if (s->share.context > 1 || s->layout.spread > 0)
        return "context or expert parallelism communicates inside forward and backward passes";
    if (s->share.zero >= 2)
        return "ZeRO 2 and 3 alternate between two bucket buffers";
    if (p->asynchronous)
        return "parameters change address in schedules without a pipeline flush";
    for (size_t i = 0; i < s->layout.producers; i++)
        if (s->layout.producer[i].local)
            return "several stages of one rank exchange tensors through the host";
    return NULL;
}

static bool is_pass(const struct program_op *op)
{
    return (op->kind == OP_FORWARD || op->kind == OP_BACKWARD || op->kind == OP_BACKWARD_INPUT ||
            op->kind == OP_BACKWARD_WEIGHT) &&
           !op_is_beside(op);
}

/* Weights in 16 bits are made at the first pass after parameters have changed, whichever that is:
 * not in its graph. */
static enum status narrow_weights(struct stage *s, const struct program_op *op)
{
    const struct slot newest = {.version = (uint32_t)s->state.newest};
    return op->kind == OP_BACKWARD_WEIGHT ? STATUS_OK : stage_begin_part(s, &newest, 0);
}

/* ---- passes, which are noted */

static struct cuda_graph *graph_of(const struct cuda_graphs *g, const struct program_op *op)
{
    return &g->graph[(size_t)(op - g->program->op) - g->first];
}

static uint32_t slot_of(const struct stage *s, const struct program_op *op)
{
    return s->stash.slot_of[op->microbatch];
}

/* out->slot: where the microbatch is during the pass. */
static enum status compute_noted(enum cuda_queueing how, struct stage_set *stages, uint32_t step,
                                 const struct program_op *op,
                                 const struct layer_reduction *reduction, struct cuda_graph *out)
{
    const struct stage *s = cpu_stage(stages, op->stage);
    uint32_t before = slot_of(s, op);
    cuda_queue_begin(how);
    enum status st = device_cpu.compute(stages, step, op, reduction);
    out->prints = cuda_queue_end();
    out->slot = before > 0 ? before : slot_of(s, op);
    return st;
}

enum status cuda_graphs_compute(const struct cuda_graphs *g, struct cuda_context *c,
                                struct stage_set *stages, uint32_t step,
                                const struct program_op *op,
                                const struct layer_reduction *reduction)
{
    const struct cuda_graph *own = g->graph ? graph_of(g, op) : NULL;
    struct cuda_graph now;
    if (!own || !own->exec)
        return device_cpu.compute(stages, step, op, reduction);
    PASS(narrow_weights(cpu_stage(stages, op->stage), op));
    PASS(compute_noted(QUEUE_SKIPPED, stages, step, op, reduction, &now));
    if (now.slot != own->slot || now.prints.launches != own->prints.launches ||
        now.prints.print != own->prints.print)
        return error_set(STATUS_INVALID,
                         "CUDA graph does not match: got %zu launches in slot %u, captured %zu in "
                         "slot %u; run without --cuda-graphs",
                         now.prints.launches, now.slot, own->prints.launches, own->slot);
    CUDA_NOTE(c, "graph", cudaGraphLaunch(own->exec, CUDA_STREAM));
    return STATUS_OK;
}

/* ---- capture */

/* An earlier pass of this kind and stage that launches the same; NULL: there is none. */
static struct cuda_graph *find_alike(const struct cuda_graphs *g, const struct program_op *op,
                                     const struct cuda_graph *own)
{
    for (struct cuda_graph *o = g->graph; o < own; o++) {
        const struct program_op *other = &g->program->op[g->first + (size_t)(o - g->graph)];
        if (o->exec && other->kind == op->kind && other->stage == op->stage &&
            other->part == op->part && o->slot == own->slot &&
            o->prints.launches == own->prints.launches && o->prints.print == own->prints.print)
            return o;
    }
    return NULL;
}

/* Nobody is asked to sum: without shards no pass does. */
static enum status capture(struct cuda_graphs *g, struct cuda_context *c, struct stage_set *stages,
                           const struct program_op *op)
{
    static const struct layer_reduction nobody = {0};
    struct cuda_graph *own = graph_of(g, op);
    cudaGraph_t graph = NULL;
    PASS(narrow_weights(cpu_stage(stages, op->stage), op));
    PASS(CUDA_ERROR("capture",
                    cudaStreamBeginCapture(CUDA_STREAM, cudaStreamCaptureModeThreadLocal)));
    enum status st = compute_noted(QUEUE_NOTED, stages, 0, op, &nobody, own);
    CUDA_NOTE(c, "end of a capture", cudaStreamEndCapture(CUDA_STREAM, &graph));
    st = st == STATUS_OK ? cuda_status(c) : st;
    const struct cuda_graph *other = st == STATUS_OK ? find_alike(g, op, own) : NULL;
    if (other) {
        own->exec = other->exec;
        own->borrowed = true;
    } else if (st == STATUS_OK && own->prints.launches > 0) {
        CUDA_NOTE(c, "make a graph", cudaGraphInstantiate(&own->exec, graph, 0));
        if (own->exec)
            CUDA_NOTE(c, "upload a graph", cudaGraphUpload(own->exec, CUDA_STREAM));
        st = cuda_status(c);
    }
    if (graph)
        cudaGraphDestroy(graph);
    return st;
}

/* What is not captured, for what the stages remember of it alone. */
static enum status pretend(struct stage_set *stages, const struct program_op *op, void *message)
{
    cuda_queue_begin(QUEUE_SKIPPED);
    enum status st = op->kind == OP_RECV   ? device_cpu.put(stages, op, message)
                     : op->kind == OP_SEND ? device_cpu.get(stages, op, message)
                                           : device_cpu.compute(stages, 0, op, NULL);
    (void)cuda_queue_end();
    return st;
}

/* The list as in a step (exec/executor.c): what a pass needs has come just before it. */
static enum status walk(struct cuda_graphs *g, struct cuda_context *c, struct stage_set *stages,
                        void *message)
{
    const struct program *p = g->program;
    for (size_t k = g->first; k < g->first + g->ops; k++) {
        const struct program_op *op = &p->op[k];
        for (uint32_t d = op->dep_start; d < op[1].dep_start && op_computes(op); d++)
            if (p->op[p->dep[d]].kind == OP_RECV)
                PASS(pretend(stages, &p->op[p->dep[d]], message));
        if (is_pass(op))
            PASS(capture(g, c, stages, op));
        else if (op->kind == OP_SEND || op_computes(op))
            PASS(pretend(stages, op, message));
    }
    return STATUS_OK;
}

/* As if no step had been. */
static void cuda_graph_forget(struct stage_set *stages)
{
    for (struct stage *s = stages->stage; s < stages->stage + stages->stages; s++) {
        s->state.updates = s->state.since = 0;
        s->pass.reduction = NULL;
    }
}

enum status cuda_graphs_open(const struct program *p, uint32_t rank, struct cuda_context *c,
                             struct stage_set *stages, struct cuda_graphs *g)
{
    enum status st;
    size_t most = 1;
    char *message = NULL;
    *g = (struct cuda_graphs){
        .program = p, .first = p->op_start[rank], .ops = p->op_start[rank + 1] - p->op_start[rank]};
    for (size_t k = 0; k < stages->stages; k++) {
        const char *why = cuda_graph_hindrance(p, &stages->stage[k]);
        if (why)
            FAIL(STATUS_UNSUPPORTED, "--cuda-graphs: unsupported for stage %u: %s",
                 stages->stage[k].index, why);
    }
    for (size_t k = g->first; k < g->first + g->ops; k++)
        if (op_is_message(&p->op[k]) && (size_t)p->op[k].bytes > most)
            most = (size_t)p->op[k].bytes;
    TRY(ARRAY_NEW(message, most)); /* nothing is written there */
    TRY(ARRAY_NEW(g->graph, g->ops));
    TRY(walk(g, c, stages, message));
    cuda_graph_forget(stages);
    st = cuda_finish(c);
out:
    free(message);
    return st;
}

void cuda_graphs_close(struct cuda_graphs *g)
{
    for (size_t k = 0; g->graph && k < g->ops; k++)
        if (g->graph[k].exec && !g->graph[k].borrowed)
            cudaGraphExecDestroy(g->graph[k].exec);
    free(g->graph);
    *g = (struct cuda_graphs){0};
}
