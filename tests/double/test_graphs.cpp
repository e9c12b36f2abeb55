/* Graphs of the double: what a capture takes, when it is done, and what it refuses. */
#include <cublas_v2.h>
#include <string.h>
#include <vector>

#include "exec/device/cuda/kernels.h"
#include "exec/device/cuda/queue.h"
#include "tests/double/cases.h"
#include "tests/double/double.h"

namespace
{

const cudaStream_t own = cudaStreamPerThread;

cudaGraphExec_t graph_of(const std::function<void()> &body)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(!cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal));
    body();
    CHECK(!cudaStreamEndCapture(own, &graph));
    CHECK(!cudaGraphInstantiate(&exec, graph, 0));
    CHECK(!cudaGraphDestroy(graph));
    return exec;
}

/* Of device memory, when all is done. */
float first_of(const float *x)
{
    float value = -1;
    CHECK(!cudaMemcpy(&value, x, sizeof value, cudaMemcpyDefault));
    return value;
}

void set(float *x, float value)
{
    CHECK(!cudaMemcpy(x, &value, sizeof value, cudaMemcpyDefault));
}

/* Nothing happens in a capture; every launch does it again, with pointers and numbers of then. */
void replays()
{
    float *x = device_floats(1), *y = device_floats(1), one = 1;
    set(x, 1);
    float *to = y;
    float alpha = 2, beta = 1;
    cublasHandle_t blas;
    CHECK(!cublasCreate_v2(&blas) && !cublasSetStream_v2(blas, own));
    cudaGraphExec_t g = graph_of([&] {
        CHECK(!kernel_add(to, x, 1));
        CHECK(!cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, x, CUDA_R_32F, 1, x,
                            CUDA_R_32F, 1, &beta, to, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F_PEDANTIC,
                            CUBLAS_GEMM_DEFAULT));
    });
    CHECK(first_of(y) == 0);
    to = x; /* what was captured is not the variable */
    alpha = beta = 100;
    CHECK(!cudaGraphLaunch(g, own) && !cudaGraphLaunch(g, own));
    CHECK(first_of(y) == 6 && first_of(x) == one);
    set(x, 2); /* but memory is looked at when the graph runs */
    CHECK(!cudaGraphLaunch(g, own));
    CHECK(first_of(y) == 6 + 2 + 8);
    CHECK(!cudaGraphExecDestroy(g));
}

/* A copy from the host's memory, pinned or not, is of what is there when the graph runs. */
void copies_late(bool pinned)
{
    float *y = device_floats(1), *host = NULL;
    if (pinned)
        CHECK(!cudaMallocHost((void **)&host, sizeof *host));
    else
        host = new float;
    *host = 1;
    cudaGraphExec_t g =
        graph_of([&] { CHECK(!cudaMemcpyAsync(y, host, sizeof *y, cudaMemcpyDefault, own)); });
    *host = 2;
    CHECK(!cudaGraphLaunch(g, own));
    CHECK(first_of(y) == 2);
}

/* The call fails, the capture with it, and there is no graph. */
void is_refused(const std::function<cudaError_t()> &call, cudaError_t expected)
{
    cudaGraph_t graph = (cudaGraph_t)1;
    float *x = device_floats(1);
    CHECK(!cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal));
    CHECK(!kernel_add(x, x, 1));
    CHECK(call() == expected);
    CHECK(kernel_add(x, x, 1) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamEndCapture(own, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
    CHECK(!kernel_add(x, x, 1)); /* it is an ordinary stream again */
    CHECK(!cudaStreamSynchronize(own));
    CHECK(cudaStreamEndCapture(own, &graph) == cudaErrorStreamCaptureUnmatched);
}

void events()
{
    cudaEvent_t inside = new_event(), before = new_event();
    CHECK(!cudaEventRecord(before, own));
    graph_of([&] {
        CHECK(!cudaEventRecord(inside, own));
        CHECK(!cudaStreamWaitEvent(own, inside, 0));
    });
    CHECK(cudaEventQuery(inside) == cudaErrorCapturedEvent);
    CHECK(cudaEventSynchronize(inside) == cudaErrorCapturedEvent);
    CHECK(!cudaEventSynchronize(before));
    CHECK(!cudaEventRecord(inside, own) && !cudaEventSynchronize(inside));
}

/* x is added to y once or twice: what is noted of that. */
cuda_prints print_of(cuda_queueing how, float *y, const float *x, size_t n, int times)
{
    cuda_queue_begin(how);
    for (int k = 0; k < times; k++)
        CHECK(!kernel_add(y, x, n));
    return cuda_queue_end();
}

/* What is skipped is noted as what is launched is; other numbers, addresses and kernels are told
 * apart. */
void notes()
{
    float *x = device_floats(2), *y = device_floats(2);
    set(x, 1);
    cuda_prints one = print_of(QUEUE_NOTED, y, x, 1, 1);
    CHECK(one.launches == 1 && first_of(y) == 1);
    CHECK(print_of(QUEUE_SKIPPED, y, x, 1, 1).print == one.print && first_of(y) == 1);
    CHECK(print_of(QUEUE_SKIPPED, y, x, 2, 1).print != one.print);
    CHECK(print_of(QUEUE_SKIPPED, y + 1, x, 1, 1).print != one.print);
    CHECK(print_of(QUEUE_SKIPPED, y, x + 1, 1, 1).print != one.print);
    CHECK(print_of(QUEUE_SKIPPED, y, x, 1, 2).launches == 2);
    cuda_queue_begin(QUEUE_SKIPPED);
    CHECK(!kernel_accumulate(KERNEL_BF16, y, x, 1));
    CHECK(cuda_queue_end().print != one.print);
    CHECK(!kernel_add(y, x, 1) && first_of(y) == 2); /* as ever again */
}

} // namespace

void test_graphs()
{
    test("launches are noted, and skipped", NULL, notes);
    test("a graph does what was captured, again and again", NULL, replays);
    test("a graph copies from pinned memory when it runs", NULL, [] { copies_late(true); });
    test("and from other memory", NULL, [] { copies_late(false); });
    test("no wait in a capture", NULL, [] {
        is_refused([] { return cudaStreamSynchronize(own); }, cudaErrorStreamCaptureUnsupported);
        is_refused([] { return cudaStreamQuery(own); }, cudaErrorStreamCaptureUnsupported);
        is_refused(cudaDeviceSynchronize, cudaErrorStreamCaptureUnsupported);
    });
    test("no memory in a capture", NULL, [] {
        void *data = device_floats(1), *none;
        is_refused([&] { return cudaMalloc(&none, 1); }, cudaErrorStreamCaptureUnsupported);
        is_refused([&] { return cudaFree(data); }, cudaErrorStreamCaptureUnsupported);
        is_refused([&] { return cudaMallocHost(&none, 1); }, cudaErrorStreamCaptureUnsupported);
    });
    test("no other stream's work in a capture", NULL, [] {
        cudaEvent_t e = new_event();
        CHECK(!cudaEventRecord(e, new_stream()));
        is_refused([=] { return cudaStreamWaitEvent(own, e, 0); }, cudaErrorStreamCaptureIsolation);
    });
    test("events of a capture do not happen", NULL, events);
    test("other threads and streams go on meanwhile", NULL, [] {
        float *x = device_floats(1);
        cudaStream_t other = new_stream();
        graph_of([=] {
            CHECK(!cudaMemsetAsync(x, 0, sizeof *x, other) && !cudaStreamSynchronize(other));
        });
    });
    test("no second stream joins a capture here", "joins a capture", [] {
        cudaEvent_t e = new_event();
        graph_of([=] {
            CHECK(!cudaEventRecord(e, own));
            cudaStreamWaitEvent(new_stream(), e, 0);
        });
    });
    test("a graph's kernels race as others do", "race: ", [] {
        float *x = device_floats(1);
        cudaGraphExec_t g = graph_of([=] { CHECK(!kernel_add(x, x, 1)); });
        CHECK(!cudaMemsetAsync(x, 0, sizeof *x, new_stream()));
        CHECK(!cudaGraphLaunch(g, own));
        cudaDeviceSynchronize();
    });
    test("a graph does not keep memory", "not inside one allocation", [] {
        float *x = device_floats(1);
        cudaGraphExec_t g = graph_of([=] { CHECK(!kernel_add(x, x, 1)); });
        CHECK(!cudaFree(x));
        CHECK(!cudaGraphLaunch(g, own));
        cudaDeviceSynchronize();
    });
    test("the host may not write what a graph copies from", "race: the host", [] {
        float *x = device_floats(1), *host;
        CHECK(!cudaMallocHost((void **)&host, sizeof *host));
        cudaGraphExec_t g =
            graph_of([=] { CHECK(!cudaMemcpyAsync(x, host, 4, cudaMemcpyDefault, own)); });
        *host = 1;
        CHECK(!cudaGraphLaunch(g, own));
        *host = 2;
    });
    test("no graph is made in a step", "cudaGraphInstantiate() in a step", [] {
        dbl::begin_step(0);
        graph_of([] {});
    });
}
