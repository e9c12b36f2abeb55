/* attention_cudnn.h - attention by cuDNN instead of our kernels, where the user has asked for it
 * and it can.
 *
 * A shape is asked for once, forward and backward together: both are computed by cuDNN, or
 * neither, for good. Plans and their workspace are made then, which is before the first step
 * (device.c: rehearse). Of cuDNN's engines those that say that the same call may give other bits
 * are left out. */
#ifndef EXEC_DEVICE_CUDA_ATTENTION_CUDNN_H
#define EXEC_DEVICE_CUDA_ATTENTION_CUDNN_H

#include "exec/device/cuda/context.h"

/* From now on. STATUS_UNSUPPORTED: no cuDNN that can be used, see cudnn_library();
 * STATUS_EXTERNAL. */
enum status cuda_cudnn_open(struct cuda_context *c) MUST_CHECK;
void cuda_cudnn_close(struct cuda_context *c); /* where it has not been opened, too */

/* Does it compute attention of this shape? Then a.saved is (samples, heads, tokens), not pairs. */
bool cuda_cudnn_takes(struct cuda_context *c, const struct kernel_attention *a);
/* As kernel_attention() and kernel_attention_backward(); false: it does not, and nothing has been
 * done. */
bool cuda_cudnn_forward(struct cuda_context *c, const struct kernel_attention *a, void *y);
bool cuda_cudnn_backward(struct cuda_context *c, const struct kernel_attention *a, const void *y,
                         const void *dy, void *dx);

/* What has been asked of it, and what it takes; *shapes: how many it takes. "": it has not been
 * opened. */
const char *cuda_cudnn_remark(const struct cuda_context *c, size_t *shapes);

#endif
