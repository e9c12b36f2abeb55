/* gpu_limits.h - shapes that the GPU's kernels do not have, for C and CUDA; what may include nothing of CUDA knows
 * them too (exec/device/gpu.c). */
#ifndef EXEC_DEVICE_GPU_LIMITS_H
#define EXEC_DEVICE_GPU_LIMITS_H

/* Numbers of experts are activations. bf16 has whole numbers up to 256: expert 256 + i is the i-th number that
 * it has behind 256, as far as they go. */
enum { MIXTURE_EXPERTS_BF16 = 256 + 0x7f80 - 0x4380 };

#endif
