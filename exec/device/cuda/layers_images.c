/* Layers on images: kernels_images.cu, kernels_moments.cu. */
#include "exec/device/cuda/images.h"
#include "exec/device/cuda/layers.h"

/* ---- convolution: windows are written out a band at a time, and multiplied */

/* Numbers of windows that are written out at once, unless one row of them is more; and of how many
 * samples at most. */
enum { BAND = 1 << 22, BAND_SAMPLES = 16 };

/* Rows of windows of a band. */
static size_t cuda_convolution_band(const struct layer *l)
{
    size_t row = size_times(l->window_of.across, layer_window_numbers(l)), rows = BAND / row;
    size_t most = size_times(BAND_SAMPLES, l->window_of.down);
    return rows < 1 ? 1 : rows < most ? rows : most;
}

static void cuda_convolution_sizes(struct layer *l)
{
    size_t band = layer_is_pointwise(l)
                      ? 0
                      : size_times(cuda_convolution_band(l),
                                   size_times(l->window_of.across, layer_window_numbers(l)));
    size_t bias = size_times(COLUMN_PARTS, l->out);
    l->work = band > bias ? band : bias;
}

/* All windows; bands set first and rows. */
static struct kernel_windows cuda_convolution_windows(const struct layer *l,
                                                      const struct layer_io *io)
{
    const struct layer_window *w = &l->window_of;
    return (struct kernel_windows){.type = cuda_type(l),
                                   .channels = l->in,
                                   .height = w->height,
                                   .width = w->width,
                                   .kernel = w->kernel,
                                   .stride = w->stride,
                                   .padding = w->padding,
                                   .down = w->down,
                                   .across = w->across,
                                   .rows = io->batch * w->down};
}

/* The next band of `all`, {0} before the first; false behind the last. */
static bool cuda_convolution_next_band(const struct layer *l, const struct kernel_windows *all,
                                       struct kernel_windows *band)
{
    size_t first = band->first + band->rows, left = all->rows - first;
    size_t most = layer_is_pointwise(l) ? all->rows : cuda_convolution_band(l);
    *band = *all;
    band->first = first;
    band->rows = left < most ? left : most;
    return left > 0;
}

/* The windows of a band, (rows across, K K in). */
static struct gemm_operand written(const struct layer *l, const struct layer_io *io,
                                   const struct kernel_windows *band)
{
    size_t n = band->rows * band->across, columns = layer_window_numbers(l);
    if (layer_is_pointwise(l))
        return matrix(io->x[0], n, columns, columns);
    CUDA_NOTE(io->on, "windows", kernel_windows(band, io->x[0], io->work));
    return matrix(io->work, n, columns, columns);
}

/* Rows of y or dy that the band's windows make. */
static struct gemm_operand made(const struct layer *l, const real *y,
                                const struct kernel_windows *band)
{
    return matrix(cuda_at(l, y, band->first * band->across * l->out), band->rows * band->across,
                  l->out, l->out);
}

static struct gemm_operand cuda_convolution_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->half ? io->half : io->parameter, l->out, layer_window_numbers(l),
                  layer_window_numbers(l));
}

static void cuda_convolution_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_windows all = cuda_convolution_windows(l, io);
    for (struct kernel_windows band = {0}; cuda_convolution_next_band(l, &all, &band);) {
        const struct gemm_operand x = written(l, io, &band), y = made(l, io->y, &band);
        const struct cuda_gemm g = {.g = product(1, x, transposed(cuda_convolution_weight(l, io)),
                                                 (real *)(uintptr_t)y.data, l->out),
                                    .in = cuda_type(l),
                                    .out = cuda_type(l)};
        cuda_gemm(io->on, "convolution", &g);
    }
    if (l->bias)
        CUDA_NOTE(io->on, "convolution",
                  kernel_bias(cuda_type(l), io->y, io->parameter + l->part[0].n,
                              io->batch * l->tokens, l->out, l->out));
}

/* d_windows = dy weight in fp32; a number that several windows have gets their sum, which is
 * rounded once a band. */
static void cuda_convolution_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_windows all = cuda_convolution_windows(l, io);
    bool pointwise = layer_is_pointwise(l);
    if (!pointwise)
        backend_cuda.zero(io->on, io->dx[0], layer_room(l, io->batch * l->input) * sizeof(real));
    for (struct kernel_windows band = {0}; cuda_convolution_next_band(l, &all, &band);) {
        const struct cuda_gemm g = {
            .g = product(1, made(l, io->dy, &band), cuda_convolution_weight(l, io),
                         pointwise ? io->dx[0] : io->work, layer_window_numbers(l)),
            .in = cuda_type(l),
            .out = pointwise ? cuda_type(l) : KERNEL_FP32};
        cuda_gemm(io->on, "convolution backward", &g);
        if (!pointwise)
            CUDA_NOTE(io->on, "windows back", kernel_windows_back(&band, io->work, io->dx[0]));
    }
}

static void cuda_convolution_backward_weight(const struct layer *l, struct layer_io *io)
{
    const struct kernel_windows all = cuda_convolution_windows(l, io);
    for (struct kernel_windows band = {0}; cuda_convolution_next_band(l, &all, &band);) {
        const struct gemm_operand x = written(l, io, &band), dy = made(l, io->dy, &band);
        const struct cuda_gemm g = {
            .g = product_added(transposed(dy), x, io->d_parameter, layer_window_numbers(l)),
            .in = cuda_type(l)};
        cuda_gemm(io->on, "convolution weight", &g);
    }
    if (l->bias)
        CUDA_NOTE(io->on, "convolution bias",
                  kernel_columns(cuda_type(l), io->d_parameter + l->part[0].n, io->dy,
                                 io->batch * l->tokens, l->out, l->out, io->work,
                                 cuda_tickets(io)));
}

const struct layer_kind cuda_convolution = {.type = OPERATOR_convolution,
                                            .inputs = 1,
                                            .forward = cuda_convolution_forward,
                                            .backward = cuda_convolution_backward,
                                            .backward_weight = cuda_convolution_backward_weight,
                                            .sizes = cuda_convolution_sizes};

/* ---- pool, upsample */

static void cuda_pool_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_windows w = cuda_convolution_windows(l, io);
    CUDA_NOTE(io->on, "pool", kernel_pool(&w, l->average, io->x[0], io->y));
}

static void cuda_pool_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_windows w = cuda_convolution_windows(l, io);
    CUDA_NOTE(io->on, "pool backward",
              kernel_pool_backward(&w, l->average, io->x[0], io->dy, io->dx[0]));
}

const struct layer_kind cuda_pool = {.type = OPERATOR_pool,
                                     .inputs = 1,
                                     .forward = cuda_pool_forward,
                                     .backward = cuda_pool_backward};

static void cuda_upsample_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "upsample",
              kernel_upsample(cuda_type(l), io->y, io->x[0], io->batch * l->window_of.height,
                              l->window_of.width, l->in));
}

static void cuda_upsample_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "upsample backward",
              kernel_upsample_backward(cuda_type(l), io->dx[0], io->dy,
                                       io->batch * l->window_of.height, l->window_of.width, l->in));
}

const struct layer_kind cuda_upsample = {.type = OPERATOR_upsample,
                                         .inputs = 1,
                                         .forward = cuda_upsample_forward,
                                         .backward = cuda_upsample_backward,
                                         .forgets = true};

/* ---- batchnorm, groupnorm, affine */

/* Channels that have a mean in common. */
static size_t wide_of(const struct layer *l)
{
    return l->groups > 0 ? l->in / l->groups : 1;
}

/* Two numbers of a set from the forward, two from the backward. Batchnorm has so many sets for the
 * whole microbatch, and room for those of every sample. */
static void cuda_moments_sizes(struct layer *l)
{
    l->saved = 4 * (l->in / wide_of(l));
    l->work = size_times(2 * COLUMN_PARTS, l->in);
}

static void cuda_affine_sizes(struct layer *l)
{
    l->work = size_times(2 * COLUMN_PARTS, l->in);
}

static struct kernel_moments moments_of(const struct layer *l, const struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    return (struct kernel_moments){.type = cuda_type(l),
                                   .rows = rows,
                                   .channels = l->in,
                                   .span = l->groups > 0 ? l->tokens : rows,
                                   .wide = wide_of(l),
                                   .x = io->x[0],
                                   .parameter = io->parameter,
                                   .moments = l->saved > 0 ? io->saved : NULL};
}

static void cuda_moments_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_moments m = moments_of(l, io);
    CUDA_NOTE(io->on, "norm of positions", kernel_moments(&m, io->y));
}

static void cuda_moments_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_moments m = moments_of(l, io);
    CUDA_NOTE(io->on, "norm of positions backward",
              kernel_moments_backward(&m, io->dy, io->dx[0], io->d_parameter, io->work,
                                      cuda_tickets(io)));
}

const struct layer_kind cuda_batchnorm = {.type = OPERATOR_batchnorm,
                                          .inputs = 1,
                                          .forward = cuda_moments_forward,
                                          .backward = cuda_moments_backward,
                                          .sizes = cuda_moments_sizes};
const struct layer_kind cuda_groupnorm = {.type = OPERATOR_groupnorm,
                                          .inputs = 1,
                                          .forward = cuda_moments_forward,
                                          .backward = cuda_moments_backward,
                                          .sizes = cuda_moments_sizes};
const struct layer_kind cuda_affine = {.type = OPERATOR_affine,
                                       .inputs = 1,
                                       .forward = cuda_moments_forward,
                                       .backward = cuda_moments_backward,
                                       .sizes = cuda_affine_sizes};
