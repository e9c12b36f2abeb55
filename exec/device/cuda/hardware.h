/* hardware.h - which GPU a rank takes, what is around it, and whether driver and libraries can be
 * used at all. */
#ifndef EXEC_DEVICE_CUDA_HARDWARE_H
#define EXEC_DEVICE_CUDA_HARDWARE_H

#include <stdint.h>

#include "core/base/error.h"
#include "exec/hardware.h"

/* Can CUDA's driver run this worker, are there GPUs, and is NCCL new enough? *gpus: how many there
 * are, >= 1. STATUS_UNSUPPORTED: one line, with what to install. */
enum status cuda_check(uint32_t *gpus) MUST_CHECK;
/* GPU of a rank among those of its machine: that of its place there (cuda_gpu_of()). Ranks beyond
 * the last GPU are refused (STATUS_UNSUPPORTED) unless FORELINE_SHARE_GPU is set: then they take
 * turns. */
enum status cuda_place(uint32_t rank, uint32_t gpus, uint32_t *gpu) MUST_CHECK;
/* struct device's describe(): both checks, and all that exec/hardware.h asks. Makes no CUDA
 * context. */
enum status cuda_describe(uint32_t rank, struct hardware *out) MUST_CHECK;

/* "580.82.07" out of /proc/driver/nvidia/version: the first word that is numbers with points.
 * Returns `version`, "" when there is none. */
const char *cuda_driver_release(const char *text, char version[HARDWARE_VERSION]);

#endif
