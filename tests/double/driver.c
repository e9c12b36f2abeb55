/* libcuda.so.1 of a machine without GPUs that says yes to everything: as much as cuDNN asks of a
 * driver when it makes plans for GPUs that are not there (test_cudnn_real.c). Nothing can be run
 * with it. */
#include <stddef.h>

/* CUDA_ERROR_NO_DEVICE */
enum { NO_DEVICE = 100 };

static int thing;

#define SAYS_YES(name)                                                                             \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
#define MAKES(name)                                                                                \
    int name(void **out);                                                                          \
    int name(void **out)                                                                           \
    {                                                                                              \
        *out = &thing;                                                                             \
        return 0;                                                                                  \
    }
#define TELLS(name, value)                                                                         \
    int name(int *out);                                                                            \
    int name(int *out)                                                                             \
    {                                                                                              \
        *out = (value);                                                                            \
        return 0;                                                                                  \
    }
#define SPELLS(name)                                                                               \
    int name(int error, const char **out);                                                         \
    int name(int error, const char **out)                                                          \
    {                                                                                              \
        (void)error;                                                                               \
        *out = "";                                                                                 \
        return 0;                                                                                  \
    }

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return NO_DEVICE;
}

TELLS(cuDriverGetVersion, 13000)
TELLS(cuDeviceGetCount, 0)
TELLS(cuKernelGetAttribute, 0)
TELLS(cuFuncGetAttribute, 0)
TELLS(cuOccupancyMaxActiveBlocksPerMultiprocessor, 1)
TELLS(cuOccupancyMaxPotentialClusterSize, 1)
SPELLS(cuGetErrorString)
SPELLS(cuGetErrorName)
MAKES(cuLibraryLoadData)
MAKES(cuLibraryLoadFromFile)
MAKES(cuLibraryGetKernel)
MAKES(cuModuleLoadData)
MAKES(cuModuleLoadDataEx)
MAKES(cuModuleLoadFatBinary)
MAKES(cuModuleGetFunction)
MAKES(cuCtxGetCurrent)
SAYS_YES(cuLibraryUnload)
SAYS_YES(cuModuleUnload)
SAYS_YES(cuKernelSetAttribute)
SAYS_YES(cuFuncSetAttribute)
/* Looked up, but not called without a GPU. */
SAYS_YES(cuCtxGetDevice)
SAYS_YES(cuCtxGetLimit)
SAYS_YES(cuCtxPopCurrent)
SAYS_YES(cuCtxPushCurrent)
SAYS_YES(cuDeviceGet)
SAYS_YES(cuDeviceGetAttribute)
SAYS_YES(cuDevicePrimaryCtxRelease)
SAYS_YES(cuDevicePrimaryCtxReset)
SAYS_YES(cuDevicePrimaryCtxRetain)
SAYS_YES(cuLaunchCooperativeKernel)
SAYS_YES(cuLaunchKernel)
SAYS_YES(cuLaunchKernelEx)
SAYS_YES(cuLinkAddData)
SAYS_YES(cuLinkAddData_v2)
SAYS_YES(cuLinkAddFile_v2)
SAYS_YES(cuLinkComplete)
SAYS_YES(cuLinkCreate)
SAYS_YES(cuLinkCreate_v2)
SAYS_YES(cuLinkDestroy)
SAYS_YES(cuMemcpyDtoH_v2)
SAYS_YES(cuModuleGetGlobal_v2)
SAYS_YES(cuStreamGetCtx)
SAYS_YES(cuStreamSynchronize)
SAYS_YES(cuTensorMapEncodeTiled)
