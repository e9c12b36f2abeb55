/* gpu_limits.h - how many experts the GPU's kernels tell apart, for C and CUDA; what may include
 * nothing of CUDA knows it too (exec/device/gpu.c). */
#ifndef EXEC_DEVICE_GPU_LIMITS_H
#define EXEC_DEVICE_GPU_LIMITS_H

/* Numbers of experts are activations. bf16 has all whole numbers up to 256, fp16 up to 2048: the
 * expert that is i behind that one is the i-th number that the type has behind it, as far as they
 * go. */
enum {
    MIXTURE_EXPERTS_BF16 = 256 + 0x7f80 - 0x4380,
    MIXTURE_EXPERTS_FP16 = 2048 + 0x7c00 - 0x6800
};

#endif
