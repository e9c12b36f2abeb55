/* blas.h - products of matrices by columns, for the double's cuBLAS and cuBLASLt. */
#ifndef DOUBLE_BLAS_H
#define DOUBLE_BLAS_H

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace dbl
{

static inline size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* Numbers of 16 bits. */
template <typename T> static inline float widened_as(uint16_t x)
{
    T half;
    memcpy((void *)&half, &x, sizeof half);
    return half;
}
static inline float widened(cudaDataType type, uint16_t x)
{
    return type == CUDA_R_16F ? widened_as<__half>(x) : widened_as<__nv_bfloat16>(x);
}

template <typename T> static inline uint16_t narrowed_as(float value)
{
    const T half = value;
    uint16_t x;
    memcpy(&x, &half, sizeof x);
    return x;
}
static inline uint16_t narrowed(cudaDataType type, float value)
{
    return type == CUDA_R_16F ? narrowed_as<__half>(value) : narrowed_as<__nv_bfloat16>(value);
}

/* A matrix of so many rows in columns `stride` apart, as it lies in memory. */
struct operand {
    char *data;
    cudaDataType type;
    int rows, columns, stride;

    size_t bytes() const
    {
        return ((size_t)(columns - 1) * (size_t)stride + (size_t)rows) * size_of(type);
    }
};

/* What cuBLASLt does with the results before it stores them. */
enum epilogue { NOTHING, BIAS, GELU_BIAS, GELU_BACKWARD };
struct after {
    epilogue what;
    const char *bias; /* [m] as the results */
    operand aux;      /* as the results: what gelu was given */
};

struct product {
    bool a_turned, b_turned;
    int m, n, k;
    float alpha, beta;
    operand a, b, c;
    after next;
};

/* Queue it. CUBLAS_STATUS_INVALID_VALUE: shapes or types that cuBLAS would refuse. */
cublasStatus_t queue_product(cudaStream_t stream, const product &p, cublasComputeType_t compute);

} // namespace dbl

#endif
