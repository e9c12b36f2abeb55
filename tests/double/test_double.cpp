/* The double itself: what it must find it finds, and what is right it lets pass. */
#include <atomic>
#include <fcntl.h>
#include <nccl.h>
#include <string.h>
#include <thread>
#include <vector>

#include "exec/device/cuda/kernels.h"
#include "tests/double/cases.h"
#include "tests/double/double.h"
#include "tests/double/host.h"

int failures;

namespace
{

/* ---- memory, streams and races */

enum { N = 1000 };

/* y is written on two streams, with or without an event between. */
void two_streams(bool ordered, size_t apart)
{
    float *y = device_floats(2 * N), *x = device_floats(N);
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t done = new_event();
    CHECK(!cudaMemsetAsync(y, 0, N / 2 * sizeof *y, a));
    CHECK(!cudaEventRecord(done, a));
    if (ordered)
        CHECK(!cudaStreamWaitEvent(b, done, 0));
    CHECK(!cudaMemcpyAsync(y + apart, x, N / 2 * sizeof *y, cudaMemcpyDefault, b));
    CHECK(!cudaDeviceSynchronize());
}

void host_reads_pinned(bool waits)
{
    float *y = device_floats(N), *host, sum = 0;
    CHECK(!cudaMallocHost((void **)&host, N * sizeof *host));
    CHECK(!cudaMemcpyAsync(host, y, N * sizeof *host, cudaMemcpyDefault, cudaStreamPerThread));
    if (waits)
        CHECK(!cudaStreamSynchronize(cudaStreamPerThread));
    else
        usleep(20000); /* the copy is over, but nobody has asked */
    for (size_t i = 0; i < N; i++)
        sum += host[i];
    CHECK(sum == 0);
}

void host_writes_pinned()
{
    float *y = device_floats(N), *host;
    CHECK(!cudaMallocHost((void **)&host, N * sizeof *host));
    CHECK(!cudaMemcpyAsync(y, host, N * sizeof *host, cudaMemcpyDefault, cudaStreamPerThread));
    host[0] = 1;
}

void slot_is_reused(bool waits)
{
    float *slot = device_floats(N), *y = device_floats(N), *x = device_floats(N);
    cudaStream_t a = new_stream();
    cudaEvent_t full = new_event(), empty = new_event();
    for (int k = 0; k < 3; k++) {
        if (k > 0 && waits)
            CHECK(!cudaStreamWaitEvent(a, empty, 0));
        CHECK(!cudaMemcpyAsync(slot, x, N * sizeof *slot, cudaMemcpyDefault, a));
        CHECK(!cudaEventRecord(full, a));
        CHECK(!cudaStreamWaitEvent(cudaStreamPerThread, full, 0));
        CHECK(!kernel_add(y, slot, N));
        CHECK(!cudaEventRecord(empty, cudaStreamPerThread));
    }
    CHECK(!cudaDeviceSynchronize());
}

void foreign_memory(bool is_peer)
{
    CHECK(!cudaSetDevice(1));
    float *x = device_floats(N);
    CHECK(!cudaSetDevice(0));
    float *y = device_floats(N);
    if (is_peer)
        CHECK(!cudaDeviceEnablePeerAccess(1, 0));
    CHECK(!kernel_add(y, x, N));
    CHECK(!cudaStreamSynchronize(cudaStreamPerThread));
}

void test_memory()
{
    test("ordered streams are no race", NULL, [] { two_streams(true, 0); });
    test("streams on different memory are no race", NULL, [] { two_streams(false, N / 2); });
    test("unordered writes are a race", "race: 'copy'", [] { two_streams(false, N / 4); });
    test("the host may read pinned memory after waiting", NULL, [] { host_reads_pinned(true); });
    test("the host may not before", "race: the host", [] { host_reads_pinned(false); });
    test("nor write what is copied from", "race: the host", host_writes_pinned);
    test("a slot is used again when it is empty", NULL, [] { slot_is_reused(true); });
    test("a slot used again too early is a race", "race: ", [] { slot_is_reused(false); });
    test("a peer's memory is accessible", NULL, [] { foreign_memory(true); });
    test("another GPU's is not", "no peer", [] { foreign_memory(false); });
    test("the host touches no device memory", "the host touches memory of GPU 0",
         [] { device_floats(N)[0] = 1; });
    test("a kernel touches no host memory", "host memory", [] {
        float *x = device_floats(N);
        std::vector<float> y(N);
        kernel_add(y.data(), x, N);
        cudaDeviceSynchronize();
    });
    test("a kernel stays inside what was allocated", "not inside one allocation", [] {
        float *x = device_floats(N), *y = device_floats(2 * N);
        kernel_add(y, x, 2 * N);
        cudaDeviceSynchronize();
    });
    test("freed memory is not used", "not inside one allocation", [] {
        float *x = device_floats(N), *y = device_floats(N);
        CHECK(!cudaFree(x));
        kernel_add(y, x, N);
        cudaDeviceSynchronize();
    });
    test("grids have limits", NULL, [] {
        auto nothing = [](const void *) {};
        CHECK(!double_launch("at most", NULL, dim3(1, 65535), BLOCK, "", 1, nothing));
        CHECK(double_launch("more", NULL, dim3(1, 65536), BLOCK, "", 1, nothing) ==
              cudaErrorInvalidConfiguration);
        CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    });
    test("no memory is allocated in a step", "cudaMalloc() in a step", [] {
        dbl::begin_step(0);
        device_floats(N);
    });
}

/* ---- NCCL: ranks are threads, each with a GPU */

void ranks(int n, const std::function<void(int, ncclUniqueId)> &body)
{
    ncclUniqueId id;
    std::vector<std::thread> all;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    for (int k = 0; k < n; k++)
        all.emplace_back([=] {
            CHECK(!cudaSetDevice(k));
            body(k, id);
        });
    for (std::thread &t : all)
        t.join();
}

ncclComm_t join_all(int n, ncclUniqueId id, int me)
{
    ncclComm_t comm;
    CHECK(ncclCommInitRank(&comm, n, id, me) == ncclSuccess);
    return comm;
}

void to_gpu(void *gpu, const void *host, size_t bytes)
{
    CHECK(!cudaMemcpy(gpu, host, bytes, cudaMemcpyDefault));
}

/* Sums of whole numbers are exact, whatever their order. */
void collectives(int n, size_t each)
{
    ranks(n, [=](int me, ncclUniqueId id) {
        ncclComm_t comm = join_all(n, id, me);
        size_t all = each * (size_t)n;
        float *x = device_floats(all), *y = device_floats(all);
        std::vector<float> host(all);
        for (size_t i = 0; i < all; i++)
            host[i] = (float)((size_t)me * all + i);
        to_gpu(x, host.data(), all * 4);
        auto sum = [=](size_t i) {
            float total = 0;
            for (int k = 0; k < n; k++)
                total += (float)((size_t)k * all + i);
            return total;
        };
        auto look = [&] { to_gpu(host.data(), y, all * 4); };
        cudaStream_t s = cudaStreamPerThread;
        CHECK(!ncclAllReduce(x, y, all, ncclFloat, ncclSum, comm, s));
        look();
        for (size_t i = 0; i < all; i++)
            CHECK(host[i] == sum(i));
        CHECK(!ncclReduceScatter(x, y, each, ncclFloat, ncclSum, comm, s));
        look();
        for (size_t i = 0; i < each; i++)
            CHECK(host[i] == sum((size_t)me * each + i));
        CHECK(!ncclAllGather(x, y, each, ncclFloat, comm, s));
        look();
        for (size_t i = 0; i < all; i++)
            CHECK(host[i] == (float)(i / each * all + i % each));
        CHECK(!ncclBroadcast(x, y, all, ncclFloat, n - 1, comm, s));
        look();
        for (size_t i = 0; i < all; i++)
            CHECK(host[i] == (float)((size_t)(n - 1) * all + i));
        /* all to all: part k of x to member k */
        CHECK(!ncclGroupStart());
        for (int k = 0; k < n; k++) {
            CHECK(!ncclSend(x + (size_t)k * each, each, ncclFloat, k, comm, s));
            CHECK(!ncclRecv(y + (size_t)k * each, each, ncclFloat, k, comm, s));
        }
        CHECK(!ncclGroupEnd());
        look();
        for (size_t i = 0; i < all; i++)
            CHECK(host[i] == (float)(i / each * all + (size_t)me * each + i % each));
        CHECK(!ncclCommDestroy(comm));
    });
}

/* 1 + 2^-7 four times in bf16: rounded after every addition. */
void bf16_sums()
{
    ranks(4, [](int me, ncclUniqueId id) {
        ncclComm_t comm = join_all(4, id, me);
        uint16_t one = 0x3f81, sum = 0; /* 1 + 2^-7; the sum to the nearest even: 4 + 2^-5 */
        void *x = device_floats(1);
        to_gpu(x, &one, sizeof one);
        CHECK(!ncclAllReduce(x, x, 1, ncclBfloat16, ncclSum, comm, cudaStreamPerThread));
        to_gpu(&sum, x, sizeof sum);
        CHECK(sum == 0x4081);
        CHECK(!ncclCommDestroy(comm));
    });
}

void splits()
{
    ranks(4, [](int me, ncclUniqueId id) {
        ncclComm_t world = join_all(4, id, me), half, none;
        float *x = device_floats(1), value = (float)me;
        int n, rank;
        CHECK(!ncclCommSplit(world, me % 2, -me, &half, NULL));
        CHECK(!ncclCommSplit(world, me == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
        CHECK((none != NULL) == (me == 0));
        CHECK(!ncclCommCount(half, &n) && n == 2);
        CHECK(!ncclCommUserRank(half, &rank) && rank == (me < 2));
        to_gpu(x, &value, sizeof value);
        CHECK(!ncclAllReduce(x, x, 1, ncclFloat, ncclSum, half, cudaStreamPerThread));
        to_gpu(&value, x, sizeof value);
        CHECK(value == (me % 2 ? 4 : 2));
        CHECK(!cudaDeviceSynchronize());
        CHECK(!ncclCommDestroy(half));
        CHECK(!ncclCommDestroy(none));
        CHECK(!ncclCommDestroy(world));
    });
}

/* Receives that nobody serves end, of several communicators at once, on one GPU. */
void aborts(bool in_group)
{
    ranks(2, [=](int me, ncclUniqueId id) {
        static ncclUniqueId other;
        static std::atomic<int> ready;
        if (me == 0) {
            ncclGetUniqueId(&other);
            ready = 1;
        }
        while (!ready)
            usleep(100);
        ncclComm_t comm[2] = {join_all(2, id, me), join_all(2, other, me)};
        cudaStream_t stream[2] = {new_stream(), new_stream()};
        float *x = device_floats(2);
        for (int k = 0; k < 2; k++) {
            int peer = 1 - me;
            if (me == 0)
                CHECK(!ncclRecv(x + k, 1, ncclFloat, peer, comm[k], stream[k]));
            else
                CHECK(!ncclSend(x + k, 1, ncclFloat, peer, comm[k], stream[k]));
        }
        CHECK(!cudaDeviceSynchronize());
        for (int k = 0; k < 2 && me == 0; k++)
            CHECK(!ncclRecv(x + k, 1, ncclFloat, 1, comm[k], stream[k]));
        if (in_group)
            CHECK(!ncclGroupStart());
        for (int k = 0; k < 2; k++)
            CHECK(!ncclCommAbort(comm[k]));
        if (in_group)
            CHECK(!ncclGroupEnd());
    });
}

void does_not_block()
{
    ranks(2, [](int me, ncclUniqueId id) {
        ncclComm_t comm;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclResult_t state = ncclInProgress;
        config.blocking = 0;
        float *x = device_floats(1), value = 1;
        ncclResult_t e = ncclCommInitRankConfig(&comm, 2, id, me, &config);
        CHECK(e == ncclInProgress);
        while (state == ncclInProgress)
            CHECK(!ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclSuccess);
        to_gpu(x, &value, sizeof value);
        e = ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, cudaStreamPerThread);
        CHECK(e == ncclInProgress);
        do
            CHECK(!ncclCommGetAsyncError(comm, &state));
        while (state == ncclInProgress);
        to_gpu(&value, x, sizeof value);
        CHECK(value == 2);
        CHECK(!ncclGroupStart());
        CHECK(!ncclCommAbort(comm));
        CHECK(!ncclGroupEnd());
    });
}

void a_peer_dies(bool is_told)
{
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    if (is_told)
        setenv("DOUBLE_FAULTS", "remote-error", 1);
    pid_t child = fork();
    CHECK(!cudaSetDevice(child == 0));
    ncclComm_t comm = join_all(2, id, child == 0);
    if (child == 0)
        _exit(0);
    ncclResult_t state = ncclSuccess;
    waitpid(child, NULL, 0);
    CHECK(!ncclCommGetAsyncError(comm, &state));
    CHECK(state == (is_told ? ncclRemoteError : ncclSuccess));
    CHECK(!ncclCommAbort(comm));
}

void test_nccl()
{
    for (int n = 2; n <= 8; n += 3) {
        char name[64];
        snprintf(name, sizeof name, "collectives of %d ranks", n);
        test(name, NULL, [n] { collectives(n, 7); });
    }
    test("collectives of more than sockets hold", NULL, [] { collectives(2, 1 << 17); });
    test("sums in bf16", NULL, bf16_sums);
    test("communicators are split", NULL, splits);
    test("several are aborted in a group", NULL, [] { aborts(true); });
    test("one after the other waits for ever", "has blocked the host for 5 s",
         [] { aborts(false); });
    test("communicators that do not block", NULL, does_not_block);
    test("two ranks on a GPU", NULL, [] {
        ranks(2, [](int me, ncclUniqueId id) {
            ncclComm_t comm;
            cudaSetDevice(0);
            CHECK(ncclCommInitRank(&comm, 2, id, me) == ncclInvalidUsage);
            CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU"));
        });
    });
    test("members must call the same", "AllReduce of 2 float32", [] {
        ranks(2, [](int me, ncclUniqueId id) {
            ncclComm_t comm = join_all(2, id, me);
            float *x = device_floats(2);
            ncclAllReduce(x, x, me == 0 ? 2 : 1, ncclFloat, ncclSum, comm, cudaStreamPerThread);
            cudaDeviceSynchronize();
        });
    });
    test("a send is as long as its receive", "which receives 4", [] {
        ranks(2, [](int me, ncclUniqueId id) {
            ncclComm_t comm = join_all(2, id, me);
            float *x = device_floats(2);
            if (me == 0)
                ncclSend(x, 2, ncclFloat, 1, comm, cudaStreamPerThread);
            else
                ncclRecv(x, 1, ncclFloat, 0, comm, cudaStreamPerThread);
            cudaDeviceSynchronize();
        });
    });
    test("a dead peer is not noticed inside a machine", NULL, [] { a_peer_dies(false); });
    test("over a network it is", NULL, [] { a_peer_dies(true); });
}

} // namespace

int main()
{
    setenv("DOUBLE_RACES", "1", 1);
    test_memory();
    test_graphs();
    test_nccl();
    return failures > 0;
}
