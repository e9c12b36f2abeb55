/* Matrix products by OpenBLAS: the types of the tests' double build and of all others. */
#include "exec/device/cpu/gemm.h"

#include <cblas.h>

void gemm(const struct gemm *g)
{
    CBLAS_TRANSPOSE a_t = g->a_t ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE b_t = g->b_t ? CblasTrans : CblasNoTrans;
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    int lda = (int)g->a_stride, ldb = (int)g->b_stride, ldc = (int)g->c_stride;
    const void *a = g->a, *b = g->b; /* `real` is one of the two types below */
    void *c = g->c;
    if (sizeof(real) == sizeof(float))
        cblas_sgemm(CblasRowMajor, a_t, b_t, m, n, k, (float)g->alpha, a, lda, b, ldb,
                    (float)g->beta, c, ldc);
    else
        cblas_dgemm(CblasRowMajor, a_t, b_t, m, n, k, (double)g->alpha, a, lda, b, ldb,
                    (double)g->beta, c, ldc);
}

enum status gemm_single_thread(void)
{
    openblas_set_num_threads(1);
    return STATUS_OK;
}
