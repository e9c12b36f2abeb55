/* What a CPU computes with. */
#include "exec/device/cpu/gemm.h"
#include "exec/hardware.h"

enum status cpu_describe(uint32_t rank, struct hardware *out)
{
    (void)rank;
    PASS(gemm_single_thread());
    gemm_library(out->blas); /* of GEMM_LIBRARY letters, as HARDWARE_BLAS */
    return STATUS_OK;
}
