/* runtime_on_host.h - between the two: what runs on the "GPU" does so. */
#ifndef TESTS_CUDA_RUNTIME_ON_HOST_H
#define TESTS_CUDA_RUNTIME_ON_HOST_H

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory is accessible only in between. */
void host_gpu_begin(void);
void host_gpu_end(void);

#ifdef __cplusplus
}
#endif

#endif
