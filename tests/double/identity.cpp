/* What the double says it is, besides its GPUs' names: versions and ways between GPUs. */
#include "tests/double/double.h"

#include <cublas_v2.h>

/* Links as NVLink's unless the fault `pcie` is asked for. */
extern "C" cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from,
                                                 int to)
{
    int can = 0;
    cudaError_t e = cudaDeviceCanAccessPeer(&can, from, to);
    if (e != cudaSuccess || attr != cudaDevP2PAttrNativeAtomicSupported)
        return e != cudaSuccess ? e : cudaErrorInvalidValue;
    *value = can && !dbl::has_fault("pcie");
    return cudaSuccess;
}

extern "C" cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    *value = type == MAJOR_VERSION ? CUDART_VERSION / 1000 : 0;
    return CUBLAS_STATUS_SUCCESS;
}
