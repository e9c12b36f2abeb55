/* device.h - what computes: one rank's stages on one kind of hardware. One folder or file per kind:
 *
 *   device/cpu/       the layers' numerics on the host, and the stage logic for all memories
 *   device/cuda/      the same stages in a GPU's memory, layers as kernels
 *   device/paced.c    predicted times instead of numerics; device/cuda/paced.c on a GPU
 *
 * A device holds parameters, gradients, optimizer state and the activations in flight of the stages
 * of one rank, and is given the ops of the rank's list. Boundary tensors come and go as packed
 * messages: the outputs of crossing_ops(from, to) one after the other in ascending op order, each
 * microbatch_size x output_bytes; gradients in the same layout.
 * Calls on one device come from one thread. */
#ifndef EXEC_DEVICE_H
#define EXEC_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/element.h"
#include "exec/ring.h"

struct corpus;
struct hardware;
struct learning_rate;
struct layer_reduction;
struct layer_routing;

struct device_options {
    const struct corpus *corpus; /* where tokens come from; NULL: the text shipped with foreline */
    double learning_rate;
    const struct learning_rate *policy; /* how it changes from step to step; NULL: it does not */
    bool graphs; /* passes are CUDA graphs: exec/device/cuda/graphs.h; no other device has any */
    bool cudnn;  /* attention by cuDNN where it can: exec/device/cuda/attention_cudnn.h; likewise */
    bool direct; /* messages and sums are in the device's memory (transport.h), not the host's */
    /* What a member owns of what is scattered: the transport's part(). NULL: ring_own(). */
    struct ring_part (*part)(size_t n, size_t members, size_t me);
};

/* An array that later steps depend on. */
enum device_state_kind {
    STATE_PARAMETERS,
    STATE_MOMENTS,
    STATE_SQUARES,
    STATE_UPDATES,
    STATE_OWNED,  /* own part of the parameters, where all of them are there but rounded */
    STATE_RUNNING /* running means and variances of batch normalisation */
};
struct device_state {
    uint32_t stage, kind; /* enum device_state_kind */
    size_t bytes;
};

struct device {
    const char *name; /* "cpu", "paced", "cuda", "paced-cuda" */
    /* What computes programs whose stage is `stepped` in this one's place; NULL: it does so itself,
     * unless it `computes` only some ops: then nothing does. */
    const struct device *stepped;
    /* Does this device have numerics for op `op` of the model? If not, error_message() says why.
     * NULL: for every op. */
    bool (*computes)(const struct model *m, uint32_t op);
    /* What the rank will compute on (exec/hardware.h), before anything is opened: the launcher
     * shows it, and refuses two ranks on one GPU. STATUS_UNSUPPORTED, in one line, when it cannot
     * be used. NULL: nothing to say. */
    enum status (*describe)(uint32_t rank, struct hardware *out);
    /* Would open() take the rank, if it had the memory? It says why not, as open() does. NULL: not
     * known. */
    enum status (*check)(const struct model *m, const struct program *p, uint32_t rank);
    /* Model and program stay alive until close(). The rank's list says which stages it has. */
    enum status (*open)(const struct model *m, const struct program *p, uint32_t rank,
                        const struct device_options *o, void **self);
    void (*close)(void *self); /* accepts NULL */
    /* What became of what was asked for, in a line, once it is open; "": nothing to say. NULL:
     * never. */
    const char *(*remark)(void *self);

    /* A compute op; step: 0, 1, ... (selects the data). Inputs from other stages must have been
     * put. op->seconds is the predicted time: what a paced device takes, ignored by the others.
     *   BACKWARD_INPUT makes the gradients that are sent on, BACKWARD_WEIGHT later the others;
     *   UPDATE: optimizer step of op->stage; its gradients are zero afterwards.
     * `reduction` (exec/device/layer.h) is what a device calls in the middle of an op for the sums
     * of tensor parallelism and for exchanges of experts and of shared sequences; array() then has
     * nothing for the program's op of them. Not NULL. May return before the op is complete if there
     * is finish(). */
    enum status (*compute)(void *self, uint32_t step, const struct program_op *op,
                           const struct layer_reduction *reduction);

    /* Wait until all compute ops so far are complete, and then say when each of the step ran
     * (CLOCK_MONOTONIC), and how many of these seconds were reductions inside it. NULL: when
     * compute() did. */
    enum status (*finish)(void *self);
    void (*times)(void *self, const struct program_op *op, double *start_s, double *end_s,
                  double *sums_s);
    /* How many of these were of rows that shards have gathered or scattered so (enum layer_move).
     * NULL: none. */
    double (*moved)(void *self, const struct program_op *op, int how);
    /* What those times count from, for a transport whose times are the device's (struct rendezvous:
     * clock). NULL: CLOCK_MONOTONIC itself. */
    void *(*clock)(void *self);

    /* Boundary messages. get: fill `data` (op->bytes) with what a SEND carries; put: the payload of
     * a RECV. */
    enum status (*get)(void *self, const struct program_op *send, void *data);
    enum status (*put)(void *self, const struct program_op *recv, const void *data);

    /* The arrays that collective `op` works on in place, one after the other: number k = 0, 1, ...;
     * *data NULL: there is no number k. Owned by the device, complete when collected() is called.
     *   ALLREDUCE, REDUCESCATTER: gradients of the op's stage, of the bucket whose BACKWARD was
     *   computed last, or (tag != PROGRAM_NONE) those of the tied weights that op `tag` owns;
     *   ALLGATHER: parameters, of which this rank's part (struct device_options) is filled; with
     *   ZeRO 3 those of bucket op->part - 1. */
    enum status (*array)(void *self, const struct program_op *op, uint32_t k, enum element *e,
                         void **data, size_t *n);
    enum status (*collected)(void *self, const struct program_op *op); /* NULL: of no interest */
    /* ZeRO 3, after the last step: the parameters of the op's bucket have been collected for
     * digest(), for the last time. NULL: of no interest. */
    enum status (*gathered)(void *self, const struct program_op *op);

    /* Sum of the losses of this step's microbatches on this rank, already weighted so that the sum
     * over all ranks is the mean loss of the step; 0 where there is no loss op. Resets. */
    double (*take_loss)(void *self);
    /* Likewise what part of the targets has the largest logit of its row, and is among the five
     * largest; NAN: not known. Resets. NULL: never known. */
    void (*take_hits)(void *self, double out[2]);
    /* SHA-256 of the parameters of one op of the rank's stages (zeros for ops without). */
    enum status (*digest)(void *self, uint32_t op, uint8_t digest[DIGEST]);
    int64_t (*peak_bytes)(void *self); /* allocated at most so far */
    /* Where the tokens of experts' op `op` of the model have gone since open(); NULL: it is not one
     * of the rank's, or this device has no experts. Borrowed; *experts: how many there are. */
    const struct layer_routing *(*routing)(void *self, uint32_t op, size_t *experts);

    /* What a checkpoint keeps between two steps: arrays 0, 1, ... of this rank, the same ones in
     * every run of the plan; false behind the last one. save, load: the bytes of one to and from
     * host memory. All three NULL: a device without memory of the past. */
    bool (*state)(void *self, size_t index, struct device_state *out);
    enum status (*save)(void *self, size_t index, void *data);
    enum status (*load)(void *self, size_t index, const void *data);
};

extern const struct device device_cpu, device_paced;
extern const struct device device_sharded;                 /* device_cpu.stepped */
extern const struct device device_cuda, device_cuda_paced; /* in exec_cuda only */

#endif
