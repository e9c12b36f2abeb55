/* cuBLASLt: products whose results go on before they are stored, in 16 bits alone. It refuses
 * what the real one says that it does not have, and everything where $DOUBLE_FAULTS has
 * `no-epilogues`. */
#include "tests/double/blas.h"
#include "tests/double/double.h"

#include <cublasLt.h>
#include <string.h>

using namespace dbl;

namespace
{

/* What the opaque structs have. */
struct layout {
    uint64_t rows, columns;
    int64_t stride;
    cudaDataType type;
};
struct description {
    cublasComputeType_t compute;
    int32_t a_turned, b_turned;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t aux_stride;
};
struct preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
};
struct choice {
    uint32_t alignment[4];
    uint64_t workspace, made;
};
const uint64_t MADE = 0x666f72656c696e65;
static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) &&
                  sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t) &&
                  sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t) &&
                  sizeof(choice) <= sizeof(cublasLtMatmulAlgo_t),
              "opaque");

template <typename T, typename O> T &in(O *opaque)
{
    return *(T *)(void *)opaque;
}

template <typename O, typename T> cublasStatus_t make(O **out, const T &what)
{
    *out = new O{};
    in<T>(*out) = what;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(void *to, size_t size, const void *from, size_t bytes)
{
    if (!from || bytes != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
#define SET(field) set(&(field), sizeof(field), buf, sizeInBytes)

} // namespace

struct cublasLtContext {
};

extern "C" cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout,
                                                     cudaDataType type, uint64_t rows,
                                                     uint64_t cols, int64_t ld)
{
    return make(matLayout, layout{rows, cols, ld, type});
}

extern "C" cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
{
    delete matLayout;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc,
                                                   cublasComputeType_t computeType,
                                                   cudaDataType_t scaleType)
{
    if (scaleType != CUDA_R_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    return make(matmulDesc, description{computeType, CUBLAS_OP_N, CUBLAS_OP_N,
                                        CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL, 0});
}

extern "C" cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
{
    delete matmulDesc;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                                         cublasLtMatmulDescAttributes_t attr,
                                                         const void *buf, size_t sizeInBytes)
{
    description &d = in<description>(matmulDesc);
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return SET(d.a_turned);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return SET(d.b_turned);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return SET(d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return SET(d.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return SET(d.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return SET(d.aux_stride);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    return make(pref, preference{0, 7, {256, 256, 256, 256}});
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    delete pref;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                     cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                     size_t sizeInBytes)
{
    preference &p = in<preference>(pref);
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return SET(p.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return SET(p.schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return SET(p.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return SET(p.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return SET(p.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return SET(p.alignment[3]);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* Epilogues of 16 bits: widths that are multiples of 8, aux at 16 bytes. */
extern "C" cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t pref, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount)
{
    const description &d = in<description>(operationDesc);
    const preference &p = in<preference>(pref);
    const layout *all[] = {&in<layout>(Adesc), &in<layout>(Bdesc), &in<layout>(Cdesc),
                           &in<layout>(Ddesc)};
    bool good = !has_fault("no-epilogues") && d.compute == CUBLAS_COMPUTE_32F &&
                (d.aux_stride % 8 == 0 && (uintptr_t)d.aux % 16 == 0);
    for (const layout *l : all)
        good = good && l->type != CUDA_R_32F && l->type == all[0]->type && l->stride % 8 == 0;
    *returnAlgoCount = 0;
    if (requestedAlgoCount < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!good)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasLtMatmulHeuristicResult_t &result = heuristicResultsArray[0];
    result = {};
    choice &c = in<choice>(&result.algo);
    memcpy(c.alignment, p.alignment, sizeof c.alignment);
    c.workspace = result.workspaceSize = p.workspace;
    c.made = MADE;
    *returnAlgoCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t computeDesc, const void *alpha, const void *A,
               cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc,
               const void *beta, const void *C, cublasLtMatrixLayout_t, void *D,
               cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace,
               size_t workspaceSizeInBytes, cudaStream_t stream)
{
    const description &d = in<description>(computeDesc);
    const choice &how = *(const choice *)(const void *)algo;
    const void *const data[] = {A, B, C, D};
    if (!algo || how.made != MADE || how.workspace > workspaceSizeInBytes || C != D ||
        !is_live(workspace, workspaceSizeInBytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)data[i] % how.alignment[i] != 0)
            complain("cublasLtMatmul(): operand %d is not at a multiple of %u bytes", i,
                     how.alignment[i]);
    const layout *l[] = {&in<layout>(Adesc), &in<layout>(Bdesc), &in<layout>(Ddesc)};
    operand o[3];
    for (int i = 0; i < 3; i++)
        o[i] = {(char *)(uintptr_t)(i < 2 ? data[i] : D), l[i]->type, (int)l[i]->rows,
                (int)l[i]->columns, (int)l[i]->stride};
    bool a_t = d.a_turned == CUBLAS_OP_T, b_t = d.b_turned == CUBLAS_OP_T;
    int m = o[2].rows, n = o[2].columns, k = a_t ? o[0].rows : o[0].columns;
    if ((a_t ? o[0].columns : o[0].rows) != m || (b_t ? o[1].rows : o[1].columns) != n ||
        (b_t ? o[1].columns : o[1].rows) != k)
        return CUBLAS_STATUS_INVALID_VALUE;
    after next = {
        NOTHING, (const char *)d.bias, {(char *)d.aux, o[2].type, m, n, (int)d.aux_stride}};
    next.what = d.epilogue == CUBLASLT_EPILOGUE_BIAS            ? BIAS
                : d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ? GELU_BIAS
                : d.epilogue == CUBLASLT_EPILOGUE_DGELU         ? GELU_BACKWARD
                                                                : NOTHING;
    if (next.what >= GELU_BIAS && (!d.aux || d.aux_stride < m))
        return CUBLAS_STATUS_INVALID_VALUE;
    const product p = {a_t,  b_t,  m,    n,   k, *(const float *)alpha, *(const float *)beta,
                       o[0], o[1], o[2], next};
    return queue_product(stream, p, d.compute);
}
