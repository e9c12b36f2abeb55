/* device.h - what computes: one rank's stage on one kind of hardware. One folder or file per kind.
 *
 * A device holds parameters, gradients, optimizer state and the activations in flight of one stage.
 * Everything is in terms of one stage and one microbatch; boundary tensors come and go as packed
 * messages: the outputs of crossing_ops(from, to) one after the other in ascending op order, each
 * microbatch_size x output_bytes; gradients in the same layout.
 * Calls on one device come from one thread. */
#ifndef EXEC_DEVICE_H
#define EXEC_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/digest.h"
#include "core/error.h"
#include "core/model.h"
#include "core/program.h"

struct corpus;

struct device_options {
    const struct corpus *corpus; /* where tokens come from; NULL: the text shipped with foreline */
    double learning_rate;
};

struct device {
    const char *name; /* "cpu", "paced", "cuda" */
    /* Does this device have numerics for the op? NULL: for every op. */
    bool (*computes)(const struct model_op *op);
    /* Model and program stay alive until close(). `rank` gives stage and replica. */
    enum status (*open)(const struct model *m, const struct program *p, uint32_t rank,
                        const struct device_options *o, void **self);
    void (*close)(void *self); /* accepts NULL */

    /* step: 0, 1, ... (selects the data). Inputs from other stages must have been put. */
    enum status (*forward)(void *self, uint32_t step, uint32_t microbatch, double seconds);
    enum status (*backward)(void *self, uint32_t step, uint32_t microbatch, double seconds);
    /* `seconds` is the op's predicted time: what a paced device takes, ignored by the others.
     * Optimizer step; gradients are zero afterwards. */
    enum status (*update)(void *self, uint32_t step, double seconds);

    /* Boundary messages. get: fill `data` (bytes as in the SEND op) with what stage `to` needs
     * of this microbatch (outputs, or with `backward` gradients); put: the other side. */
    enum status (*get)(void *self, uint32_t to, uint32_t microbatch, bool backward, void *data);
    enum status (*put)(void *self, uint32_t from, uint32_t microbatch, bool backward,
                       const void *data);

    /* Gradients to be summed over a group: all of the stage's (shared == MODEL_NO_OP), or those of
     * the tied weights owned by op `shared`. One contiguous array of *n floats, owned by the
     * device, to be summed in place before update(). */
    enum status (*gradients)(void *self, uint32_t shared, float **data, size_t *n);

    /* Sum of the losses of this step's microbatches on this rank, already weighted so that the sum
     * over all ranks is the mean loss of the step; 0 where there is no loss op. Resets. */
    double (*take_loss)(void *self);
    /* SHA-256 of the parameters of one op of the stage (zeros for ops without). */
    enum status (*digest)(void *self, uint32_t op, uint8_t digest[DIGEST]);
    int64_t (*peak_bytes)(void *self); /* allocated at most so far */
};

extern const struct device device_cpu, device_paced;

#endif
