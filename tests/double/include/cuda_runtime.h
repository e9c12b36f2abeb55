/* cuda_runtime.h - the same as cuda_runtime_api.h here. */
#include "cuda_runtime_api.h"
