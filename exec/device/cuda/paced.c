/* The paced device on a GPU: an op is a kernel that looks at the GPU's clock until the predicted
 * time is over; messages and sums are real, in the memory that the transport works on. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "exec/device/cuda/context.h"
#include "exec/device/cuda/hardware.h"
#include "exec/device/cuda/times.h"
#include "exec/device/paced.h"
#include "exec/rounds.h"

struct cuda_paced {
    const struct program *program;
    struct cuda_context context;
    struct cuda_times times;
    bool direct;     /* the transport takes device memory */
    size_t room;     /* of the largest sum */
    float *gradient; /* [room] zeros, for whatever is summed; on the GPU if direct */
};

static void close_paced(void *self)
{
    struct cuda_paced *s = self;
    if (!s)
        return;
    if (s->direct)
        cudaFree(s->gradient);
    else
        free(s->gradient);
    cuda_times_close(&s->times);
    cuda_context_close(&s->context);
    free(s);
}

/* Zeros where the transport works: on the GPU or in host memory. */
static enum status cuda_paced_allocate(struct cuda_paced *s)
{
    size_t bytes = (s->room + 1) * sizeof *s->gradient;
    if (s->direct) {
        enum status st = CUDA_ERROR("gradients", cudaMalloc((void **)&s->gradient, bytes));
        if (st == STATUS_OK)
            backend_cuda.zero(&s->context, s->gradient, bytes);
        return st;
    }
    return ARRAY_NEW(s->gradient, s->room);
}

static enum status open_paced(const struct model *m, const struct program *p, uint32_t rank,
                              const struct device_options *o, void **self)
{
    (void)m;
    enum status st;
    uint32_t gpu;
    struct cuda_paced *s;
    TRY(ARRAY_NEW(s, 1));
    s->direct = o->direct;
    s->program = p;
    TRY(paced_room(p, rank, &s->room));
    TRY(cuda_gpu_of(rank, &gpu));
    TRY(cuda_context_open(gpu, &s->context));
    TRY(cuda_times_open(p, rank, &s->times));
    TRY(cuda_paced_allocate(s));
    TRY(cuda_finish(&s->context));
    MOVE(self, s);
out:
    close_paced(s);
    return st;
}

/* Queued like any op: the GPU waits, not this thread. */
static enum status cuda_paced_compute(void *self, uint32_t step, const struct program_op *op,
                                      const struct layer_reduction *reduction)
{
    (void)reduction;
    enum status st;
    struct cuda_paced *s = self;
    TRY(cuda_times_begin(&s->times, &s->context, step, op));
    if (op->seconds > 0)
        CUDA_NOTE(&s->context, "paced op", kernel_spin((uint64_t)(op->seconds * 1e9)));
    cuda_times_end(&s->times, &s->context);
    st = cuda_status(&s->context);
out:
    return st;
}

static enum status cuda_paced_finish(void *self)
{
    struct cuda_paced *s = self;
    return cuda_finish(&s->context);
}

static void cuda_paced_times(void *self, const struct program_op *op, double *start_s,
                             double *end_s, double *sums_s)
{
    struct cuda_paced *s = self;
    cuda_times_read(&s->times, &s->context, op, start_s, end_s, sums_s);
}

static void *cuda_paced_clock_of(void *self)
{
    struct cuda_paced *s = self;
    return &s->times.clock;
}

/* Bytes that name the microbatch, as the other paced device's; when the op before is over. */
static enum status cuda_paced_get(void *self, const struct program_op *send, void *data)
{
    struct cuda_paced *s = self;
    int byte = paced_byte(send);
    enum status st = STATUS_OK;
    if (s->direct) {
        CUDA_NOTE(&s->context, "message",
                  cudaMemsetAsync(data, byte, (size_t)send->bytes, CUDA_STREAM));
        return cuda_status(&s->context);
    }
    TRY(cuda_finish(&s->context));
    memset(data, byte, (size_t)send->bytes);
out:
    return st;
}

static enum status cuda_paced_array(void *self, const struct program_op *op, uint32_t k,
                                    enum element *e, void **data, size_t *n)
{
    struct cuda_paced *s = self;
    *data = k < op->count ? s->gradient : NULL;
    *e = paced_element(s->program, op);
    *n = rounds_numbers(op, *e);
    return s->direct ? STATUS_OK : cuda_finish(&s->context);
}

static int64_t cuda_paced_peak_bytes(void *self)
{
    const struct cuda_paced *s = self;
    return cuda_held_bytes(&s->context);
}

const struct device device_cuda_paced = {
    .name = "paced-cuda",
    .computes = NULL,
    .describe = cuda_describe,
    .open = open_paced,
    .close = close_paced,
    .compute = cuda_paced_compute,
    .get = cuda_paced_get,
    .put = paced_put,
    .array = cuda_paced_array,
    .finish = cuda_paced_finish,
    .times = cuda_paced_times,
    .clock = cuda_paced_clock_of,
    .take_loss = paced_take_loss,
    .digest = paced_digest,
    .peak_bytes = cuda_paced_peak_bytes,
};
