/* CUDA's runtime: what waits for what, as its manual says. Memory is given and taken back only when
 * the whole device is idle; copies from pageable memory are staged, those to it are waited for. */
#include "tests/double/double.h"
#include "tests/double/host.h"
#include "tests/double/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

using namespace dbl;

namespace
{

cudaError_t call()
{
    if (strikes("cuda-error"))
        make_sticky(cudaErrorECCUncorrectable);
    return note_error(cudaSuccess);
}

bool is_gpu(int device)
{
    return device >= 0 && device < gpu_count();
}

} // namespace

/* ---- devices */

extern "C" cudaError_t cudaGetDeviceCount(int *count)
{
    *count = gpu_count();
    return note_error(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

extern "C" cudaError_t cudaGetDevice(int *device)
{
    *device = current_gpu();
    return call();
}

extern "C" cudaError_t cudaSetDevice(int device)
{
    if (!is_gpu(device))
        return note_error(cudaErrorInvalidDevice);
    set_current_gpu(device);
    return call();
}

extern "C" cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (!is_gpu(device))
        return note_error(cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "host");
    prop->uuid.bytes[15] = (char)device;
    prop->totalGlobalMem = gpu_bytes;
    prop->major = 9;
    prop->multiProcessorCount = 132;
    return call();
}

extern "C" cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    if (!is_gpu(device))
        return note_error(cudaErrorInvalidDevice);
    *value = attr == cudaDevAttrMultiProcessorCount      ? 132
             : attr == cudaDevAttrComputeCapabilityMajor ? 9
             : attr == cudaDevAttrPciBusId               ? 0x10 + device
                                                         : 0;
    return call();
}

extern "C" cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    if (!is_gpu(device))
        return note_error(cudaErrorInvalidDevice);
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", 0x10 + device);
    return call();
}

extern "C" cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    const char *told = getenv("DOUBLE_DRIVER");
    *driverVersion = told && *told ? atoi(told) : CUDART_VERSION;
    return cudaSuccess;
}

extern "C" cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t e = forbid_in_capture(NULL);
    if (e != cudaSuccess)
        return note_error(e);
    device_wait("cudaDeviceSynchronize()");
    return call();
}

extern "C" cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!is_gpu(device) || !is_gpu(peer))
        return note_error(cudaErrorInvalidDevice);
    *can = device != peer && !has_fault("no-peers");
    return call();
}

extern "C" cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from,
                                                 int to)
{
    cudaError_t e = cudaDeviceCanAccessPeer(value, from, to);
    if (attr == cudaDevP2PAttrPerformanceRank)
        *value = 0;
    return e;
}

extern "C" cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    int can = 0;
    if (flags != 0)
        return note_error(cudaErrorInvalidValue);
    cudaError_t e = cudaDeviceCanAccessPeer(&can, current_gpu(), peer);
    if (e != cudaSuccess)
        return e;
    if (!can)
        return note_error(cudaErrorPeerAccessUnsupported);
    if (may_touch(current_gpu()) >> peer & 1)
        return note_error(cudaErrorPeerAccessAlreadyEnabled);
    let(current_gpu(), peer);
    return call();
}

extern "C" cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return call();
}

/* ---- memory */

/* Nor in a capture: the error. */
static cudaError_t begin_memory(const char *who)
{
    if (in_step())
        complain("%s in a step", who);
    cudaError_t e = forbid_in_capture(NULL);
    if (e == cudaSuccess)
        device_wait(who);
    return e;
}

extern "C" cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    cudaError_t e = begin_memory("cudaMalloc()");
    if (e == cudaSuccess)
        e = call();
    if (e != cudaSuccess)
        return note_error(e);
    *devPtr = strikes("no-memory") ? NULL : memory_new(current_gpu(), size);
    return note_error(*devPtr ? cudaSuccess : cudaErrorMemoryAllocation);
}

extern "C" cudaError_t cudaFree(void *devPtr)
{
    if (!devPtr)
        return call();
    cudaError_t e = begin_memory("cudaFree()");
    if (e != cudaSuccess)
        return note_error(e);
    size_t bytes = memory_free(devPtr);
    if (bytes == 0)
        complain("cudaFree() of what is no device memory");
    forget(devPtr, bytes);
    return call();
}

extern "C" cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    cudaError_t e = begin_memory("cudaMallocHost()");
    if (e != cudaSuccess)
        return note_error(e);
    *ptr = pinned_new(size);
    return *ptr ? call() : note_error(cudaErrorMemoryAllocation);
}

extern "C" cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int)
{
    return cudaMallocHost(pHost, size);
}

extern "C" cudaError_t cudaFreeHost(void *ptr)
{
    if (!ptr)
        return call();
    cudaError_t e = begin_memory("cudaFreeHost()");
    if (e != cudaSuccess)
        return note_error(e);
    if (!pinned_free(ptr))
        complain("cudaFreeHost() of what is not pinned");
    return call();
}

extern "C" cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = gpu_bytes;
    *free_bytes = gpu_bytes - memory_used(current_gpu());
    return call();
}

extern "C" cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                                const void *ptr)
{
    int gpu = gpu_of(ptr);
    memset(attributes, 0, sizeof *attributes);
    attributes->device = gpu;
    attributes->type = gpu >= 0            ? cudaMemoryTypeDevice
                       : is_pinned(ptr, 1) ? cudaMemoryTypeHost
                                           : cudaMemoryTypeUnregistered;
    return call();
}

static void wait_for_stream(stream *s, const char *who)
{
    count(WAIT);
    uint64_t until;
    {
        std::lock_guard<std::mutex> l(gate);
        until = s->queued;
    }
    wait_until(who, [=] { return s->done >= until; });
    std::lock_guard<std::mutex> l(gate);
    host_learns(s->seen);
}

/* Pageable memory is staged before the call returns; what goes to it is waited for. A graph's
 * copies look at it when they run. */
extern "C" cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                                       enum cudaMemcpyKind, cudaStream_t handle)
{
    bool from_gpu = gpu_of(src) >= 0, to_gpu = gpu_of(dst) >= 0;
    bool from_pinned = is_pinned(src, bytes), to_pinned = is_pinned(dst, bytes);
    stream *s = stream_of(handle);
    cudaError_t e = check_capture(s);
    if (bytes == 0 || e != cudaSuccess)
        return e == cudaSuccess ? call() : note_error(e);
    count(COPY);
    count_work(0, (double)bytes * (from_gpu + to_gpu));
    count_bytes(step_now(), "(copy)", from_gpu ? bytes : 0, to_gpu ? bytes : 0);
    std::string staged;
    if (!from_gpu && !from_pinned && !s->into) {
        count(PAGEABLE);
        staged.assign((const char *)src, bytes);
    }
    const char *what = from_gpu ? to_gpu ? "copy" : "copy to the host" : "copy from the host";
    auto step = [=, staged = std::move(staged)](op &o) {
        if (from_gpu || from_pinned)
            touch(o, src, bytes, false);
        if (to_gpu || to_pinned)
            touch(o, dst, bytes, true);
        if (computes_nothing() && to_gpu)
            return true;
        memory_open((from_gpu ? 1u << gpu_of(src) : 0) | (to_gpu ? 1u << gpu_of(dst) : 0));
        memmove(engine_view(dst), staged.empty() ? engine_view(src) : staged.data(), bytes);
        return true;
    };
    put_copy(s, what, step, from_pinned ? src : to_pinned ? dst : NULL, bytes, to_pinned);
    if (!to_gpu && !to_pinned && !s->into)
        wait_for_stream(s, "cudaMemcpyAsync() to pageable memory");
    return call();
}

extern "C" cudaError_t cudaMemcpy(void *dst, const void *src, size_t count,
                                  enum cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(dst, src, count, kind, cudaStreamPerThread);
    return e ? e : cudaStreamSynchronize(cudaStreamPerThread);
}

extern "C" cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t handle)
{
    if (count == 0)
        return call();
    stream *s = stream_of(handle);
    cudaError_t e = check_capture(s);
    if (e != cudaSuccess)
        return note_error(e);
    dbl::count(COPY);
    count_work(0, (double)count);
    count_bytes(step_now(), "(copy)", 0, count);
    put(s, "memset", [=](op &o) {
        touch(o, devPtr, count, true);
        if (!computes_nothing())
            memset(devPtr, value, count);
        return true;
    });
    return call();
}

extern "C" cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    return cudaMemsetAsync(devPtr, value, count, cudaStreamPerThread);
}

/* ---- streams */

extern "C" cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int,
                                                    int priority)
{
    static int number;
    stream *s = stream_new(current_gpu(), "stream " + std::to_string(++number));
    s->priority = priority;
    *pStream = (cudaStream_t)s;
    return call();
}

extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(pStream, flags, 0);
}

extern "C" cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    if (!handle)
        return note_error(cudaErrorInvalidResourceHandle);
    stream_retire((stream *)handle);
    return call();
}

extern "C" cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    stream *s = stream_of(handle);
    cudaError_t e = forbid_in_capture(s);
    if (e != cudaSuccess)
        return note_error(e);
    {
        std::lock_guard<std::mutex> l(gate);
        if (!s->queue.empty()) {
            count(WAIT);
            return cudaErrorNotReady;
        }
        host_learns(s->seen);
    }
    return call();
}

extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    stream *s = stream_of(handle);
    cudaError_t e = forbid_in_capture(s);
    if (e != cudaSuccess)
        return note_error(e);
    wait_for_stream(s, "cudaStreamSynchronize()");
    return call();
}

/* ---- events */

extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    event *e = new event();
    e->timed = !(flags & cudaEventDisableTiming);
    *out = (cudaEvent_t)e;
    return call();
}

extern "C" cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

extern "C" cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    if (!handle)
        return note_error(cudaErrorInvalidResourceHandle);
    delete (event *)handle;
    return call();
}

extern "C" cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
    stream *s = stream_of(stream_handle);
    auto r = std::make_shared<record>();
    {
        std::lock_guard<std::mutex> l(gate);
        ((event *)handle)->in = s->into;
        if (s->into)
            return cudaSuccess;
        ((event *)handle)->newest = r;
    }
    put(s, "event", [=](op &) {
        std::lock_guard<std::mutex> l(gate);
        r->at_s = now_s();
        r->seen = s->seen;
        r->is_done = true;
        return true;
    });
    return call();
}

static std::shared_ptr<record> newest_of(cudaEvent_t handle)
{
    std::lock_guard<std::mutex> l(gate);
    return ((event *)handle)->newest;
}

/* For the newest record so far; an event that was never recorded is complete. */
extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle,
                                           unsigned int)
{
    stream *s = stream_of(stream_handle);
    std::shared_ptr<record> r = newest_of(handle);
    const std::shared_ptr<capture> &in = ((event *)handle)->in;
    if (in && !s->into)
        complain("a second stream joins a capture, which the double has not");
    if (s->into && in != s->into) {
        s->into->is_broken = true;
        return note_error(cudaErrorStreamCaptureIsolation);
    }
    if (!r || s->into)
        return call();
    put(s, "wait for an event", [=](op &) {
        std::lock_guard<std::mutex> l(gate);
        if (r->is_done)
            join(s->seen, r->seen);
        return r->is_done;
    });
    return call();
}

static bool has_happened(const std::shared_ptr<record> &r)
{
    std::lock_guard<std::mutex> l(gate);
    if (r && !r->is_done) {
        count(WAIT);
        return false;
    }
    if (r)
        host_learns(r->seen);
    return true;
}

extern "C" cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    if (((event *)handle)->in)
        return note_error(cudaErrorCapturedEvent);
    return has_happened(newest_of(handle)) ? call() : cudaErrorNotReady;
}

extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    std::shared_ptr<record> r = newest_of(handle);
    if (((event *)handle)->in)
        return note_error(cudaErrorCapturedEvent);
    count(WAIT);
    wait_until("cudaEventSynchronize()", [=] { return !r || r->is_done; });
    has_happened(r);
    return call();
}

extern "C" cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    std::shared_ptr<record> a = newest_of(start), b = newest_of(end);
    if (((event *)start)->in || ((event *)end)->in)
        return note_error(cudaErrorCapturedEvent);
    if (!a || !b || !((event *)start)->timed || !((event *)end)->timed)
        return note_error(cudaErrorInvalidResourceHandle);
    std::lock_guard<std::mutex> l(gate);
    if (!a->is_done || !b->is_done)
        return cudaErrorNotReady;
    *ms = (float)((b->at_s - a->at_s) * 1e3);
    count_time_from(start);
    return cudaSuccess;
}

/* ---- kernels */

cudaError_t double_launch(const char *name, cudaStream_t handle, dim3 grid, unsigned threads,
                          const void *closure, size_t bytes, void (*run)(const void *closure))
{
    const unsigned most_x = 0x7fffffff, most_y = 65535;
    if (grid.x == 0 || grid.y == 0 || grid.z != 1 || grid.x > most_x || grid.y > most_y)
        return note_error(cudaErrorInvalidConfiguration);
    stream *s = stream_of(handle);
    cudaError_t e = check_capture(s);
    if (e != cudaSuccess)
        return note_error(e);
    count_kernel(name);
    count_load(name);
    const kernel k = {name, grid, threads, std::string((const char *)closure, bytes), run};
    long step = step_now();
    put(s, name, [=](op &o) {
        if (computes_nothing())
            return true;
        std::vector<traced> accesses;
        memory_open(may_touch(o.on->gpu));
        run_grid(k, may_touch(o.on->gpu), wants_races() ? &accesses : NULL);
        size_t moved[2] = {0, 0};
        for (const traced &t : accesses) {
            touch(o, t.data, t.bytes, t.writes);
            moved[t.writes] += t.bytes;
        }
        count_bytes(step, name, moved[0], moved[1]);
        return true;
    });
    return call();
}
