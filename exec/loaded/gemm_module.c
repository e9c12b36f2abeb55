/* gemm.c as a module. */
#include "exec/loaded/gemm_module.h"

#include "core/base/provenance.h"

extern const struct gemm_module gemm_module;
__attribute__((visibility("default")))
const struct gemm_module gemm_module = {.module = {foreline_version},
                                        .gemm = gemm,
                                        .single_thread = gemm_single_thread,
                                        .library = gemm_library};
