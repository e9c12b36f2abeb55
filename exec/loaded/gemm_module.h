/* gemm_module.h - the shared object that has OpenBLAS in it. OpenBLAS starts threads when it is
 * loaded, which spin for tens of milliseconds: the command, most of whose commands multiply
 * nothing, loads it when something does. Workers link gemm.c as it is. */
#ifndef EXEC_LOADED_GEMM_MODULE_H
#define EXEC_LOADED_GEMM_MODULE_H

#include "core/base/module.h"
#include "exec/device/cpu/gemm.h"

/* What it exports, as "gemm_module". */
struct gemm_module {
    struct module module;
    void (*gemm)(const struct gemm *g);
    enum status (*single_thread)(void);
    const char *(*library)(char *text);
};

#endif
