/* backend.h - the memory that a stage's tensors are in, and who computes on it.
 *
 * The logic of a stage (exec/device/cpu/stage.h) is written once; what differs between the host and
 * a GPU is behind this table: backend_cpu (exec/device/cpu/backend.c) and backend_cuda
 * (exec/device/cuda/context.h). Operations are queued in the order of the calls and may not have
 * happened when a call returns, except that host memory given to copy() can be used again. Failures
 * of a backend that only show later are kept by its owner, who looks after every op. */
#ifndef EXEC_DEVICE_BACKEND_H
#define EXEC_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "exec/device/layer.h"

/* One update of n parameters p with gradients g = scale * gradient; all arrays [n].
 *
 * Adam (Kingma & Ba, ICLR 2015, algorithm 1) when `square` is not NULL, with decoupled weight decay
 * (Loshchilov & Hutter, ICLR 2019, AdamW); t counts the updates from 1:
 *     p = p - decay p                                     decay = learning rate x weight decay
 *     moment = beta1 moment + (1 - beta1) g
 *     square = beta2 square + (1 - beta2) g^2
 *     p = p - rate moment / (sqrt(square) unbias + epsilon)
 * with rate = learning rate / (1 - beta1^t) and unbias = 1 / sqrt(1 - beta2^t).
 *
 * Else gradient descent, with momentum when `moment` is not NULL (Sutskever et al., ICML 2013, as
 * torch.optim.SGD has it):
 *     g = g + decay p                                     decay = weight decay
 *     moment = momentum moment + g
 *     p = p - rate d, d = g without momentum, moment, or, nesterov, g + momentum moment */
struct optimizer_step {
    size_t n;
    real *parameter, *gradient;
    real *moment, *square;
    real rate, unbias;
    real scale, decay, momentum;
    bool nesterov;
    const real *clipped; /* of the backend's clip(): g counts so much less; NULL: it does not */
    void *half;          /* backends with update_finishes: p in 16 bits as well, NULL: not, */
    enum element as;     /* which these are, */
    bool clears;         /* and the gradient is zero afterwards */
};

#define ADAM_BETA1   0.9
#define ADAM_BETA2   0.999
#define ADAM_EPSILON 1e-8

struct backend {
    bool remote; /* the CPU cannot read this memory */
    /* Make a layer of layer_shape() one of this backend's: kind, saved, work. STATUS_UNSUPPORTED
     * names the op, for which it has no kernels. NULL: it is one. */
    enum status (*adapt)(const struct model_op *op, struct layer *l) MUST_CHECK;
    /* A stage is about to allocate so many bytes in at most `pieces` pieces, all that it ever
     * needs. NULL: it allocates slots when it takes them. */
    enum status (*reserve)(void *self, size_t bytes, size_t pieces);
    /* Zeros; NULL if there is no memory. No such function: a stage finds its places and takes
     * none. */
    void *(*allocate)(void *self, size_t bytes);
    void (*release)(void *self, void *data); /* accepts NULL */
    /* Memory of the host that copies are made from without waiting. NULL: any is. */
    void *(*allocate_host)(void *self, size_t bytes); /* NULL if there is no memory */
    void (*release_host)(void *self, void *data);     /* accepts NULL */
    double (*memory_bytes)(void *self);               /* of the machine or card */
    /* Either side may be host memory; they do not overlap. */
    void (*copy)(void *self, void *to, const void *from, size_t bytes);
    void (*zero)(void *self, void *data, size_t bytes);
    void (*add)(void *self, real *y, const real *x, size_t n); /* y += x */
    void (*update)(void *self, const struct optimizer_step *o);
    bool update_finishes; /* knows optimizer_step.half and .clears */
    /* Where it leaves 1, or what n gradients are to be multiplied by, so that the norm of scale
     * times them is at most `most`. NULL: the stage reads them itself. */
    const real *(*clip)(void *self, const real *gradient, size_t n, double scale, double most);
    /* To 16 bits, to the nearest, and back; n numbers. */
    void (*narrow)(void *self, enum element e, void *y, const real *x, size_t n);
    void (*widen)(void *self, enum element e, real *y, const void *x, size_t n);
    /* y += x of activations in 16 bits (struct layer: half). */
    void (*add_half)(void *self, enum element e, void *y, const void *x, size_t n);
};

extern const struct backend backend_cpu; /* self: NULL */

/* Where arrays are: a backend and its state. */
struct memory {
    const struct backend *backend;
    void *self;
};

#endif
