/* A GPU's memory: every thread has the stream of its own that CUDA gives it, marks are events. */
#include <stdlib.h>

#include "exec/device/cuda/context.h"
#include "exec/device/cuda/times.h"
#include "exec/transport/local/local.h"

static enum status local_cuda_where(int *memory)
{
    return CUDA_ERROR("which GPU", cudaGetDevice(memory));
}

static enum status local_cuda_choose(int memory)
{
    return CUDA_ERROR("choose the GPU", cudaSetDevice(memory));
}

static enum status local_cuda_reach(int memory)
{
    enum status st;
    int mine, can = 0;
    TRY(CUDA_ERROR("which GPU", cudaGetDevice(&mine)));
    TRY(CUDA_ERROR("look for peers", cudaDeviceCanAccessPeer(&can, mine, memory)));
    if (!can)
        return error_set(STATUS_UNSUPPORTED,
                         "GPU %d cannot read the memory of GPU %d. Try --transport nccl", mine,
                         memory);
    cudaError_t e = cudaDeviceEnablePeerAccess(memory, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
    else
        TRY(CUDA_ERROR("read another GPU's memory", e));
out:
    return st;
}

static void *local_cuda_allocate(size_t bytes)
{
    void *data = NULL;
    return cudaMalloc(&data, bytes + 1) == cudaSuccess ? data : NULL;
}

static void local_cuda_release(void *data)
{
    cudaFree(data);
}

static enum status local_cuda_new_mark(void **mark)
{
    cudaEvent_t event;
    enum status st = CUDA_ERROR("event", cudaEventCreate(&event));
    if (st == STATUS_OK)
        *mark = event;
    return st;
}

static void local_cuda_free_mark(void *mark)
{
    if (mark)
        cudaEventDestroy(mark);
}

static enum status local_cuda_record(void *mark)
{
    return CUDA_ERROR("order streams", cudaEventRecord(mark, CUDA_STREAM));
}

static enum status local_cuda_follow(void *mark)
{
    return CUDA_ERROR("order streams", cudaStreamWaitEvent(CUDA_STREAM, mark, 0));
}

static enum status local_cuda_query(void *mark, bool *happened)
{
    cudaError_t e = cudaEventQuery(mark);
    *happened = e == cudaSuccess;
    return e == cudaErrorNotReady ? STATUS_OK : CUDA_ERROR("wait", e);
}

/* Before all else: what arrives is only looked at there. */
static enum status new_queue(void **queue)
{
    cudaStream_t stream;
    enum status st =
        CUDA_ERROR("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (st == STATUS_OK)
        *queue = stream;
    return st;
}

static void free_queue(void *queue)
{
    if (queue)
        cudaStreamDestroy(queue);
}

static enum status record_after(void *queue, void *after, void *mark)
{
    enum status st;
    TRY(CUDA_ERROR("order streams", cudaStreamWaitEvent(queue, after, 0)));
    TRY(CUDA_ERROR("order streams", cudaEventRecord(mark, queue)));
out:
    return st;
}

static enum status local_cuda_start(void *clock)
{
    return cuda_clock_start(clock);
}

static double when(const void *clock, void *mark)
{
    return cuda_clock_read(clock, mark);
}

static enum status local_cuda_copy(void *to, const void *from, size_t bytes)
{
    return CUDA_ERROR("copy a chunk",
                      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, CUDA_STREAM));
}

/* Averages, minima and maxima are NCCL's: no kernel here makes them. */
static enum status local_cuda_reduce(enum element e, enum op_reduction how, void *y, const void *x,
                                     size_t n)
{
    if (how != REDUCTION_SUM)
        return error_set(STATUS_UNSUPPORTED, "reduction '%s' on GPUs needs --transport nccl",
                         op_reduction_names[how]);
    return CUDA_ERROR("add a chunk", kernel_accumulate(cuda_numbers(e), y, x, n));
}

static enum status local_cuda_end(const struct rounds_call *c, enum element e, void *data)
{
    (void)c;
    (void)e;
    (void)data;
    return STATUS_OK;
}

static const struct local_memory gpu = {
    .where = local_cuda_where,
    .enter = local_cuda_choose,
    .reach = local_cuda_reach,
    .allocate = local_cuda_allocate,
    .release = local_cuda_release,
    .new_mark = local_cuda_new_mark,
    .free_mark = local_cuda_free_mark,
    .record = local_cuda_record,
    .follow = local_cuda_follow,
    .look = local_cuda_query,
    .new_queue = new_queue,
    .free_queue = free_queue,
    .record_after = record_after,
    .start = local_cuda_start,
    .when = when,
    .copy = local_cuda_copy,
    .reduce = local_cuda_reduce,
    .end = local_cuda_end,
};

static enum status local_cuda_share(const struct program *p, void **shared)
{
    return local_share(p, &gpu, shared);
}

const struct transport transport_local_cuda = {
    .name = "local",
    .device_memory = true,
    .share = local_cuda_share,
    .unshare = local_unshare,
    .leave = local_leave,
    .open = local_open,
    .close = local_close,
    .send_buffer = local_send_buffer,
    .send = local_send,
    .collective = local_collective,
    .follow = local_follow,
    .wait = local_wait,
    .release = local_release,
    .times = local_times,
    .barrier = local_barrier,
};
