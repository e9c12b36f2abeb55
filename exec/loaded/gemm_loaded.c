/* gemm.h by the module, in place of gemm.c. */
#include "exec/loaded/gemm_module.h"

#include <stdatomic.h>

/* Written once, or several times with the same. */
static const void *_Atomic loaded;

void gemm(const struct gemm *g)
{
    ((const struct gemm_module *)loaded)->gemm(g);
}

const char *gemm_library(char text[GEMM_LIBRARY])
{
    if (loaded)
        return ((const struct gemm_module *)loaded)->library(text);
    *text = '\0';
    return text;
}

enum status gemm_single_thread(void)
{
    const void *module;
    enum status st = module_load(GEMM_MODULE, "gemm_module", &module);
    if (st != STATUS_OK)
        return error_context(st, "OpenBLAS");
    loaded = module;
    return ((const struct gemm_module *)module)->single_thread();
}
