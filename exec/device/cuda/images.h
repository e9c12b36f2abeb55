/* images.h - kernels on images, rows of channels by position (kernels_images.cu,
 * kernels_moments.cu); rules as in kernels.h. */
#ifndef EXEC_DEVICE_CUDA_IMAGES_H
#define EXEC_DEVICE_CUDA_IMAGES_H

#include "exec/device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Windows of kernel x kernel positions of images (samples, height, width, channels), `down` rows of
 * `across` to an image; a band is rows first .. first + rows - 1 of those of all images
 * (exec/device/cpu/convolution.c). */
struct kernel_windows {
    enum kernel_type type;
    size_t channels, height, width, kernel, stride, padding, down, across;
    size_t first, rows;
};
/* to (rows across, kernel kernel channels): what each window of the band sees, zeros outside. */
cudaError_t kernel_windows(const struct kernel_windows *w, const void *image, void *to);
/* Each number of the images += those of `from`, as above but in fp32, that stand for it. Images
 * that the band does not reach stay as they are. */
cudaError_t kernel_windows_back(const struct kernel_windows *w, const float *from, void *image);

/* Largest, or mean, of each channel in each window, y (samples, down, across, channels); the band
 * is all rows: exec/device/cpu/pool.c. The backward looks at x again. */
cudaError_t kernel_pool(const struct kernel_windows *w, int average, const void *x, void *y);
cudaError_t kernel_pool_backward(const struct kernel_windows *w, int average, const void *x,
                                 const void *dy, void *dx);

/* x (samples, height, width, channels), y (samples, 2 height, 2 width, channels), of which rows =
 * samples height; each position in four places, whose gradients are added. */
cudaError_t kernel_upsample(enum kernel_type t, void *y, const void *x, size_t rows, size_t width,
                            size_t channels);
cudaError_t kernel_upsample_backward(enum kernel_type t, void *dx, const void *dy, size_t rows,
                                     size_t width, size_t channels);

/* y = (x - mean) rstd weight + bias of x (rows, channels), where mean and rstd are those of `span`
 * rows and `wide` channels: groupnorm (a sample, a group), batchnorm (all rows, one channel);
 * affine: moments NULL, 0 and 1. */
struct kernel_moments {
    enum kernel_type type;
    size_t rows, channels, span, wide;
    const void *x;
    const float *parameter; /* weight [channels], bias [channels] */
    /* [sets][2] mean and rstd; behind them [sets][2], of the backward: means of g = dy weight
     * and of g times what is normal */
    float *moments;
};
cudaError_t kernel_moments(const struct kernel_moments *m, void *y);
/* d_parameter += ..., work [2 COLUMN_PARTS channels] */
cudaError_t kernel_moments_backward(const struct kernel_moments *m, const void *dy, void *dx,
                                    float *d_parameter, float *work, unsigned *ticket);

#ifdef __cplusplus
}
#endif

#endif
