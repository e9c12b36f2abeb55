/* What the double says of itself, besides runtime.cpp. */
#include "tests/double/double.h"

#include <cublas_v2.h>

extern "C" cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr,
                                                 int srcDevice, int dstDevice)
{
    *value = attr == cudaDevP2PAttrNativeAtomicSupported && srcDevice != dstDevice;
    return cudaSuccess;
}

extern "C" cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    *value = type == MAJOR_VERSION ? 13 : 0;
    return CUBLAS_STATUS_SUCCESS;
}
