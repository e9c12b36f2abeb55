/* As much of CUDA's runtime, cuBLAS and NCCL as the CUDA device and its self-test use, on the host:
 * everything happens at once, on one "GPU". Device memory begins as NANs, and only kernels, copies
 * and cuBLAS may touch it: again and again it is taken away from the rest of the program. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/cuda/runtime_on_host.h"

#include <cblas.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    return gpu == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

/* ---- device memory */

enum { MOST_PIECES = 128 };

static struct {
    char *data;
    size_t bytes;
} piece[MOST_PIECES]; /* data NULL: not in use */

static void protect(int how)
{
    for (size_t k = 0; k < MOST_PIECES; k++)
        if (piece[k].data)
            mprotect(piece[k].data, piece[k].bytes, how);
}

/* Taking the memory away costs more than most kernels: done after every so many, a prime, so that
 * in time all places in the host's code come to it. */
static bool is_away;

void host_gpu_begin(void)
{
    if (is_away)
        protect(PROT_READ | PROT_WRITE);
    is_away = false;
}

void host_gpu_end(void)
{
    enum { EVERY = 31 };
    static unsigned calls;
    is_away = ++calls % EVERY == 0;
    if (is_away)
        protect(PROT_NONE);
}

cudaError_t cudaMalloc(void **data, size_t bytes)
{
    size_t k = 0;
    while (k < MOST_PIECES && piece[k].data)
        k++;
    if (k == MOST_PIECES)
        return cudaErrorMemoryAllocation;
    char *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    memset(got, 0xff, bytes); /* NANs */
    piece[k].data = got;
    piece[k].bytes = bytes;
    *data = got;
    return cudaSuccess;
}

cudaError_t cudaFree(void *data)
{
    for (size_t k = 0; data && k < MOST_PIECES; k++)
        if (piece[k].data == data) {
            munmap(piece[k].data, piece[k].bytes);
            piece[k].data = NULL;
        }
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **data, size_t bytes)
{
    *data = malloc(bytes);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *data)
{
    free(data);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    host_gpu_begin();
    memcpy(to, from, bytes);
    host_gpu_end();
    return cudaSuccess;
}

cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
    host_gpu_begin();
    memset(data, value, bytes);
    host_gpu_end();
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(data, value, bytes);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = (size_t)1 << 33;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *data)
{
    *a = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered};
    for (size_t k = 0; k < MOST_PIECES; k++)
        if (piece[k].data && (const char *)data >= piece[k].data &&
            (const char *)data < piece[k].data + piece[k].bytes)
            a->type = cudaMemoryTypeDevice;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = malloc(1);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    (void)begin, (void)end;
    *ms = 1;
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)error;
    return "error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int gpu)
{
    (void)gpu;
    memset(p, 0, sizeof *p);
    memcpy(p->name, "host", 5);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 0;
    return ncclSuccess;
}

/* ---- cuBLAS: column-major, as cblas can be */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = malloc(1);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *data, size_t bytes)
{
    (void)handle, (void)data, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "error";
}

/* bf16 is the upper half of a float, rounded to even. */
static float widened(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t narrowed(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A matrix as it is in memory, in columns `stride` apart, as floats; *made is what to free. */
static const float *as_floats(const void *x, cudaDataType type, int rows, int columns, int stride,
                              float **made)
{
    *made = NULL;
    if (type == CUDA_R_32F)
        return x;
    *made = malloc((size_t)stride * (size_t)columns * sizeof **made);
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            (*made)[c * stride + r] = widened(((const uint16_t *)x)[c * stride + r]);
    return *made;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_t, cublasOperation_t b_t,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType a_type, int lda, const void *b, cudaDataType b_type,
                            int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)handle, (void)algorithm;
    bool half = a_type == CUDA_R_16BF;
    if (m <= 0 || n <= 0 || k <= 0 || a_type != b_type || (c_type != a_type && !half) ||
        compute != (half ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC))
        return CUBLAS_STATUS_INVALID_VALUE;
    host_gpu_begin();
    float *mine[3];
    bool a_turned = a_t == CUBLAS_OP_T, b_turned = b_t == CUBLAS_OP_T;
    const float *in = as_floats(a, a_type, a_turned ? k : m, a_turned ? m : k, lda, &mine[0]);
    const float *by = as_floats(b, b_type, b_turned ? n : k, b_turned ? k : n, ldb, &mine[1]);
    float *out = (float *)(uintptr_t)as_floats(c, c_type, m, n, ldc, &mine[2]);
    cblas_sgemm(CblasColMajor, a_turned ? CblasTrans : CblasNoTrans,
                b_turned ? CblasTrans : CblasNoTrans, m, n, k, *(const float *)alpha, in, lda, by,
                ldb, *(const float *)beta, out, ldc);
    for (int j = 0; mine[2] && j < n; j++)
        for (int i = 0; i < m; i++)
            ((uint16_t *)c)[j * ldc + i] = narrowed(out[j * ldc + i]);
    for (int i = 0; i < 3; i++)
        free(mine[i]);
    host_gpu_end();
    return CUBLAS_STATUS_SUCCESS;
}

static size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t a_t, cublasOperation_t b_t, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType a_type, int lda, long long a_step, const void *b,
    cudaDataType b_type, int ldb, long long b_step, const void *beta, void *c, cudaDataType c_type,
    int ldc, long long c_step, int count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < (size_t)count && st == CUBLAS_STATUS_SUCCESS; i++)
        st = cublasGemmEx(handle, a_t, b_t, m, n, k, alpha,
                          (const char *)a + i * (size_t)a_step * size_of(a_type), a_type, lda,
                          (const char *)b + i * (size_t)b_step * size_of(b_type), b_type, ldb, beta,
                          (char *)c + i * (size_t)c_step * size_of(c_type), c_type, ldc, compute,
                          algorithm);
    return st;
}
