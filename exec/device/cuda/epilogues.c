/* Products whose results go on before they are stored, by cuBLASLt: biases and GELU cost no pass
 * over memory.
 *
 * Only 16 bits: fp32 is computed in pedantic mode, which has no epilogues. What cuBLASLt has no
 * algorithm for, by shape, alignment or GPU, is refused once, for good, and computed by cuda_gemm()
 * and kernels. Its first choice is taken, among those that add parts in fp32 and need no more than
 * the workspace; it depends on the question alone, so that the same call gives the same bits. */
#include "exec/device/cuda/context.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* What an algorithm is chosen by; the sizes of the product as cuBLAS sees it, by columns. */
struct epilogue_question {
    enum cuda_epilogue what;
    cudaDataType numbers;  /* of a, b, c */
    uint32_t alignment[3]; /* of a, b, c in bytes, up to 256 */
    uint32_t aux_alignment, bias_alignment;
    int32_t a_t, b_t;
    uint64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
};

struct cuda_fused {
    struct epilogue_question q;
    bool refused;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

static uint32_t alignment_of(const void *data)
{
    uintptr_t lowest = (uintptr_t)data & -(uintptr_t)data;
    return lowest == 0 || lowest > 256 ? 256 : (uint32_t)lowest;
}

/* c^T = b^T a^T. */
static struct epilogue_question question_of(const struct cuda_gemm *p,
                                            const struct cuda_after *after)
{
    const struct gemm *g = &p->g;
    struct epilogue_question q;
    memset(&q, 0, sizeof q); /* questions are compared as bytes */
    q.what = after->what;
    q.numbers = cublas_numbers(p->in);
    q.alignment[0] = alignment_of(g->b);
    q.alignment[1] = alignment_of(g->a);
    q.alignment[2] = alignment_of(g->c);
    q.aux_alignment = alignment_of(after->gelu);
    q.bias_alignment = alignment_of(after->bias);
    q.a_t = g->b_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    q.b_t = g->a_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    q.m = g->n;
    q.n = g->m;
    q.k = g->k;
    q.a_stride = (int64_t)g->b_stride;
    q.b_stride = (int64_t)g->a_stride;
    q.c_stride = (int64_t)g->c_stride;
    return q;
}

static bool is_set(cublasStatus_t st)
{
    return st == CUBLAS_STATUS_SUCCESS;
}

static bool epilogue_set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                         const void *value, size_t bytes)
{
    return is_set(cublasLtMatmulDescSetAttribute(d, what, value, bytes));
}

/* The operands of this call. */
static bool point(const struct cuda_fused *f, const struct cuda_after *after)
{
    const void *bias = after->bias, *gelu = after->gelu;
    bool has_gelu = after->what != EPILOGUE_BIAS;
    return (after->what == EPILOGUE_GELU_BACKWARD ||
            epilogue_set(f->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)) &&
           (!has_gelu ||
            epilogue_set(f->how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &gelu, sizeof gelu));
}

static bool epilogue_describe(struct cuda_fused *f, const struct cuda_after *after)
{
    static const uint32_t epilogue[] = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                        CUBLASLT_EPILOGUE_DGELU};
    const struct epilogue_question *q = &f->q;
    bool a_t = q->a_t != CUBLAS_OP_N, b_t = q->b_t != CUBLAS_OP_N;
    return is_set(cublasLtMatmulDescCreate(&f->how, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
           is_set(cublasLtMatrixLayoutCreate(&f->a, q->numbers, a_t ? q->k : q->m,
                                             a_t ? q->m : q->k, q->a_stride)) &&
           is_set(cublasLtMatrixLayoutCreate(&f->b, q->numbers, b_t ? q->n : q->k,
                                             b_t ? q->k : q->n, q->b_stride)) &&
           is_set(cublasLtMatrixLayoutCreate(&f->c, q->numbers, q->m, q->n, q->c_stride)) &&
           epilogue_set(f->how, CUBLASLT_MATMUL_DESC_TRANSA, &q->a_t, sizeof q->a_t) &&
           epilogue_set(f->how, CUBLASLT_MATMUL_DESC_TRANSB, &q->b_t, sizeof q->b_t) &&
           epilogue_set(f->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue[q->what],
                        sizeof *epilogue) &&
           (q->what == EPILOGUE_BIAS || epilogue_set(f->how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                                     &q->c_stride, sizeof q->c_stride)) &&
           point(f, after);
}

/* The first algorithm for it, if there is one. */
static bool epilogue_choose(const struct cuda_context *c, struct cuda_fused *f)
{
    static const cublasLtMatmulPreferenceAttributes_t of[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES};
    const uint64_t most = CUDA_WORKSPACE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t p = NULL;
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int n = 0;
    bool good = is_set(cublasLtMatmulPreferenceCreate(&p));
    good =
        good &&
        is_set(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &most, sizeof most)) &&
        is_set(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                    &schemes, sizeof schemes)) &&
        is_set(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                                    &f->q.alignment[2], sizeof *f->q.alignment));
    for (size_t i = 0; i < sizeof of / sizeof *of && good; i++)
        good = is_set(cublasLtMatmulPreferenceSetAttribute(p, of[i], &f->q.alignment[i],
                                                           sizeof *f->q.alignment));
    good = good &&
           is_set(cublasLtMatmulAlgoGetHeuristic(c->lt, f->how, f->a, f->b, f->c, f->c, p, 1,
                                                 &found, &n)) &&
           n > 0 && is_set(found.state) && found.workspaceSize <= CUDA_WORKSPACE;
    f->algorithm = found.algo;
    if (p)
        cublasLtMatmulPreferenceDestroy(p);
    return good;
}

static void epilogue_release(struct cuda_fused *f)
{
    if (f->how)
        cublasLtMatmulDescDestroy(f->how);
    cublasLtMatrixLayout_t layout[] = {f->a, f->b, f->c};
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        if (layout[i])
            cublasLtMatrixLayoutDestroy(layout[i]);
}

/* Asked before, or now; NULL: no memory. */
static struct cuda_fused *epilogue_answer(struct cuda_context *c, const struct cuda_gemm *p,
                                          const struct cuda_after *after)
{
    struct cuda_fused f;
    memset(&f, 0, sizeof f);
    f.q = question_of(p, after);
    for (size_t k = 0; k < c->fusions; k++)
        if (memcmp(&c->fused[k].q, &f.q, sizeof f.q) == 0)
            return &c->fused[k];
    if (ARRAY_ROOM(c->fused, c->fusions) != STATUS_OK)
        return NULL;
    f.refused = !epilogue_describe(&f, after) || !epilogue_choose(c, &f);
    c->fused[c->fusions] = f;
    return &c->fused[c->fusions++];
}

bool cuda_gemm_after(struct cuda_context *c, const char *what, const struct cuda_gemm *p,
                     const struct cuda_after *after)
{
    const struct gemm *g = &p->g;
    if (p->in == KERNEL_FP32 || p->out != p->in)
        return false;
    const struct cuda_fused *f = epilogue_answer(c, p, after);
    if (!f || f->refused || !point(f, after))
        return false;
    if (!cuda_queues_gemm(what, p, after))
        return true;
    CUBLAS_NOTE(c, what,
                cublasLtMatmul(c->lt, f->how, &g->alpha, g->b, f->a, g->a, f->b, &g->beta, g->c,
                               f->c, g->c, f->c, &f->algorithm, c->workspace, CUDA_WORKSPACE,
                               CUDA_STREAM));
    return true;
}

void cuda_epilogues_close(struct cuda_context *c)
{
    for (size_t k = 0; k < c->fusions; k++)
        epilogue_release(&c->fused[k]);
    free(c->fused);
    if (c->lt)
        cublasLtDestroy(c->lt);
}
