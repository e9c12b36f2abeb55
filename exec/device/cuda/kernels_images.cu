/* Windows of images, written out for products; the largest or the mean of them; and images of twice
 * the size: exec/device/cpu/{convolution,pool,upsample}.c. */
#include "exec/device/cuda/images.h"
#include "exec/device/cuda/launch.cuh"

/* ---- windows as rows of a matrix */

template <typename T>
static __global__ void windows(struct kernel_windows w, const void *image_, void *to)
{
    size_t columns = w.kernel * w.kernel * w.channels;
    const T *image = (const T *)image_;
    FOR_EACH(e, w.rows * w.across * columns)
    {
        size_t window = e / columns, p = e % columns / w.channels, c = e % w.channels;
        size_t line = w.first + window / w.across, sample = line / w.down;
        size_t row =
            line % w.down * w.stride + p / w.kernel - w.padding; /* wraps above the image */
        size_t column = window % w.across * w.stride + p % w.kernel - w.padding;
        bool inside = row < w.height && column < w.width;
        size_t at = ((sample * w.height + row) * w.width + column) * w.channels + c;
        ((T *)to)[e] = inside ? image[at] : T(0.0F);
    }
}

/* Windows `low` .. `high` - 1 of `n` in one direction are those that have position `at`. */
static __device__ void windows_at(const struct kernel_windows &w, size_t at, size_t n, size_t *low,
                                  size_t *high)
{
    size_t from = at + w.padding;
    *low = from < w.kernel ? 0 : (from - w.kernel) / w.stride + 1;
    *high = from / w.stride + 1 < n ? from / w.stride + 1 : n;
}

/* Position and channel that number e of the images is of. */
struct image_place {
    size_t sample, row, column, channel;
};
static __device__ struct image_place place_at(const struct kernel_windows &w, size_t e)
{
    size_t position = e / w.channels, line = position / w.width;
    return {line / w.height, line % w.height, position % w.width, e % w.channels};
}

/* A thread per number of the images from `sample` on. */
template <typename T>
static __global__ void windows_back(struct kernel_windows w, const float *from, void *image,
                                    size_t sample, size_t n)
{
    size_t columns = w.kernel * w.kernel * w.channels;
    FOR_EACH(e, n)
    {
        const struct image_place p = place_at(w, e);
        size_t top, bottom, left, right, line = (sample + p.sample) * w.down;
        T *to = (T *)image + sample * w.height * w.width * w.channels + e;
        float sum = 0;
        bool any = false;
        windows_at(w, p.row, w.down, &top, &bottom);
        windows_at(w, p.column, w.across, &left, &right);
        for (size_t i = top; i < bottom; i++)
            for (size_t j = left; j < right && line + i - w.first < w.rows; j++) {
                size_t down = p.row + w.padding - i * w.stride;
                size_t across = p.column + w.padding - j * w.stride;
                size_t window = (line + i - w.first) * w.across + j;
                sum += from[window * columns + (down * w.kernel + across) * w.channels + p.channel];
                any = true;
            }
        if (any)
            *to = T((float)*to + sum);
    }
}

/* ---- pooling */

/* Positions of the image in one window: rows top .. bottom - 1, columns left .. right - 1. */
struct window_seen {
    size_t top, bottom, left, right;
};

static __device__ void clip_window(const struct kernel_windows &w, size_t at, size_t size,
                                   size_t *low, size_t *high)
{
    size_t from = at * w.stride, to = from + w.kernel - w.padding;
    *low = from > w.padding ? from - w.padding : 0;
    *high = to < size ? to : size;
}

static __device__ struct window_seen window_seen_by(const struct kernel_windows &w, size_t i,
                                                    size_t j)
{
    struct window_seen s;
    clip_window(w, i, w.height, &s.top, &s.bottom);
    clip_window(w, j, w.width, &s.left, &s.right);
    return s;
}

/* Where in an image the largest number of channel c in the window is; the first of equals. */
template <typename T>
static __device__ size_t window_largest(const struct kernel_windows &w, const struct window_seen &s,
                                        const T *image, size_t c)
{
    size_t best = (s.top * w.width + s.left) * w.channels + c;
    for (size_t row = s.top; row < s.bottom; row++)
        for (size_t column = s.left; column < s.right; column++) {
            size_t at = (row * w.width + column) * w.channels + c;
            best = (float)image[at] > (float)image[best] ? at : best;
        }
    return best;
}

template <typename T>
static __device__ float window_mean(const struct kernel_windows &w, const struct window_seen &s,
                                    const T *image, size_t c)
{
    float sum = 0;
    for (size_t row = s.top; row < s.bottom; row++)
        for (size_t column = s.left; column < s.right; column++)
            sum += (float)image[(row * w.width + column) * w.channels + c];
    return sum / (float)(w.kernel * w.kernel);
}

template <typename T>
static __global__ void pool(struct kernel_windows w, bool average, const void *x, void *y)
{
    FOR_EACH(e, w.rows * w.across * w.channels)
    {
        size_t c = e % w.channels, window = e / w.channels, line = window / w.across;
        const T *image = (const T *)x + line / w.down * w.height * w.width * w.channels;
        const struct window_seen s = window_seen_by(w, line % w.down, window % w.across);
        ((T *)y)[e] =
            average ? T(window_mean(w, s, image, c)) : image[window_largest(w, s, image, c)];
    }
}

/* A thread per number of dx: what the windows that have it pass on to it. */
template <typename T>
static __global__ void pool_backward(struct kernel_windows w, bool average, const void *x,
                                     const void *dy_, void *dx, size_t n)
{
    size_t size = w.height * w.width * w.channels;
    FOR_EACH(e, n)
    {
        const struct image_place p = place_at(w, e);
        const T *image = (const T *)x + p.sample * size;
        const T *dy = (const T *)dy_ + p.sample * w.down * w.across * w.channels + p.channel;
        size_t top, bottom, left, right;
        float sum = 0;
        windows_at(w, p.row, w.down, &top, &bottom);
        windows_at(w, p.column, w.across, &left, &right);
        for (size_t i = top; i < bottom; i++)
            for (size_t j = left; j < right; j++) {
                const struct window_seen s = window_seen_by(w, i, j);
                float d = (float)dy[(i * w.across + j) * w.channels];
                if (average)
                    sum += d / (float)(w.kernel * w.kernel);
                else if (window_largest(w, s, image, p.channel) == e - p.sample * size)
                    sum += d;
            }
        ((T *)dx)[e] = T(sum);
    }
}

/* ---- twice the size */

template <typename T>
static __global__ void upsample(void *y, const void *x, size_t n, size_t width, size_t channels)
{
    FOR_EACH(e, n)
    {
        size_t position = e / channels, line = position / (2 * width);
        size_t column = position % (2 * width);
        ((T *)y)[e] = ((const T *)x)[(line / 2 * width + column / 2) * channels + e % channels];
    }
}

template <typename T>
static __global__ void upsample_backward(void *dx, const void *dy, size_t n, size_t width,
                                         size_t channels)
{
    FOR_EACH(e, n)
    {
        size_t position = e / channels, line = position / width, column = position % width;
        float sum = 0;
        for (size_t k = 0; k < 4; k++) {
            size_t at = (2 * line + k / 2) * 2 * width + 2 * column + k % 2;
            sum += (float)((const T *)dy)[at * channels + e % channels];
        }
        ((T *)dx)[e] = T(sum);
    }
}

/* ---- launches */

cudaError_t kernel_windows(const struct kernel_windows *w, const void *image, void *to)
{
    size_t n = w->rows * w->across * w->kernel * w->kernel * w->channels;
    return LAUNCH_AS(w->type, windows, blocks_for(n), *w, image, to);
}

cudaError_t kernel_windows_back(const struct kernel_windows *w, const float *from, void *image)
{
    size_t sample = w->first / w->down, last = (w->first + w->rows - 1) / w->down;
    size_t n = (last - sample + 1) * w->height * w->width * w->channels;
    return LAUNCH_AS(w->type, windows_back, blocks_for(n), *w, from, image, sample, n);
}

cudaError_t kernel_pool(const struct kernel_windows *w, int average, const void *x, void *y)
{
    return LAUNCH_AS(w->type, pool, blocks_for(w->rows * w->across * w->channels), *w, average != 0,
                     x, y);
}

cudaError_t kernel_pool_backward(const struct kernel_windows *w, int average, const void *x,
                                 const void *dy, void *dx)
{
    size_t n = w->rows / w->down * w->height * w->width * w->channels;
    return LAUNCH_AS(w->type, pool_backward, blocks_for(n), *w, average != 0, x, dy, dx, n);
}

cudaError_t kernel_upsample(enum kernel_type t, void *y, const void *x, size_t rows, size_t width,
                            size_t channels)
{
    size_t n = 4 * rows * width * channels;
    return LAUNCH_AS(t, upsample, blocks_for(n), y, x, n, width, channels);
}

cudaError_t kernel_upsample_backward(enum kernel_type t, void *dx, const void *dy, size_t rows,
                                     size_t width, size_t channels)
{
    size_t n = rows * width * channels;
    return LAUNCH_AS(t, upsample_backward, blocks_for(n), dx, dy, n, width, channels);
}
