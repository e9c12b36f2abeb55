/* Kernels of OpenBLAS by what the processor can do. */
#include "exec/core_type.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char variable[] = "OPENBLAS_CORETYPE", mark[] = "FORELINE_CORETYPE";

#if defined(__x86_64__)
const char *core_type_name(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_is("amd"))
        return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : NULL;
}
#else
const char *core_type_name(void)
{
    return NULL;
}
#endif

bool core_type_set(void)
{
    const char *name = core_type_name(), *now = getenv(variable), *ours = getenv(mark);
    bool by_user = now && (!ours || strcmp(now, ours) != 0);
    if (by_user || (now && name && !strcmp(now, name)) || (!now && !name))
        return false;
    if (!name)
        return !unsetenv(variable) && !unsetenv(mark);
    return !setenv(variable, name, 1) && !setenv(mark, name, 1);
}

void core_type_restart(char **argv)
{
    char self[4096];
    if (!core_type_set())
        return;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return;
    self[n] = '\0';
    execv(self, argv);
}
