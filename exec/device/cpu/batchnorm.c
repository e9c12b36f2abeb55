/* Batch normalisation: y = (x - mean) rstd * weight + bias, where mean and rstd = 1 / sqrt(variance
 * + 1e-5) are those of a channel over all positions of all samples of the microbatch. Ioffe &
 * Szegedy, ICML 2015. Running means of these move by `momentum` in each forward of a training, as
 * torch.nn.BatchNorm2d's do (the variance by the unbiased one), and take their place where nothing
 * is trained. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

static const double momentum = 0.1, epsilon = 1e-5;

/* What there is room for in `work`, [C] each. */
enum { MEAN, RSTD, SUM, PRODUCT, PART, VECTORS };

/* x, y (B, P, C); weight [C] from 1, bias [C] from 0; work [VECTORS C]. Means and deviations are
 * made again in the backward, which costs two passes over x and saves their memory. */
static enum status batchnorm_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "positions", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    l->out = l->in;
    l->input = l->output = size_times(l->tokens, l->in);
    l->part[0] = (struct layer_part){.n = l->in, .fill = FILL_ONE};
    l->part[1] = (struct layer_part){.n = l->in, .fill = FILL_ZERO};
    l->work = size_times(VECTORS, l->in);
    l->running = size_times(2, l->in);
    return STATUS_OK;
}

static real *vector_of(const struct layer *l, const struct layer_io *io, int which)
{
    return io->work + (size_t)which * l->in;
}

/* sum [C] = column sums of (a - less)(b - mean), without `less` of a (b - mean), without b of a
 * alone; a, b (B P, C), less, mean [C]. First over the rows of each sample: rounding errors grow
 * with P + B. */
static void batchnorm_column_sums(const struct layer *l, const struct layer_io *io, const real *a,
                                  const real *less, const real *b, const real *mean, real *sum)
{
    real *part = vector_of(l, io, PART);
    memset(sum, 0, l->in * sizeof *sum);
    for (size_t row = 0; row < io->batch * l->tokens; row++, a += l->in) {
        if (row % l->tokens == 0)
            memset(part, 0, l->in * sizeof *part);
        for (size_t c = 0; c < l->in; c++) {
            real x = less ? a[c] - less[c] : a[c];
            part[c] += b ? x * (b[row * l->in + c] - mean[c]) : x;
        }
        if ((row + 1) % l->tokens == 0)
            vector_add(sum, part, l->in);
    }
}

/* The variance is the biased one, around the mean, as in PyTorch; the running one moves by the
 * unbiased one. running [2 C]: NULL: they do not move. */
static void batchnorm_find_moments(const struct layer *l, const struct layer_io *io, real *running)
{
    real *mean = vector_of(l, io, MEAN), *rstd = vector_of(l, io, RSTD);
    real n = (real)(io->batch * l->tokens);
    const real *x = io->x[0];
    batchnorm_column_sums(l, io, x, NULL, NULL, NULL, mean);
    for (size_t c = 0; c < l->in; c++)
        mean[c] /= n;
    batchnorm_column_sums(l, io, x, mean, x, mean, rstd);
    for (size_t c = 0; c < l->in; c++) {
        double variance = (double)(rstd[c] / n), unbiased = n > 1 ? (double)(rstd[c] / (n - 1)) : 0;
        rstd[c] = (real)(1.0 / sqrt(variance + epsilon));
        if (!running)
            continue;
        running[c] += (real)(momentum * (double)(mean[c] - running[c]));
        running[l->in + c] += (real)(momentum * (unbiased - (double)running[l->in + c]));
    }
}

static void use_running(const struct layer *l, const struct layer_io *io)
{
    real *mean = vector_of(l, io, MEAN), *rstd = vector_of(l, io, RSTD);
    for (size_t c = 0; c < l->in; c++) {
        mean[c] = io->running[c];
        rstd[c] = (real)(1 / sqrt((double)io->running[l->in + c] + epsilon));
    }
}

static void batchnorm_forward(const struct layer *l, struct layer_io *io)
{
    const real *mean = vector_of(l, io, MEAN), *rstd = vector_of(l, io, RSTD);
    const real *weight = io->parameter, *bias = weight + l->in;
    if (io->running && io->evaluates)
        use_running(l, io);
    else
        batchnorm_find_moments(l, io, io->again ? NULL : io->running);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t c = 0; c < l->in; c++) {
            size_t at = row * l->in + c;
            io->y[at] = (io->x[0][at] - mean[c]) * rstd[c] * weight[c] + bias[c];
        }
}

/* With n = (x - mean) rstd, means over the N = B P rows:
 *     dx = weight rstd (dy - mean(dy) - n mean(dy n)),  d_weight = sum of dy n,  d_bias = sum of
 *                                                       dy. */
static void batchnorm_backward(const struct layer *l, struct layer_io *io)
{
    const real *mean = vector_of(l, io, MEAN), *rstd = vector_of(l, io, RSTD);
    real *sum = vector_of(l, io, SUM), *product = vector_of(l, io, PRODUCT);
    real n = (real)(io->batch * l->tokens);
    batchnorm_find_moments(l, io, NULL);
    batchnorm_column_sums(l, io, io->dy, NULL, NULL, NULL, sum);
    batchnorm_column_sums(l, io, io->dy, NULL, io->x[0], mean, product);
    for (size_t c = 0; c < l->in; c++)
        product[c] *= rstd[c];
    vector_add(io->d_parameter, product, l->in);
    vector_add(io->d_parameter + l->in, sum, l->in);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t c = 0; c < l->in; c++) {
            size_t at = row * l->in + c;
            real normal = (io->x[0][at] - mean[c]) * rstd[c];
            io->dx[0][at] =
                io->parameter[c] * rstd[c] * (io->dy[at] - sum[c] / n - normal * product[c] / n);
        }
}

const struct layer_kind kind_batchnorm = {.type = OPERATOR_batchnorm,
                                          .inputs = 1,
                                          .shape = batchnorm_shape,
                                          .forward = batchnorm_forward,
                                          .backward = batchnorm_backward,
                                          .mixes = true};
