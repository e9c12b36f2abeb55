/* Host memory, computed on by the calling thread. */
#include "exec/device/backend.h"

#include <stdlib.h>
#include <unistd.h>

#include "exec/device/cpu/half.h"
#include "exec/device/cpu/vector.h"

static void *allocate(void *self, size_t bytes)
{
    (void)self;
    return calloc(bytes > 0 ? bytes : 1, 1);
}

static void release(void *self, void *data)
{
    (void)self;
    free(data);
}

static double memory_bytes(void *self)
{
    (void)self;
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static void copy(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
}

static void zero(void *self, void *data, size_t bytes)
{
    (void)self;
    memset(data, 0, bytes);
}

static void add(void *self, real *y, const real *x, size_t n)
{
    (void)self;
    vector_add(y, x, n);
}

static void narrow(void *self, void *y, const real *x, size_t n)
{
    uint16_t *to = y;
    (void)self;
    for (size_t i = 0; i < n; i++)
        to[i] = element_narrow((float)x[i]);
}

static void widen(void *self, real *y, const void *x, size_t n)
{
    const uint16_t *from = x;
    (void)self;
    for (size_t i = 0; i < n; i++)
        y[i] = element_widen(from[i]);
}

static void add_half(void *self, void *y, const void *x, size_t n)
{
    (void)self;
    element_add(ELEMENT_BF16, y, x, n);
}

static void narrow_fp16(void *self, void *y, const real *x, size_t n)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        element_put(ELEMENT_FP16, y, i, (float)x[i]);
}

static void widen_fp16(void *self, real *y, const void *x, size_t n)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        y[i] = element_get(ELEMENT_FP16, x, i);
}

static void add_fp16(void *self, void *y, const void *x, size_t n)
{
    (void)self;
    element_add(ELEMENT_FP16, y, x, n);
}

static void sgd(const struct optimizer_step *o)
{
    for (size_t i = 0; i < o->n; i++) {
        real gradient = o->scale * o->gradient[i];
        if (o->decay > 0)
            gradient += o->decay * o->parameter[i];
        if (o->moment) {
            o->moment[i] = o->momentum * o->moment[i] + gradient;
            gradient = o->nesterov ? gradient + o->momentum * o->moment[i] : o->moment[i];
        }
        o->parameter[i] -= o->rate * gradient;
    }
}

/* Equations in backend.h; parameters, gradients and both moments [n] are read once and, but for the
 * gradient, written once. */
static void adam(const struct optimizer_step *o)
{
    const real beta1 = (real)ADAM_BETA1, beta2 = (real)ADAM_BETA2, epsilon = (real)ADAM_EPSILON;
    const real rate = o->rate, unbias = o->unbias, scale = o->scale, decay = o->decay;
    real *restrict p = o->parameter;
    const real *restrict g = o->gradient;
    real *restrict moment = o->moment, *restrict square = o->square;
    for (size_t i = 0; i < o->n; i++) {
        const real gradient = scale * g[i];
        moment[i] = beta1 * moment[i] + (1 - beta1) * gradient;
        square[i] = beta2 * square[i] + (1 - beta2) * gradient * gradient;
        real root = sizeof(real) == sizeof(float) ? (real)sqrtf((float)square[i])
                                                  : (real)sqrt((double)square[i]);
        p[i] -= decay * p[i];
        p[i] -= rate * moment[i] / (root * unbias + epsilon);
    }
}

static void update(void *self, const struct optimizer_step *o)
{
    (void)self;
    if (o->square)
        adam(o);
    else
        sgd(o);
}

#define HOST                                                                                       \
    .allocate = allocate, .release = release, .memory_bytes = memory_bytes, .copy = copy,          \
    .zero = zero, .add = add, .update = update

const struct backend backend_cpu = {
    HOST,           .adapt = half_adapt_bf16, .half = ELEMENT_BF16, .narrow = narrow,
    .widen = widen, .add_half = add_half,
};
const struct backend backend_cpu_fp16 = {
    HOST,
    .adapt = half_adapt_fp16,
    .half = ELEMENT_FP16,
    .narrow = narrow_fp16,
    .widen = widen_fp16,
    .add_half = add_fp16,
};
