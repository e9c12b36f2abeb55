/* Host memory, computed on by the calling thread. */
#include "exec/device/backend.h"

#include <stdlib.h>
#include <unistd.h>

#include "exec/device/cpu/half.h"
#include "exec/device/cpu/vector.h"

static void *cpu_allocate(void *self, size_t bytes)
{
    (void)self;
    return calloc(bytes > 0 ? bytes : 1, 1);
}

static void cpu_release(void *self, void *data)
{
    (void)self;
    free(data);
}

static double cpu_memory_bytes(void *self)
{
    (void)self;
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static void cpu_copy(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
}

static void cpu_zero(void *self, void *data, size_t bytes)
{
    (void)self;
    memset(data, 0, bytes);
}

VECTOR_CLONES static void cpu_add(void *self, real *y, const real *x, size_t n)
{
    (void)self;
    vector_add(y, x, n);
}

/* Of bf16 in a loop of nothing else, which are shifts. */
VECTOR_CLONES static void cpu_narrow(void *self, enum element e, void *y, const real *x, size_t n)
{
    uint16_t *to = y;
    (void)self;
    if (e == ELEMENT_BF16)
        for (size_t i = 0; i < n; i++)
            to[i] = element_narrow((float)x[i]);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = element_narrow_fp16((float)x[i]);
}

VECTOR_CLONES static void cpu_widen(void *self, enum element e, real *y, const void *x, size_t n)
{
    const uint16_t *from = x;
    (void)self;
    if (e == ELEMENT_BF16)
        for (size_t i = 0; i < n; i++)
            y[i] = element_widen(from[i]);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = element_widen_fp16(from[i]);
}

static void add_half(void *self, enum element e, void *y, const void *x, size_t n)
{
    (void)self;
    element_add(e, y, x, n);
}

VECTOR_CLONES static void cpu_sgd(const struct optimizer_step *o)
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
VECTOR_CLONES static void cpu_adam(const struct optimizer_step *o)
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

static void cpu_update(void *self, const struct optimizer_step *o)
{
    (void)self;
    if (o->square)
        cpu_adam(o);
    else
        cpu_sgd(o);
}

const struct backend backend_cpu = {
    .adapt = half_adapt,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .memory_bytes = cpu_memory_bytes,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .add = cpu_add,
    .update = cpu_update,
    .narrow = cpu_narrow,
    .widen = cpu_widen,
    .add_half = add_half,
};
