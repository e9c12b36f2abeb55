/* A profiler as NVTX sees it: the library that NVTX_INJECTION64_PATH names. It writes what it is
 * told to $RANGES_LOG.RANK, a line each: "domain NAME", "begin NAME", "end", with the time in
 * seconds. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static FILE *file;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static nvtxDomainHandle_t NVTX_API create(const char *name)
{
    static int domain;
    fprintf(file, "domain %s\n", name);
    return (nvtxDomainHandle_t)(void *)&domain;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    fprintf(file, "%.9f begin %s\n", now(), domain ? range->message.ascii : "without a domain");
    return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain)
{
    fprintf(file, "%.9f end%s\n", now(), domain ? "" : " without a domain");
    fflush(file);
    return 0;
}

/* Put our functions where NVTX's calls go through. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    char path[4096];
    const char *rank = getenv("RANK"), *prefix = getenv("RANGES_LOG");
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    snprintf(path, sizeof path, "%s.%s", prefix ? prefix : "ranges", rank ? rank : "0");
    file = fopen(path, "w");
    if (!file || !callbacks ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
