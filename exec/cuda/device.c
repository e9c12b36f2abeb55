/* The CUDA device: the stages of a rank (exec/cpu/stage.h) on one GPU. */
#include <stdlib.h>

#include "exec/cpu/stage.h"
#include "exec/cuda/context.h"
#include "exec/device.h"
#include "exec/rendezvous.h"
#include "exec/tcp/socket.h"

/* The gradients of a stage in host memory, for transports that sum there. */
struct mirror {
    float *data;  /* [parameters] or NULL */
    bool is_used; /* in this step: holds the gradients, until the update */
};

struct cuda {
    struct cuda_context context;
    struct cpu *stages;
    struct mirror *mirror; /* [stages] */
    bool direct;           /* the transport takes device memory */
    const struct program *program;
    size_t first, ops;        /* of the rank */
    cudaEvent_t base, *event; /* [2 * ops] begin and end, NULL for communication */
    uint32_t step;            /* of `base`, UINT32_MAX at first */
    double base_s;            /* when it happened */
};

static bool computes(const struct model_op *op)
{
    return device_cpu.computes(op);
}

static void close_cuda(void *self)
{
    struct cuda *c = self;
    if (!c)
        return;
    for (size_t k = 0; c->mirror && k < c->stages->stages; k++)
        free(c->mirror[k].data);
    for (size_t i = 0; c->event && i < 2 * c->ops; i++)
        if (c->event[i])
            cudaEventDestroy(c->event[i]);
    if (c->base)
        cudaEventDestroy(c->base);
    device_cpu.close(c->stages);
    free(c->mirror);
    free(c->event);
    cuda_context_close(&c->context);
    free(c);
}

static enum status open_events(struct cuda *c)
{
    enum status st;
    c->event = calloc(2 * c->ops + 1, sizeof *c->event);
    if (!c->event)
        return error_set(STATUS_NOMEM, "events of %zu ops", c->ops);
    TRY(CUDA_ERROR("event", cudaEventCreate(&c->base)));
    for (size_t i = 0; i < 2 * c->ops; i++)
        if (op_computes(&c->program->op[c->first + i / 2]))
            TRY(CUDA_ERROR("event", cudaEventCreate(&c->event[i])));
out:
    return st;
}

static enum status open_cuda(const struct model *m, const struct program *p, uint32_t rank,
                             const struct device_options *o, void **self)
{
    enum status st;
    uint32_t gpu;
    void *stages;
    struct cuda *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
    c->program = p;
    c->first = p->op_start[rank];
    c->ops = p->op_start[rank + 1] - c->first;
    c->step = UINT32_MAX;
    c->direct = o->direct;
    TRY(cuda_gpu_of(rank, &gpu));
    TRY(cuda_context_open(gpu, &c->context));
    TRY(open_events(c));
    TRY(cpu_open_on(&(struct place){&backend_cuda, &c->context}, m, p, rank, o, &stages));
    c->stages = stages;
    c->mirror = calloc(c->stages->stages, sizeof *c->mirror);
    if (!c->mirror) {
        st = error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
        goto out;
    }
    TRY(cuda_finish(&c->context));
    *self = c;
    c = NULL;
out:
    close_cuda(c);
    return st;
}

/* Position of a stage on this device; the program only asks for those that are. */
static size_t find(const struct cuda *c, uint32_t stage)
{
    size_t k = 0;
    while (k + 1 < c->stages->stages && c->stages->stage[k].index != stage)
        k++;
    return k;
}

/* What the transport has summed goes back before the update uses it. */
static void take_sums(struct cuda *c, uint32_t stage)
{
    size_t k = find(c, stage);
    const struct stage *s = &c->stages->stage[k];
    if (c->mirror[k].is_used)
        backend_cuda.copy(&c->context, s->gradient, c->mirror[k].data,
                          s->parameters * sizeof *s->gradient);
    c->mirror[k].is_used = false;
}

/* GPU clocks count from an event: here, while nothing runs. */
static enum status begin_step(struct cuda *c, uint32_t step)
{
    enum status st;
    CUDA_NOTE(&c->context, "event", cudaEventRecord(c->base, CUDA_STREAM));
    TRY(cuda_finish(&c->context));
    c->base_s = clock_now();
    c->step = step;
out:
    return st;
}

static enum status compute(void *self, uint32_t step, const struct program_op *op)
{
    enum status st;
    struct cuda *c = self;
    cudaEvent_t *event = &c->event[2 * (size_t)(op - c->program->op - (ptrdiff_t)c->first)];
    if (c->step != step)
        TRY(begin_step(c, step));
    CUDA_NOTE(&c->context, "event", cudaEventRecord(event[0], CUDA_STREAM));
    if (op->kind == OP_UPDATE)
        take_sums(c, op->stage);
    TRY(device_cpu.compute(c->stages, step, op));
    CUDA_NOTE(&c->context, "event", cudaEventRecord(event[1], CUDA_STREAM));
    st = cuda_status(&c->context);
out:
    return st;
}

static enum status get(void *self, const struct program_op *send, void *data)
{
    struct cuda *c = self;
    enum status st = device_cpu.get(c->stages, send, data);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static enum status put(void *self, const struct program_op *recv, const void *data)
{
    struct cuda *c = self;
    enum status st = device_cpu.put(c->stages, recv, data);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static enum status gradients(void *self, const struct program_op *op, float **data, size_t *n)
{
    enum status st;
    struct cuda *c = self;
    size_t k = find(c, op->stage);
    const struct stage *s = &c->stages->stage[k];
    struct mirror *mirror = &c->mirror[k];
    float *own;
    TRY(device_cpu.gradients(c->stages, op, &own, n));
    if (c->direct) {
        *data = own;
        goto out;
    }
    if (!mirror->data && !(mirror->data = malloc((s->parameters + 1) * sizeof *mirror->data))) {
        st = error_set(STATUS_NOMEM, "%zu gradients", s->parameters);
        goto out;
    }
    if (!mirror->is_used) /* a later sum works on what an earlier one has left there */
        backend_cuda.copy(&c->context, mirror->data, s->gradient,
                          s->parameters * sizeof *s->gradient);
    mirror->is_used = true;
    *data = mirror->data + (own - s->gradient);
    st = cuda_status(&c->context);
out:
    return st;
}

static enum status finish(void *self)
{
    struct cuda *c = self;
    return cuda_finish(&c->context);
}

static void times(void *self, const struct program_op *op, double *start_s, double *end_s)
{
    struct cuda *c = self;
    const cudaEvent_t *event = &c->event[2 * (size_t)(op - c->program->op - (ptrdiff_t)c->first)];
    float begin_ms = 0, end_ms = 0;
    CUDA_NOTE(&c->context, "time of an op", cudaEventElapsedTime(&begin_ms, c->base, event[0]));
    CUDA_NOTE(&c->context, "time of an op", cudaEventElapsedTime(&end_ms, c->base, event[1]));
    *start_s = c->base_s + (double)begin_ms * 1e-3;
    *end_s = c->base_s + (double)end_ms * 1e-3;
}

static double take_loss(void *self)
{
    struct cuda *c = self;
    double loss = 0;
    backend_cuda.copy(&c->context, &loss, c->context.loss, sizeof loss);
    backend_cuda.zero(&c->context, c->context.loss, sizeof loss);
    return loss;
}

static enum status digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    struct cuda *c = self;
    enum status st = device_cpu.digest(c->stages, op, out);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static bool state(void *self, size_t index, struct device_state *out)
{
    const struct cuda *c = self;
    return device_cpu.state(c->stages, index, out);
}

static enum status save(void *self, size_t index, void *data)
{
    struct cuda *c = self;
    enum status st = device_cpu.save(c->stages, index, data);
    return st == STATUS_OK ? cuda_finish(&c->context) : st;
}

static enum status load(void *self, size_t index, const void *data)
{
    struct cuda *c = self;
    enum status st = device_cpu.load(c->stages, index, data);
    return st == STATUS_OK ? cuda_finish(&c->context) : st;
}

static int64_t peak_bytes(void *self)
{
    const struct cuda *c = self;
    return c->context.bytes; /* all of it was allocated at open() */
}

const struct device device_cuda = {
    .name = "cuda",
    .computes = computes,
    .open = open_cuda,
    .close = close_cuda,
    .compute = compute,
    .get = get,
    .put = put,
    .gradients = gradients,
    .finish = finish,
    .times = times,
    .take_loss = take_loss,
    .digest = digest,
    .peak_bytes = peak_bytes,
    .state = state,
    .save = save,
    .load = load,
};
