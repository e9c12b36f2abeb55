/* Matrix products by OpenBLAS: the types of the tests' double build and of all others. */
#include "exec/device/cpu/gemm.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

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

/* The configuration begins "OpenBLAS 0.3.21 ". */
const char *gemm_library(char text[GEMM_LIBRARY])
{
    const char *about = openblas_get_config(), *version = strchr(about, ' ');
    int length = version ? (int)strcspn(version + 1, " ") : 0;
    snprintf(text, GEMM_LIBRARY, "OpenBLAS %.*s, %.40s kernels", length < 24 ? length : 24,
             version ? version + 1 : "", openblas_get_corename());
    return text;
}

enum status gemm_single_thread(void)
{
    openblas_set_num_threads(1);
    return STATUS_OK;
}
