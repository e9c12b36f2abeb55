/* A GPU's memory: every thread has the stream of its own that CUDA gives it, marks are events. */
#include <stdlib.h>

#include "exec/device/cuda/context.h"
#include "exec/transport/local/local.h"

static enum status where(int *memory)
{
    return CUDA_ERROR("which GPU", cudaGetDevice(memory));
}

static enum status enter(int memory)
{
    return CUDA_ERROR("choose the GPU", cudaSetDevice(memory));
}

static void *allocate(size_t bytes)
{
    void *data = NULL;
    return cudaMalloc(&data, bytes + 1) == cudaSuccess ? data : NULL;
}

static void release(void *data)
{
    cudaFree(data);
}

static enum status new_mark(void **mark)
{
    cudaEvent_t event;
    enum status st = CUDA_ERROR("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (st == STATUS_OK)
        *mark = event;
    return st;
}

static void free_mark(void *mark)
{
    if (mark)
        cudaEventDestroy(mark);
}

static enum status record(void *mark)
{
    return CUDA_ERROR("order streams", cudaEventRecord(mark, CUDA_STREAM));
}

static enum status follow(void *mark)
{
    return CUDA_ERROR("order streams", cudaStreamWaitEvent(CUDA_STREAM, mark, 0));
}

static enum status look(void *mark, bool *happened)
{
    cudaError_t e = cudaEventQuery(mark);
    *happened = e == cudaSuccess;
    return e == cudaErrorNotReady ? STATUS_OK : CUDA_ERROR("wait", e);
}

static enum status copy(void *to, const void *from, size_t bytes)
{
    return CUDA_ERROR("copy a chunk",
                      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, CUDA_STREAM));
}

static enum status add(enum element e, void *y, const void *x, size_t n)
{
    return CUDA_ERROR("add a chunk", e == ELEMENT_BF16 ? kernel_accumulate(KERNEL_BF16, y, x, n)
                                                       : kernel_add(y, x, n));
}

static const struct local_memory gpu = {
    .where = where,
    .enter = enter,
    .allocate = allocate,
    .release = release,
    .new_mark = new_mark,
    .free_mark = free_mark,
    .record = record,
    .follow = follow,
    .look = look,
    .copy = copy,
    .add = add,
};

static enum status share(const struct program *p, void **shared)
{
    return local_share(p, &gpu, shared);
}

const struct transport transport_local_cuda = {
    .name = "local",
    .device_memory = true,
    .share = share,
    .unshare = local_unshare,
    .leave = local_leave,
    .open = local_open,
    .close = local_close,
    .send_buffer = local_send_buffer,
    .send = local_send,
    .collective = local_collective,
    .wait = local_wait,
    .release = local_release,
    .times = endpoints_times,
    .barrier = local_barrier,
};
