#include "exec/device/cuda/context.h"
#include "core/base/array.h"

#include <assert.h>
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cuda/attention_cudnn.h"
#include "exec/device/cuda/hardware.h"
#include "exec/device/cuda/queue.h"
#include "exec/device/sharded/arithmetic.h"
#include "exec/rendezvous.h"

static_assert(sizeof(real) == sizeof(float), "kernels compute in fp32");

/* ---- failures */

enum status cuda_error(cudaError_t error, const char *what, const char *file, int line)
{
    if (error == cudaSuccess)
        return STATUS_OK;
    return error_set(STATUS_EXTERNAL, "%s:%d: %s: %s (%s)", file, line, what,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

/* The first failure stays: later ones follow from it. */
void cuda_keep(struct cuda_context *c, enum status st)
{
    if (st == STATUS_OK || c->failure != STATUS_OK)
        return;
    c->failure = st;
    snprintf(c->reason, sizeof c->reason, "%s", error_message());
}

void cuda_note(struct cuda_context *c, cudaError_t error, const char *what, const char *file,
               int line)
{
    cuda_keep(c, cuda_error(error, what, file, line));
}

static enum status cublas_error(cublasStatus_t error, const char *what, const char *file, int line)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return STATUS_OK;
    return error_set(STATUS_EXTERNAL, "%s:%d: %s: %s", file, line, what,
                     cublasGetStatusString(error));
}

void cublas_note(struct cuda_context *c, cublasStatus_t error, const char *what, const char *file,
                 int line)
{
    cuda_keep(c, cublas_error(error, what, file, line));
}

enum status cuda_status(const struct cuda_context *c)
{
    return c->failure == STATUS_OK ? STATUS_OK : error_set(c->failure, "%s", c->reason);
}

enum status cuda_finish(struct cuda_context *c)
{
    CUDA_NOTE(c, "wait for the GPU", cudaStreamSynchronize(CUDA_STREAM));
    return cuda_status(c);
}

/* ---- open and close */

/* Ranks of one machine take its GPUs in turn. */
enum status cuda_gpu_of(uint32_t rank, uint32_t *gpu)
{
    static const char *const told[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
    bool any = false;
    for (size_t k = 0; k < sizeof told / sizeof *told; k++)
        any = any || getenv(told[k]);
    *gpu = rank;
    return any ? rendezvous_local_rank(gpu) : STATUS_OK;
}

static enum status choose_gpu(uint32_t gpu, int *out)
{
    uint32_t n;
    PASS(cuda_check(&n));
    *out = (int)(gpu % n);
    return CUDA_ERROR("choose the GPU", cudaSetDevice(*out));
}

enum status cuda_context_open(uint32_t gpu, struct cuda_context *out)
{
    enum status st;
    size_t all;
    struct cuda_context c = {0};
    TRY(choose_gpu(gpu, &c.gpu));
    if (!getenv("FORELINE_SHARE_GPU"))
        TRY(CUDA_ERROR("memory of the GPU", cudaMemGetInfo(&c.free_bytes, &all)));
    int major = 0;
    TRY(CUDA_ERROR("kind of the GPU",
                   cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c.gpu)));
    c.tensor_cores = major >= 8;
    TRY(cublas_error(cublasCreate(&c.blas), "cannot start cuBLAS", __FILE__, __LINE__));
    TRY(cublas_error(cublasLtCreate(&c.lt), "cannot start cuBLASLt", __FILE__, __LINE__));
    TRY(CUDA_ERROR("cuBLAS's workspace", cudaMalloc(&c.workspace, CUDA_WORKSPACE)));
    TRY(CUDA_ERROR("loss", cudaMalloc((void **)&c.loss, sizeof *c.loss)));
    TRY(CUDA_ERROR("loss", cudaMemsetAsync(c.loss, 0, sizeof *c.loss, CUDA_STREAM)));
    TRY(CUDA_ERROR("norm", cudaMalloc((void **)&c.norm, (CLIP_PARTS + 1) * sizeof *c.norm)));
    TRY(CUDA_ERROR("tickets", cudaMalloc((void **)&c.tickets, TICKETS * sizeof *c.tickets)));
    TRY(CUDA_ERROR("tickets",
                   cudaMemsetAsync(c.tickets, 0, TICKETS * sizeof *c.tickets, CUDA_STREAM)));
    CUBLAS_NOTE(&c, "stream of cuBLAS", cublasSetStream(c.blas, CUDA_STREAM));
    CUBLAS_NOTE(&c, "workspace of cuBLAS", cublasSetWorkspace(c.blas, c.workspace, CUDA_WORKSPACE));
    CUBLAS_NOTE(&c, "fp32 of cuBLAS", cublasSetMathMode(c.blas, CUBLAS_PEDANTIC_MATH));
    TRY(cuda_status(&c));
    c.bytes = CUDA_WORKSPACE;
    MOVE(out, c);
out:
    cuda_context_close(&c);
    return st;
}

int64_t cuda_held_bytes(const struct cuda_context *c)
{
    size_t now = 0, all = 0;
    if (c->free_bytes == 0 || cudaMemGetInfo(&now, &all) != cudaSuccess || now > c->free_bytes)
        return c->bytes;
    return (int64_t)(c->free_bytes - now);
}

void cuda_context_close(struct cuda_context *c)
{
    for (size_t i = 0; i < c->arenas; i++)
        cudaFree(c->arena[i].data);
    free(c->arena);
    if (c->loss)
        cudaFree(c->loss);
    if (c->norm)
        cudaFree(c->norm);
    if (c->tickets)
        cudaFree(c->tickets);
    cuda_epilogues_close(c);
    cuda_cudnn_close(c);
    if (c->blas)
        cublasDestroy(c->blas);
    if (c->workspace)
        cudaFree(c->workspace);
    *c = (struct cuda_context){0};
}

/* ---- the backend */

/* What cudaMalloc() promises, and cuBLAS's fastest kernels ask for. */
enum { ALIGNMENT = 256 };

static size_t aligned(size_t bytes)
{
    return size_plus(bytes, ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* All a stage will ever need, at once: allocating later could wait for kernels that wait for other
 * ranks. */
static enum status cuda_backend_reserve(void *self, size_t bytes, size_t pieces)
{
    enum status st;
    struct cuda_context *c = self;
    struct cuda_arena a = {.bytes = size_plus(bytes, size_times(pieces + 1, ALIGNMENT))};
    TRY(ARRAY_ROOM(c->arena, c->arenas));
    TRY(CUDA_ERROR("memory of a stage", cudaMalloc((void **)&a.data, a.bytes)));
    c->arena[c->arenas++] = a;
    c->bytes += (int64_t)a.bytes;
    TRY(CUDA_ERROR("memory of a stage", cudaMemsetAsync(a.data, 0, a.bytes, CUDA_STREAM)));
out:
    return st;
}

/* From the front of the newest arena with room; zeroed when it was reserved. */
static void *cuda_backend_allocate(void *self, size_t bytes)
{
    struct cuda_context *c = self;
    size_t need = aligned(bytes > 0 ? bytes : 1);
    for (size_t i = c->arenas; i-- > 0;) { /* the last one is the stage's that is being opened */
        struct cuda_arena *a = &c->arena[i];
        if (a->bytes - a->used < need)
            continue;
        a->used += need;
        return a->data + (a->used - need);
    }
    return NULL;
}

static void cuda_backend_release(void *self, void *data)
{
    (void)self, (void)data; /* with its arena */
}

/* Pinned: copies from it are queued, those from other memory may wait for the stream. */
static void *allocate_host(void *self, size_t bytes)
{
    void *data = NULL;
    (void)self;
    return cudaMallocHost(&data, bytes) == cudaSuccess ? data : NULL;
}

static void release_host(void *self, void *data)
{
    (void)self;
    if (data)
        cudaFreeHost(data);
}

/* All of the card's, whoever uses it: what a stage may ask for at most. */
static double cuda_backend_memory_bytes(void *self)
{
    size_t free_bytes = 0, all = 0;
    CUDA_NOTE(self, "memory of the GPU", cudaMemGetInfo(&free_bytes, &all));
    return (double)all;
}

/* cuda_backend_copy() takes either side; pinned and pageable host memory are alike here. */
static bool is_device_memory(const void *data)
{
    struct cudaPointerAttributes a;
    return cudaPointerGetAttributes(&a, data) == cudaSuccess && a.type == cudaMemoryTypeDevice;
}

/* CUDA copies ordinary host memory into a buffer of its own before it returns; what goes to the
 * host is waited for. */
static void cuda_backend_copy(void *self, void *to, const void *from, size_t bytes)
{
    const uint64_t noted[] = {(uintptr_t)to, (uintptr_t)from, bytes};
    if (bytes == 0 || !cuda_queues("copy", noted, 3))
        return;
    CUDA_NOTE(self, "copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, CUDA_STREAM));
    if (!is_device_memory(to))
        CUDA_NOTE(self, "copy to the host", cudaStreamSynchronize(CUDA_STREAM));
}

static void cuda_backend_zero(void *self, void *data, size_t bytes)
{
    const uint64_t noted[] = {(uintptr_t)data, bytes};
    if (bytes > 0 && cuda_queues("zero", noted, 2))
        CUDA_NOTE(self, "zero", cudaMemsetAsync(data, 0, bytes, CUDA_STREAM));
}

static void cuda_backend_add(void *self, real *y, const real *x, size_t n)
{
    CUDA_NOTE(self, "add", kernel_add(y, x, n));
}

static void accumulate(void *self, enum element e, void *y, const void *x, size_t n)
{
    CUDA_NOTE(self, "add in 16 bits", kernel_accumulate(cuda_numbers(e), y, x, n));
}

static void cuda_backend_narrow(void *self, enum element e, void *y, const real *x, size_t n)
{
    CUDA_NOTE(self, "to 16 bits", kernel_narrow(cuda_numbers(e), y, x, n));
}

static void cuda_backend_widen(void *self, enum element e, real *y, const void *x, size_t n)
{
    CUDA_NOTE(self, "from 16 bits", kernel_widen(cuda_numbers(e), y, x, n));
}

/* One kernel for all numbers of a bucket's own part. */
static void cuda_backend_update(void *self, const struct optimizer_step *o)
{
    const struct kernel_update u = {.n = o->n,
                                    .parameter = o->parameter,
                                    .gradient = o->gradient,
                                    .moment = o->moment,
                                    .square = o->square,
                                    .half = o->half,
                                    .as = cuda_numbers(o->as),
                                    .clears = o->clears,
                                    .rate = o->rate,
                                    .unbias = o->unbias,
                                    .scale = o->scale,
                                    .decay = o->decay,
                                    .momentum = o->momentum,
                                    .nesterov = o->nesterov,
                                    .clipped = o->clipped};
    CUDA_NOTE(self, o->square ? "Adam" : "SGD", kernel_update(&u));
}

static const real *cuda_backend_clip(void *self, const real *gradient, size_t n, double scale,
                                     double most)
{
    struct cuda_context *c = self;
    real *factor = (real *)(void *)(c->norm + CLIP_PARTS);
    CUDA_NOTE(c, "clip", kernel_clip(factor, gradient, n, scale, most, c->norm, c->tickets));
    return factor;
}

const struct backend backend_cuda = {
    .remote = true,
    .adapt = cuda_adapt,
    .reserve = cuda_backend_reserve,
    .allocate = cuda_backend_allocate,
    .release = cuda_backend_release,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .memory_bytes = cuda_backend_memory_bytes,
    .copy = cuda_backend_copy,
    .zero = cuda_backend_zero,
    .add = cuda_backend_add,
    .update = cuda_backend_update,
    .update_finishes = true,
    .clip = cuda_backend_clip,
    .narrow = cuda_backend_narrow,
    .widen = cuda_backend_widen,
    .add_half = accumulate,
};

/* ---- matrix products: cuBLAS thinks in columns, so c^T = b^T a^T */

/* fp32 without TF32; 16 bits on tensor cores, but sums of parts in fp32 too. */
static void choose_products(struct cuda_context *c, enum kernel_type type)
{
    if (type == c->products)
        return;
    unsigned mode = type == KERNEL_FP32
                        ? CUBLAS_PEDANTIC_MATH
                        : CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    c->products = type;
    CUBLAS_NOTE(c, "precision of cuBLAS", cublasSetMathMode(c->blas, (cublasMath_t)mode));
}

bool cuda_queues_gemm(const char *what, const struct cuda_gemm *p, const struct cuda_after *after)
{
    const struct gemm *g = &p->g;
    const uint64_t noted[] = {(uintptr_t)g->a,
                              (uintptr_t)g->b,
                              (uintptr_t)g->c,
                              g->m,
                              g->n,
                              g->k,
                              g->a_stride,
                              g->b_stride,
                              g->c_stride,
                              g->a_t,
                              g->b_t,
                              g->beta != 0,
                              after ? (uintptr_t)after->bias : 0,
                              after ? (uintptr_t)after->gelu : 0};
    return cuda_queues(what, noted, sizeof noted / sizeof *noted);
}

/* A product as cuBLAS sees it. */
struct as_columns {
    cublasOperation_t a_t, b_t;
    cudaDataType in, out;
    cublasComputeType_t compute;
    int m, n, k, lda, ldb, ldc;
};

static struct as_columns cuda_gemm_columns(const struct cuda_gemm *p)
{
    const struct gemm *g = &p->g;
    bool half = p->in != KERNEL_FP32;
    return (struct as_columns){.a_t = g->a_t ? CUBLAS_OP_T : CUBLAS_OP_N,
                               .b_t = g->b_t ? CUBLAS_OP_T : CUBLAS_OP_N,
                               .in = cublas_numbers(p->in),
                               .out = cublas_numbers(p->out),
                               .compute = half ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC,
                               .m = (int)g->m,
                               .n = (int)g->n,
                               .k = (int)g->k,
                               .lda = (int)g->a_stride,
                               .ldb = (int)g->b_stride,
                               .ldc = (int)g->c_stride};
}

void cuda_gemm(struct cuda_context *c, const char *what, const struct cuda_gemm *p)
{
    const struct gemm *g = &p->g;
    const struct as_columns o = cuda_gemm_columns(p);
    choose_products(c, p->in);
    if (cuda_queues_gemm(what, p, NULL))
        CUBLAS_NOTE(c, what,
                    cublasGemmEx(c->blas, o.b_t, o.a_t, o.n, o.m, o.k, &g->alpha, g->b, o.in, o.ldb,
                                 g->a, o.in, o.lda, &g->beta, g->c, o.out, o.ldc, o.compute,
                                 CUBLAS_GEMM_DEFAULT));
}

void cuda_gemms(struct cuda_context *c, const char *what, const struct cuda_gemm *p,
                const struct product_steps *s)
{
    const struct gemm *g = &p->g;
    const struct as_columns o = cuda_gemm_columns(p);
    if (s->n == 1)
        cuda_gemm(c, what, p);
    if (s->n < 2)
        return;
    choose_products(c, p->in);
    CUBLAS_NOTE(c, what,
                cublasGemmStridedBatchedEx(
                    c->blas, o.b_t, o.a_t, o.n, o.m, o.k, &g->alpha, g->b, o.in, o.ldb,
                    (long long)s->b, g->a, o.in, o.lda, (long long)s->a, &g->beta, g->c, o.out,
                    o.ldc, (long long)s->c, (int)s->n, o.compute, CUBLAS_GEMM_DEFAULT));
}
