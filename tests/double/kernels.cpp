/* The kernels, on the host. */
#include "tests/double/host.h"

#include "exec/device/cuda/kernels.cu"
#include "exec/device/cuda/kernels_attention.cu"
#include "exec/device/cuda/kernels_columns.cu"
#include "exec/device/cuda/kernels_flash.cu"
#include "exec/device/cuda/kernels_gated.cu"
#include "exec/device/cuda/kernels_grouped.cu"
#include "exec/device/cuda/kernels_loss.cu"
#include "exec/device/cuda/kernels_norm.cu"
#include "exec/device/cuda/kernels_update.cu"
#include "exec/device/cuda/kernels_mixture.cu"
#include "exec/device/cuda/kernels_routes.cu"
