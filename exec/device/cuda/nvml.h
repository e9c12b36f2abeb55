/* nvml.h - clocks and power of a GPU, from the driver's management library, where there is one: it
 * is opened when it is first asked for, so that no executable needs it. */
#ifndef EXEC_DEVICE_CUDA_NVML_H
#define EXEC_DEVICE_CUDA_NVML_H

#include <stdbool.h>

/* Of the GPU at this PCI address ("0000:10:00.0"), now: Hz of the multiprocessors and of the
 * memory, and watts (of the last second, on newer GPUs). What the GPU does not tell is 0; false:
 * there is no libnvidia-ml.so.1, or it does not know the GPU. */
struct nvml_figures {
    double clock_Hz, memory_Hz, watts;
};
bool nvml_read(const char *bus, struct nvml_figures *out);

#endif
