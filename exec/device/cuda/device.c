/* The CUDA device: the stages of a rank (exec/device/cpu/stage.h), or its shards of a strategy
 * (exec/device/sharded/sharded.h), on one GPU. */
#include <stdlib.h>

#include "core/base/array.h"
#include "exec/device.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/cuda/attention_cudnn.h"
#include "exec/device/cuda/context.h"
#include "exec/device/cuda/graphs.h"
#include "exec/device/cuda/hardware.h"
#include "exec/device/cuda/times.h"
#include "exec/device/sharded/sharded.h"
#include "exec/rendezvous.h"

/* An array of a collective in host memory, for transports that sum there. */
struct mirror {
    const struct program_op *op; /* NULL: free */
    void *own, *data;            /* on the device; its copy */
    size_t bytes, room;          /* of both; of the copy's memory */
};

struct cuda {
    struct cuda_context context;
    const struct device *of;  /* who has the logic, on `context`: device_cpu or device_sharded */
    void *self;               /* and its state, which is: */
    struct stage_set *stages; /* NULL: of a strategy */
    struct arithmetic_engine engine; /* of a strategy */
    size_t mirrors;
    struct mirror *mirror; /* [mirrors] as many as collectives have been in flight at once */
    bool direct;           /* the transport takes device memory */
    struct cuda_times times;
    struct cuda_graphs graphs;
};

static bool cuda_device_computes(const struct model *m, uint32_t op)
{
    return device_cpu.computes(m, op);
}

static void close_cuda(void *self)
{
    struct cuda *c = self;
    if (!c)
        return;
    for (size_t k = 0; k < c->mirrors; k++)
        free(c->mirror[k].data);
    cuda_times_close(&c->times);
    cuda_graphs_close(&c->graphs);
    if (c->of)
        c->of->close(c->self);
    free(c->mirror);
    cuda_context_close(&c->context);
    free(c);
}

/* CUDA loads a kernel when it is first launched, and cuBLAS chooses one for every shape then; both
 * take long, and may wait for all that the GPU is at, which could be a receive that waits for this
 * rank. So everything runs once before there is anybody to wait for. */
static enum status rehearse(struct cuda *c)
{
    for (size_t k = 0; c->stages && k < c->stages->stages; k++)
        PASS(stage_rehearse(&c->stages->stage[k]));
    if (!c->stages)
        sharded_rehearse(c->self);
    float *zero = (float *)(void *)c->context.loss;
    CUDA_NOTE(&c->context, "zero", cudaMemsetAsync(zero, 0, sizeof *c->context.loss, CUDA_STREAM));
    CUDA_NOTE(&c->context, "first sum", kernel_add(zero, zero + 1, 1));
    for (enum element e = ELEMENT_BF16; e < ELEMENTS; e++)
        CUDA_NOTE(&c->context, "first sum", kernel_accumulate(cuda_numbers(e), zero, zero + 1, 1));
    return cuda_finish(&c->context);
}

static enum status open_stages(struct cuda *c, const struct model *m, const struct program *p,
                               uint32_t rank, const struct device_options *o)
{
    PASS(cpu_open_on(&(struct memory){&backend_cuda, &c->context}, m, p, rank, o, &c->self));
    c->of = &device_cpu;
    c->stages = c->self;
    return STATUS_OK;
}

static enum status open_strategy(struct cuda *c, const struct program *p, uint32_t rank,
                                 const struct device_options *o)
{
    struct sharded *s;
    if (o->graphs || o->cudnn)
        return error_set(STATUS_UNSUPPORTED,
                         "--%s: unsupported for plans with \"steps\" (ops sharded step by step)",
                         o->graphs ? "cuda-graphs" : "cudnn");
    c->engine = (struct arithmetic_engine){&arithmetic_cuda, {&backend_cuda, &c->context}};
    PASS(sharded_open(&c->engine, p, rank, o, &s));
    c->of = &device_sharded;
    c->self = s;
    return STATUS_OK;
}

/* Context, events, then the stages, which allocate in the GPU's memory. */
static enum status open_cuda(const struct model *m, const struct program *p, uint32_t rank,
                             const struct device_options *o, void **self)
{
    enum status st;
    uint32_t gpu;
    struct cuda *c;
    bool steps = p->stage[p->rank[rank].stage].stepped;
    TRY(ARRAY_NEW(c, 1));
    c->direct = o->direct;
    TRY(cuda_gpu_of(rank, &gpu));
    TRY(cuda_context_open(gpu, &c->context));
    c->context.part = o->part;
    if (o->cudnn && !steps && cuda_cudnn_open(&c->context) != STATUS_OK) {
        st = error_context(STATUS_UNSUPPORTED, "--cudnn");
        goto out;
    }
    TRY(cuda_times_open(p, rank, &c->times));
    TRY(steps ? open_strategy(c, p, rank, o) : open_stages(c, m, p, rank, o));
    TRY(rehearse(c));
    if (o->graphs)
        TRY(cuda_graphs_open(p, rank, &c->context, c->stages, &c->graphs));
    MOVE(self, c);
out:
    close_cuda(c);
    return st;
}

/* What a transport that knows only the host works on: a copy, which goes back before the next one
 * is asked for and when the op is complete. */
static void take_back(struct cuda *c, const struct program_op *op)
{
    for (struct mirror *m = c->mirror; m < c->mirror + c->mirrors; m++) {
        if (m->op != op)
            continue;
        backend_cuda.copy(&c->context, m->own, m->data, m->bytes);
        m->op = NULL;
    }
}

/* The mirror of an op in flight (NULL: a free one), with room for so many bytes; NULL: no
 * memory. */
static struct mirror *mirror_of(struct cuda *c, const struct program_op *op, size_t bytes)
{
    size_t k = 0;
    while (k < c->mirrors && c->mirror[k].op != op)
        k++;
    if (k == c->mirrors) {
        if (ARRAY_ROOM(c->mirror, k) != STATUS_OK)
            return NULL;
        c->mirror[c->mirrors++] = (struct mirror){0};
    }
    struct mirror *m = &c->mirror[k];
    if (bytes > m->room) {
        free(m->data);
        m->data = malloc(bytes);
        m->room = m->data ? bytes : 0;
    }
    return bytes > m->room ? NULL : m;
}

/* Sums of tensor parallelism, rows that shards gather and scatter, and what replicas that share
 * sequences exchange: what is told to do them, and what surrounds them with events. */
struct cuda_sums {
    struct cuda *c;
    const struct layer_reduction *transport;
};

static void hand_on(const struct cuda_sums *s, int how, enum element e, void *data, size_t n)
{
    const struct layer_reduction *t = s->transport;
    if (how == CUDA_SUM)
        t->sum(t->self, e, data, n);
    else if (how >= MOVE_CONTEXT_GATHER)
        t->exchange(t->self, how == MOVE_EXPERTS ? FOR_EXPERTS : FOR_CONTEXT,
                    layer_move_kind((enum layer_move)how), data, n);
    else
        t->move(t->self, (enum layer_move)how, e, data, n);
}

/* To the host, over the shards, and back; waits for the GPU. */
static void on_host(const struct cuda_sums *s, int how, enum element e, void *data, size_t n)
{
    size_t bytes = n * element_bytes(e);
    struct mirror *m = mirror_of(s->c, NULL, bytes);
    if (!m) {
        CUDA_NOTE(&s->c->context, "memory for a sum", cudaErrorMemoryAllocation);
        return;
    }
    backend_cuda.copy(&s->c->context, m->data, data, bytes);
    hand_on(s, how, e, m->data, n);
    backend_cuda.copy(&s->c->context, data, m->data, bytes);
}

/* Inside an op. */
static void surrounded(const struct cuda_sums *s, int how, enum element e, void *data, size_t n)
{
    cuda_times_sum_begin(&s->c->times, &s->c->context, how);
    if (s->c->direct)
        hand_on(s, how, e, data, n);
    else
        on_host(s, how, e, data, n);
    cuda_times_sum_end(&s->c->times, &s->c->context);
}

static void cuda_device_sum(void *self, enum element e, void *data, size_t n)
{
    surrounded(self, CUDA_SUM, e, data, n);
}

static void cuda_device_move(void *self, enum layer_move how, enum element e, void *data, size_t n)
{
    surrounded(self, (int)how, e, data, n);
}

static void cuda_device_exchange(void *self, enum op_purpose purpose, enum op_kind kind, void *data,
                                 size_t n)
{
    enum layer_move how = purpose == FOR_EXPERTS ? MOVE_EXPERTS : MOVE_CONTEXT_GATHER;
    while (layer_move_kind(how) != kind)
        how++;
    surrounded(self, (int)how, ELEMENT_FP32, data, n);
}

static void cuda_device_fail(void *self, enum status st)
{
    const struct cuda_sums *s = self;
    s->transport->fail(s->transport->self, st);
}

static enum status cuda_device_compute(void *self, uint32_t step, const struct program_op *op,
                                       const struct layer_reduction *reduction)
{
    enum status st;
    struct cuda *c = self;
    TRY(cuda_times_begin(&c->times, &c->context, step, op));
    const struct layer_reduction mine = {.self = &(struct cuda_sums){c, reduction},
                                         .sum = cuda_device_sum,
                                         .exchange = cuda_device_exchange,
                                         .move = cuda_device_move,
                                         .fail = cuda_device_fail};
    TRY(c->stages ? cuda_graphs_compute(&c->graphs, &c->context, c->stages, step, op, &mine)
                  : c->of->compute(c->self, step, op, &mine));
    cuda_times_end(&c->times, &c->context);
    st = cuda_status(&c->context);
out:
    return st;
}

static enum status cuda_device_get(void *self, const struct program_op *send, void *data)
{
    struct cuda *c = self;
    enum status st = c->of->get(c->self, send, data);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static enum status cuda_device_put(void *self, const struct program_op *recv, const void *data)
{
    struct cuda *c = self;
    enum status st = c->of->put(c->self, recv, data);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

/* The array itself for transports that take device memory, else a mirror of it in host memory. */
static enum status cuda_device_array(void *self, const struct program_op *op, uint32_t k,
                                     enum element *e, void **data, size_t *n)
{
    enum status st;
    struct cuda *c = self;
    if (k > 0)
        take_back(c, op);
    TRY(c->of->array(c->self, op, k, e, data, n));
    if (c->direct || !*data)
        goto out;
    struct mirror *m = mirror_of(c, NULL, *n * element_bytes(*e));
    if (!m) {
        st = error_set(STATUS_NOMEM, "out of GPU memory: buffer of %zu bytes for gradients",
                       *n * element_bytes(*e));
        goto out;
    }
    m->op = op;
    m->own = *data;
    m->bytes = *n * element_bytes(*e);
    backend_cuda.copy(&c->context, m->data, m->own, m->bytes);
    *data = m->data;
    st = cuda_status(&c->context);
out:
    return st;
}

static enum status cuda_device_collected(void *self, const struct program_op *op)
{
    struct cuda *c = self;
    take_back(c, op);
    enum status st = c->of->collected(c->self, op);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static enum status cuda_device_gathered(void *self, const struct program_op *op)
{
    struct cuda *c = self;
    enum status st = c->of->gathered(c->self, op);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static enum status cuda_device_finish(void *self)
{
    struct cuda *c = self;
    return cuda_finish(&c->context);
}

static void cuda_device_times(void *self, const struct program_op *op, double *start_s,
                              double *end_s, double *sums_s)
{
    struct cuda *c = self;
    cuda_times_read(&c->times, &c->context, op, start_s, end_s, sums_s);
}

static double cuda_device_moved(void *self, const struct program_op *op, int how)
{
    struct cuda *c = self;
    return cuda_times_moved(&c->times, &c->context, op, how);
}

static void *cuda_device_clock(void *self)
{
    struct cuda *c = self;
    return &c->times.clock;
}

/* The loss is summed on the GPU; it comes to the host once per step. */
static double cuda_device_take_loss(void *self)
{
    struct cuda *c = self;
    double loss = 0;
    backend_cuda.copy(&c->context, &loss, c->context.loss, sizeof loss);
    backend_cuda.zero(&c->context, c->context.loss, sizeof loss);
    return loss;
}

static enum status cuda_device_digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    struct cuda *c = self;
    enum status st = c->of->digest(c->self, op, out);
    return st == STATUS_OK ? cuda_status(&c->context) : st;
}

static bool cuda_device_state(void *self, size_t index, struct device_state *out)
{
    const struct cuda *c = self;
    return c->of->state(c->self, index, out);
}

static enum status cuda_device_save(void *self, size_t index, void *data)
{
    struct cuda *c = self;
    enum status st = c->of->save(c->self, index, data);
    return st == STATUS_OK ? cuda_finish(&c->context) : st;
}

static enum status cuda_device_load(void *self, size_t index, const void *data)
{
    struct cuda *c = self;
    enum status st = c->of->load(c->self, index, data);
    return st == STATUS_OK ? cuda_finish(&c->context) : st;
}

/* Nothing is allocated or freed in steps, so what is held now is the most. */
static int64_t cuda_device_peak_bytes(void *self)
{
    const struct cuda *c = self;
    return cuda_held_bytes(&c->context);
}

static const char *remark(void *self)
{
    const struct cuda *c = self;
    size_t shapes;
    return cuda_cudnn_remark(&c->context, &shapes);
}

const struct device device_cuda = {
    .name = "cuda",
    .computes = cuda_device_computes,
    .describe = cuda_describe,
    .open = open_cuda,
    .close = close_cuda,
    .remark = remark,
    .compute = cuda_device_compute,
    .get = cuda_device_get,
    .put = cuda_device_put,
    .array = cuda_device_array,
    .collected = cuda_device_collected,
    .gathered = cuda_device_gathered,
    .finish = cuda_device_finish,
    .times = cuda_device_times,
    .moved = cuda_device_moved,
    .clock = cuda_device_clock,
    .take_loss = cuda_device_take_loss,
    .digest = cuda_device_digest,
    .peak_bytes = cuda_device_peak_bytes,
    .state = cuda_device_state,
    .save = cuda_device_save,
    .load = cuda_device_load,
};
