#include "exec/device/cuda/selftest.h"

#include <nccl.h>

#include "core/base/clock.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cuda/attention_cudnn.h"

const char *const selftest_half[ELEMENTS] = {"", ", bf16", ", fp16"};

bool selftest_row(FILE *to, const char *name, double worst, double limit)
{
    bool good = worst <= limit;
    fprintf(to, "%-36s %12.3g %12.3g  %s\n", name, worst, limit, good ? "ok" : "FAILED");
    return good;
}

/* ---- speed */

/* Milliseconds per call of what is queued `times` times. */
struct stopwatch {
    cudaEvent_t begin, end;
};

/* Seconds per call between two events. */
static enum status elapsed(const struct stopwatch *w, int times, double *seconds)
{
    enum status st;
    float ms = 0;
    TRY(CUDA_ERROR("stopwatch", cudaEventRecord(w->end, CUDA_STREAM)));
    TRY(CUDA_ERROR("stopwatch", cudaEventSynchronize(w->end)));
    TRY(CUDA_ERROR("stopwatch", cudaEventElapsedTime(&ms, w->begin, w->end)));
    *seconds = (double)ms * 1e-3 / times;
out:
    return st;
}

static enum status copy_speed(const struct stopwatch *w, FILE *to, const char *name, void *a,
                              const void *b, size_t bytes, double traffic)
{
    enum { TIMES = 10 };
    enum status st;
    double seconds;
    TRY(CUDA_ERROR(name, cudaMemcpyAsync(a, b, bytes, cudaMemcpyDefault, CUDA_STREAM)));
    TRY(CUDA_ERROR("stopwatch", cudaEventRecord(w->begin, CUDA_STREAM)));
    for (int k = 0; k < TIMES; k++)
        TRY(CUDA_ERROR(name, cudaMemcpyAsync(a, b, bytes, cudaMemcpyDefault, CUDA_STREAM)));
    TRY(elapsed(w, TIMES, &seconds));
    fprintf(to, "%-36s %12.4g GB/s\n", name, traffic * (double)bytes / seconds / 1e9);
out:
    return st;
}

static enum status compute_speed(struct cuda_context *c, const struct stopwatch *w, FILE *to,
                                 float *data, size_t n)
{
    enum { TIMES = 20, LAUNCHES = 1000 };
    enum status st;
    double seconds, begin_s;
    for (enum kernel_type type = KERNEL_FP32; type <= KERNEL_FP16; type++) {
        char name[64];
        const struct gemm_operand square = matrix(data, n, n, n);
        const struct cuda_gemm g = {
            .g = product(1, square, square, data + n * n, n), .in = type, .out = type};
        cuda_gemm(c, "matrix product", &g);
        TRY(CUDA_ERROR("stopwatch", cudaEventRecord(w->begin, CUDA_STREAM)));
        for (int k = 0; k < TIMES; k++)
            cuda_gemm(c, "matrix product", &g);
        TRY(elapsed(w, TIMES, &seconds));
        snprintf(name, sizeof name, "matrix product 4096, %s", element_names[type]);
        fprintf(to, "%-36s %12.4g TFLOP/s\n", name,
                2.0 * (double)n * (double)n * (double)n / seconds / 1e12);
    }
    begin_s = clock_now();
    for (int k = 0; k < LAUNCHES; k++)
        CUDA_NOTE(c, "launch", kernel_add(data, data + n, 1));
    TRY(cuda_finish(c));
    fprintf(to, "%-36s %12.4g us\n", "kernel launch", (clock_now() - begin_s) / LAUNCHES * 1e6);
out:
    return st;
}

enum status selftest_speed(struct cuda_context *c, FILE *to)
{
    enum { SIDE = 4096 };
    enum status st;
    const size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    struct stopwatch w = {0};
    float *data = NULL;
    void *host = NULL;
    TRY(CUDA_ERROR("memory", cudaMalloc((void **)&data, 2 * bytes)));
    TRY(CUDA_ERROR("memory", cudaMallocHost(&host, bytes)));
    TRY(CUDA_ERROR("memory", cudaMemset(data, 0, 2 * bytes)));
    TRY(CUDA_ERROR("event", cudaEventCreate(&w.begin)));
    TRY(CUDA_ERROR("event", cudaEventCreate(&w.end)));
    TRY(copy_speed(&w, to, "copy host to GPU, pinned", data, host, bytes, 1));
    TRY(copy_speed(&w, to, "copy GPU to host, pinned", host, data, bytes, 1));
    TRY(copy_speed(&w, to, "copy GPU to GPU, read + write", data, (char *)data + bytes, bytes, 2));
    TRY(compute_speed(c, &w, to, data, SIDE));
out:
    cudaFree(data);
    cudaFreeHost(host);
    if (w.begin)
        cudaEventDestroy(w.begin);
    if (w.end)
        cudaEventDestroy(w.end);
    return st;
}

/* ---- all */

static enum status print_machine(const struct cuda_context *c, FILE *to)
{
    enum status st;
    struct cudaDeviceProp p;
    int driver = 0, runtime = 0, nccl = 0;
    TRY(CUDA_ERROR("properties", cudaGetDeviceProperties(&p, c->gpu)));
    TRY(CUDA_ERROR("version", cudaDriverGetVersion(&driver)));
    TRY(CUDA_ERROR("version", cudaRuntimeGetVersion(&runtime)));
    ncclGetVersion(&nccl);
    fprintf(to, "# %s, sm_%d%d, %d multiprocessors, %.4g GB; CUDA %d (driver %d), NCCL %d\n",
            p.name, p.major, p.minor, p.multiProcessorCount, (double)p.totalGlobalMem / 1e9,
            runtime, driver, nccl);
    fprintf(to, "# %-34s %12s %12s\n", "against the CPU", "difference", "limit");
out:
    return st;
}

static enum status selftest_train_all(struct cuda_context *c, FILE *to, bool *good)
{
    (void)c; /* each run opens its own */
    return selftest_training(to, good);
}

static const struct {
    enum selftest_part part;
    enum status (*run)(struct cuda_context *c, FILE *to, bool *good);
} parts[] = {{SELFTEST_LAYERS, selftest_layers},          {SELFTEST_ATTENTION, selftest_attention},
             {SELFTEST_MIXTURE, selftest_mixture},        {SELFTEST_KINDS, selftest_kinds},
             {SELFTEST_ALL, selftest_train_all},          {SELFTEST_CUDNN, selftest_cudnn},
             {SELFTEST_CUDNN_SPEED, selftest_cudnn_speed}};

int cuda_selftest(FILE *to, enum selftest_part part)
{
    struct cuda_context c = {0};
    bool good = true;
    enum status st = cuda_context_open(0, &c);
    if (st == STATUS_OK && part >= SELFTEST_CUDNN)
        st = cuda_cudnn_open(&c);
    if (st == STATUS_UNSUPPORTED) {
        fprintf(to, "skipped: %s\n", error_message());
        cuda_context_close(&c);
        return SELFTEST_SKIPPED;
    }
    TRY(st);
    TRY(gemm_single_thread()); /* of the reference */
    TRY(print_machine(&c, to));
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        bool one = true;
        if (part == parts[k].part || (part == SELFTEST_ALL && parts[k].part < SELFTEST_CUDNN))
            TRY(parts[k].run(&c, to, &one));
        good = good && one;
    }
    if (part == SELFTEST_ALL)
        TRY(selftest_speed(&c, to));
    fprintf(to, "%s\n", good ? "passed" : "FAILED");
out:
    if (st != STATUS_OK)
        fprintf(to, "FAILED: %s\n", error_message());
    cuda_context_close(&c);
    return st == STATUS_OK && good ? 0 : 1;
}
