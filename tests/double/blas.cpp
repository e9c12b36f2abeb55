/* cuBLAS: column-major, as cblas can be. Numbers of 16 bits are multiplied as floats. */
#include "tests/double/blas.h"
#include "tests/double/double.h"
#include "tests/double/log.h"

#include <cblas.h>
#include <cublas_v2.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

using namespace dbl;

struct cublasContext {
    cudaStream_t stream;
};

extern "C" cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = new cublasContext{NULL};
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    device_wait("cublasDestroy()");
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
    *version = 130000;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    *value = type == MAJOR_VERSION ? 13 : 0;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
{
    handle->stream = streamId;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *workspace, size_t bytes)
{
    return is_live(workspace, bytes) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

extern "C" cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "the double's cuBLAS refuses";
}

namespace
{

const float *as_floats(const operand &o, std::vector<float> &made)
{
    if (o.type == CUDA_R_32F)
        return (const float *)o.data;
    made.resize((size_t)o.stride * (size_t)o.columns);
    for (int c = 0; c < o.columns; c++)
        for (int r = 0; r < o.rows; r++)
            made[(size_t)c * (size_t)o.stride + (size_t)r] = widened(
                o.type, ((const uint16_t *)o.data)[(size_t)c * (size_t)o.stride + (size_t)r]);
    return made.data();
}

uint16_t &half_at(const operand &o, int row, int column)
{
    return ((uint16_t *)o.data)[(size_t)column * (size_t)o.stride + (size_t)row];
}

/* Gelu in its tanh form, and what it is multiplied with in the backward. */
double gelu(double x, bool slope)
{
    const double root = 0.7978845608028654, cubic = 0.044715;
    double s = 1 / (1 + exp(-2 * root * (x + cubic * x * x * x)));
    return slope ? s + x * s * (1 - s) * 2 * root * (1 + 3 * cubic * x * x) : x * s;
}

/* Of one result. What goes to aux is rounded, what gelu is given is not. */
float finished(const after &next, float value, int row, int column)
{
    if (next.what == BIAS || next.what == GELU_BIAS)
        value += widened(next.aux.type, ((const uint16_t *)(const void *)next.bias)[row]);
    if (next.what == GELU_BIAS) {
        half_at(next.aux, row, column) = narrowed(next.aux.type, value);
        value = (float)gelu(value, false);
    } else if (next.what == GELU_BACKWARD) {
        value *= (float)gelu(widened(next.aux.type, half_at(next.aux, row, column)), true);
    }
    return value;
}

void multiply(const product &p)
{
    std::vector<float> made[3];
    const float *a = as_floats(p.a, made[0]), *b = as_floats(p.b, made[1]);
    float *c = const_cast<float *>(as_floats(p.c, made[2]));
    cblas_sgemm(CblasColMajor, p.a_turned ? CblasTrans : CblasNoTrans,
                p.b_turned ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, p.alpha, a, p.a.stride, b,
                p.b.stride, p.beta, c, p.c.stride);
    for (int j = 0; !made[2].empty() && j < p.n; j++)
        for (int i = 0; i < p.m; i++)
            half_at(p.c, i, j) = narrowed(
                p.c.type, finished(p.next, c[(size_t)j * (size_t)p.c.stride + (size_t)i], i, j));
}

/* Rows of a column are accessed, what lies between the columns is not. */
void touch_columns(op &o, const operand &m, bool writes)
{
    size_t each = size_of(m.type);
    if (gpu_of(m.data) != o.on->gpu)
        complain("%s on GPU %d is given memory of another", o.what, o.on->gpu);
    if (m.rows == m.stride)
        return touch(o, m.data, m.bytes(), writes);
    for (int c = 0; c < m.columns; c++)
        touch(o, m.data + (size_t)c * (size_t)m.stride * each, (size_t)m.rows * each, writes);
}

} // namespace

cublasStatus_t dbl::queue_product(cudaStream_t stream, const product &p,
                                  cublasComputeType_t compute)
{
    bool half = p.a.type != CUDA_R_32F;
    if (p.m <= 0 || p.n <= 0 || p.k <= 0 || p.a.type != p.b.type ||
        (p.c.type != p.a.type && (!half || p.c.type != CUDA_R_32F)) || p.a.stride < p.a.rows ||
        p.b.stride < p.b.rows || p.c.stride < p.c.rows ||
        compute != (half ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_PEDANTIC))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (check_capture(stream_of(stream)) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    dbl::count(PRODUCT);
    count_load("product " + std::to_string(p.m) + " " + std::to_string(p.n) + " " +
               std::to_string(p.k) + " " + std::to_string(p.a_turned) + std::to_string(p.b_turned) +
               std::to_string(half));
    size_t aux = p.next.what >= GELU_BIAS ? p.next.aux.bytes() : 0, out = p.c.bytes();
    bool has_bias = p.next.what == BIAS || p.next.what == GELU_BIAS,
         back = p.next.what == GELU_BACKWARD;
    count_work(2.0 * p.m * p.n * p.k,
               (double)(p.a.bytes() + p.b.bytes() + out * (p.beta != 0 ? 2 : 1) + aux));
    count_bytes(step_now(), "(product)",
                p.a.bytes() + p.b.bytes() + (p.beta != 0 ? out : 0) +
                    (has_bias ? (size_t)p.m * sizeof(uint16_t) : 0) + (back ? aux : 0),
                out + (back ? 0 : aux));
    put(stream_of(stream), "gemm", [=](op &o) {
        if (computes_nothing())
            return true;
        touch_columns(o, p.a, false);
        touch_columns(o, p.b, false);
        touch_columns(o, p.c, true);
        if (has_bias)
            touch(o, p.next.bias, (size_t)p.m * sizeof(uint16_t), false);
        if (p.next.what >= GELU_BIAS)
            touch_columns(o, p.next.aux, !back);
        multiply(p);
        return true;
    });
    return sticky() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                                       cublasOperation_t transb, int m, int n, int k,
                                       const void *alpha, const void *A, cudaDataType Atype,
                                       int lda, const void *B, cudaDataType Btype, int ldb,
                                       const void *beta, void *C, cudaDataType Ctype, int ldc,
                                       cublasComputeType_t computeType, cublasGemmAlgo_t)
{
    bool a_t = transa == CUBLAS_OP_T, b_t = transb == CUBLAS_OP_T;
    const product p = {
        a_t,
        b_t,
        m,
        n,
        k,
        *(const float *)alpha,
        *(const float *)beta,
        {(char *)(uintptr_t)A, Atype, a_t ? k : m, a_t ? m : k, lda},
        {(char *)(uintptr_t)B, Btype, b_t ? n : k, b_t ? k : n, ldb},
        {(char *)C, Ctype, m, n, ldc},
        {},
    };
    return queue_product(handle->stream, p, computeType);
}

/* One launch, whose products the double does one after the other. */
extern "C" cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void *alpha, const void *A, cudaDataType Atype, int lda, long long int strideA,
    const void *B, cudaDataType Btype, int ldb, long long int strideB, const void *beta, void *C,
    cudaDataType Ctype, int ldc, long long int strideC, int batchCount,
    cublasComputeType_t computeType, cublasGemmAlgo_t algo)
{
    if (batchCount < 1 || strideA < 0 || strideB < 0 || strideC < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (long long i = 0; i < batchCount; i++) {
        cublasStatus_t e = cublasGemmEx(
            handle, transa, transb, m, n, k, alpha,
            (const char *)A + (size_t)(i * strideA) * size_of(Atype), Atype, lda,
            (const char *)B + (size_t)(i * strideB) * size_of(Btype), Btype, ldb, beta,
            (char *)C + (size_t)(i * strideC) * size_of(Ctype), Ctype, ldc, computeType, algo);
        if (e != CUBLAS_STATUS_SUCCESS)
            return e;
    }
    return CUBLAS_STATUS_SUCCESS;
}
