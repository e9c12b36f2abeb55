/* What matrix products attain on one core, by the library that `foreline run` multiplies with, or
 * by another one:
 *
 *     products
 *     DNNL_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Haswell products
 *
 * Square products a b of 64 to 1,024 rows; CPU time, the median of 25 runs of 0.2 GFLOP or more. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/statistics.h"
#include "exec/device/cpu/gemm.h"

enum { LARGEST = 1024, RUNS = 25 };

int main(void)
{
    enum status st;
    char name[GEMM_LIBRARY];
    real *data = NULL;
    TRY(gemm_single_thread());
    TRY(ARRAY_NEW(data, 3 * (size_t)LARGEST * LARGEST));
    for (size_t i = 0; i < 2 * (size_t)LARGEST * LARGEST; i++)
        data[i] = (real)(i % 7) / 7;
    printf("%-36s", gemm_library(name));
    for (size_t n = 64; n <= LARGEST; n *= 2) {
        struct gemm_operand a = matrix(data, n, n, n), b = matrix(data + n * n, n, n, n);
        struct gemm g = product(1, a, b, data + 2 * n * n, n);
        double flop = 2.0 * (double)(n * n * n), taken_s[RUNS];
        size_t repeats = (size_t)(2e8 / flop) + 1;
        for (size_t k = 0; k < RUNS; k++) {
            double start_s = clock_thread_cpu();
            for (size_t i = 0; i < repeats; i++)
                gemm(&g);
            taken_s[k] = (clock_thread_cpu() - start_s) / (double)repeats;
        }
        printf(" %6.1f", flop / median(taken_s, RUNS) / 1e9);
    }
    printf(" Gflop/s\n");
out:
    if (st != STATUS_OK)
        fprintf(stderr, "products: %s\n", error_message());
    free(data);
    return st != STATUS_OK;
}
