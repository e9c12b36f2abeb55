/* blas.h - products of matrices by columns, for the double's cuBLAS and cuBLASLt. */
#ifndef DOUBLE_BLAS_H
#define DOUBLE_BLAS_H

#include <cublas_v2.h>
#include <stdint.h>
#include <string.h>

namespace dbl
{

static inline size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* bf16 is the upper half of a float, rounded to even. */
static inline float widened(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t narrowed(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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
    const char *bias; /* [m] of 16 bits */
    operand aux;      /* of 16 bits: what gelu was given */
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
