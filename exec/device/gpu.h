/* gpu.h - what the CUDA device computes, known where there is neither CUDA nor a GPU: plans are
 * asked for devices of other machines. */
#ifndef EXEC_DEVICE_GPU_H
#define EXEC_DEVICE_GPU_H

#include "core/data/program.h"
#include "exec/device/layer.h"

/* Does the GPU compute such a layer? STATUS_UNSUPPORTED as half_fits() (exec/device/cpu/half.h). */
enum status gpu_fits(const struct model_op *op, const struct layer *l) MUST_CHECK;
/* As check() of struct device: would the CUDA device open the rank's stages, if it had the memory?
 * That it has every kind of the CPU's is a test (double.kinds). O(ops of the model). */
enum status gpu_check(const struct model *m, const struct program *p, uint32_t rank) MUST_CHECK;

#endif
