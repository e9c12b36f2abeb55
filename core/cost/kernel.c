/* Closed forms for the time of a kernel, and what data sheets say of a device's kernels. The smooth
 * efficiency of products and all constants: docs/reference/kernels.md, which says what each was
 * fitted on. */
#include "core/cost/kernel.h"

#include <math.h>

#include "core/data/topology.h"
#include "core/strategy/constants.h"

static const double narrow_penalty =
    1.2; /* operands of 8 and 4 bits need larger products for the same */
static const double head_penalty = 0.8; /* attention with heads of fewer than 128 channels */
static const double pass_launch =
    0.6; /* of the shortest kernel: passes follow one another closely */

/* Where no product has been measured, and of the types beside the measured one: share of the peak.
 * H100: 0.71 of fp8, 0.81 of fp32; B200 0.76, 0.72 of fp4; A100 0.96 of fp32
 * (docs/reference/kernels.md). */
static const double derived_4 = 0.68, derived_8 = 0.72, derived_32 = 0.85;

/* Attention: by what tensor cores the device has. */
static void derive_flash(const struct device_type *type, const struct constants *c,
                         struct device_kernels *k)
{
    bool blackwell = type->peak[DATA_fp4] > 0, hopper = type->peak[DATA_fp8] > 0;
    const double *v = c->value;
    k->flash[FLASH_2] = v[blackwell ? CONSTANT_flash_blackwell
                          : hopper  ? CONSTANT_flash_hopper
                                    : CONSTANT_flash_ampere];
    k->flash[FLASH_VENDOR] = v[blackwell ? CONSTANT_flash_blackwell
                               : hopper  ? CONSTANT_flash_vendor
                                         : CONSTANT_flash_ampere];
    k->flash[FLASH_1] = v[CONSTANT_flash_first] * k->flash[FLASH_2];
    k->flash_backward = v[CONSTANT_flash_backward];
}

struct device_kernels kernels_derive(const struct device_type *type)
{
    const struct constants shipped = constants_shipped();
    double half = type->peak[DATA_bf16], full = type->peak[DATA_fp32], eight = type->peak[DATA_fp8];
    struct device_kernels k = {
        .rows = 95, .depth = 55, .memory = 0.88, .shortest_s = 8e-6, .flash_tokens = 900};
    if (half <= 0 && full <= 0)
        return (struct device_kernels){0};
    k.product[DATA_fp32] = half > 0 ? derived_32 * full : type->flops;
    k.product[DATA_fp16] = k.product[DATA_bf16] = half > 0 ? type->flops : 0;
    k.product[DATA_tf32] = half > 0 ? type->flops / half * type->peak[DATA_tf32] : 0;
    k.product[DATA_fp8] = derived_8 * eight;
    k.product[DATA_fp4] = derived_4 * type->peak[DATA_fp4];
    derive_flash(type, &shipped, &k);
    return k;
}

/* Of the best product measured, what products inside of a training step get: the clock is lower
 * under load, and operands come out of the memory instead of the cache. */
static enum constant kernel_rate_share(enum data_type dtype)
{
    return dtype == DATA_fp32  ? CONSTANT_share_32
           : dtype == DATA_fp8 ? CONSTANT_share_8
           : dtype == DATA_fp4 ? CONSTANT_share_4
                               : CONSTANT_share_16;
}

struct device_kernels kernels_vary(const struct device_type *type, enum data_type dtype,
                                   const struct constants *c)
{
    const struct constants shipped = constants_shipped();
    struct device_kernels k = type->kernels, now = k, then = k;
    const enum data_type used[] = {dtype, data_type_beside(dtype)};
    derive_flash(type, &shipped, &now);
    derive_flash(type, c, &then);
    for (int i = 0; i < FLASH_KINDS; i++)
        k.flash[i] *= then.flash[i] / now.flash[i];
    k.flash_backward *= then.flash_backward / now.flash_backward;
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        enum constant share = kernel_rate_share(used[i]);
        double best = type->kernels.product[used[i]];
        k.product[used[i]] = (best > 0 ? best : device_flops(type, used[i])) * c->value[share] /
                             shipped.value[share];
    }
    return k;
}

double kernel_product_bytes(const struct kernel *k)
{
    double operand = (double)data_type_operand(k->dtype), kept = (double)data_type_bytes(k->dtype);
    if (k->dtype == DATA_ANY)
        operand = kept = 2;
    if (k->dtype == DATA_fp4)
        operand = 0.6; /* with its scaling */
    return k->batch * (operand * (k->m * k->k + k->k * k->n) + kept * k->m * k->n);
}

/* Seconds for bytes at what long passes get of the bandwidth. */
static double memory_s(const struct device_type *type, double bytes)
{
    return bytes / (type->memory_Bps * type->kernels.memory);
}

/* Tensor cores read rows of 16 bytes: products whose rows are no multiple get a part of their
 * speed; in batches the libraries take kernels without tensor cores. Shares:
 * docs/reference/kernels.md. */
static const double unaligned = 0.5, unaligned_batches = 0.7;

static bool product_is_aligned(const struct kernel *k)
{
    double row = 16.0 / (double)(k->dtype == DATA_ANY ? 2 : data_type_operand(k->dtype));
    bool wide = k->dtype == DATA_fp32 || k->dtype == DATA_tf32 || k->dtype == DATA_fp4;
    return wide || (fmod(k->n, row) < 0.5 && fmod(k->k, row) < 0.5);
}

/* FLOP/s of large products of such a shape. */
static double product_flops(const struct device_type *type, const struct kernel *k)
{
    double best = type->kernels.product[k->dtype];
    double flops = constant_rows[kernel_rate_share(k->dtype)].shipped *
                   (best > 0 ? best : device_flops(type, k->dtype));
    if (k->kind != KERNEL_PRODUCT || product_is_aligned(k))
        return flops;
    double plain = unaligned_batches * type->peak[DATA_fp32];
    return k->batch > 1 && plain > 0 ? fmin(flops, plain) : unaligned * flops;
}

/* Rows and columns of the tiles of the result that the vendors' libraries have: a multiprocessor
 * ("unit") makes one at a time. A product with fewer tiles than units splits its depth into up to
 * most_splits parts, whose sums are written and read again. */
static const double tiles[][2] = {{64, 64}, {128, 128}, {128, 256}, {256, 128}};
static const double largest_tile = 1.0 / 128 + 1.0 / 256; /* rows and columns, inverse */
static const double most_splits = 8, partial_bytes = 8;   /* of a number */

/* A product on units that make a tile each: the fastest tile and split, of
 *     waves  max(1, tiles/units), and of what is missing to whole ones the share `wave`
 *     pace   a tile's steps in depth follow one another, however few there are of them
 * Computing, moving and that pace hide one another but for the sum of their cubes. */
static double product_tiled_s(const struct device_type *type, const struct kernel *k, double bytes)
{
    const struct device_kernels *d = &type->kernels;
    double narrow = data_type_narrow(k->dtype) ? narrow_penalty : 1, least = INFINITY;
    double each = product_flops(type, k) / d->units, pace = d->pace_s * k->k;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        double m = tiles[i][0], n = tiles[i][1];
        double full = k->batch * ceil(k->m / m) * ceil(k->n / n) / d->units;
        double slower =
            (1 + narrow * d->rows * (1 / m + 1 / n)) / (1 + narrow * d->rows * largest_tile);
        for (double s = 1; s <= most_splits && (s < 2 || full * s <= most_splits); s *= 2) {
            double waves = fmax(1, full * s);
            waves += d->wave * (ceil(waves) - waves);
            double compute = waves * 2 * m * n * (k->k / s + narrow * d->depth) * slower / each;
            double more = s > 1 ? s * partial_bytes * k->batch * k->m * k->n : 0;
            double moved = memory_s(type, (bytes + more) * (bytes / (bytes + d->cache)));
            least = fmin(least, compute * compute * compute + moved * moved * moved);
        }
    }
    return cbrt(least + pace * pace * pace);
}

static double product_s(const struct device_type *type, const struct kernel *k)
{
    const struct device_kernels *d = &type->kernels;
    if (d->units > 0)
        return product_tiled_s(type, k, k->bytes > 0 ? k->bytes : kernel_product_bytes(k));
    double narrow = data_type_narrow(k->dtype) ? narrow_penalty : 1;
    double slower = 1 + narrow * (d->rows / k->m + d->rows / k->n + d->depth / k->k);
    double flop = 2 * k->batch * k->m * k->n * k->k;
    double bytes = k->bytes > 0 ? k->bytes : kernel_product_bytes(k);
    return fmax(flop * slower / product_flops(type, k), memory_s(type, bytes));
}

static double flash_narrow(const struct device_kernels *d)
{
    return d->flash_narrow > 0 ? d->flash_narrow : head_penalty;
}

static double attention_s(const struct device_type *type, const struct kernel *k)
{
    const struct device_kernels *d = &type->kernels;
    double nominal = type->peak[DATA_bf16] > 0 ? type->peak[DATA_bf16] : type->flops;
    double share = d->flash[k->flash] * (k->backward ? d->flash_backward : 1);
    double slower = (1 + d->flash_tokens / k->tokens) / (k->k < 128 ? flash_narrow(d) : 1);
    return fmax(k->flop * slower / (nominal * share), memory_s(type, k->bytes));
}

static double pass_s(const struct device_type *type, const struct kernel *k)
{
    return fmax(k->flop / product_flops(type, k), memory_s(type, k->bytes));
}

double kernel_seconds(const struct device_type *type, const struct kernel *k)
{
    double start = k->launches * type->kernels.shortest_s;
    switch (k->kind) {
    case KERNEL_PRODUCT:
        return start + product_s(type, k);
    case KERNEL_ATTENTION:
        return start + attention_s(type, k);
    default:
        return pass_launch * start + pass_s(type, k);
    }
}
