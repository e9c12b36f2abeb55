/* stage.h - one pipeline stage: its ops, parameters, and microbatches in flight, in the memory of
 * any backend (exec/device/backend.h).
 *
 *   open.c     model and program become ops, tensors and links to other stages
 *   layout.c   offsets of all of them, the memory, the start values; layout_slot.c: of slots,
 *              layout_gradient.c: of gradients
 *   slot.c     microbatches in flight, messages in and out
 *   stage.c    forward, backward, backward in two halves or by buckets
 *   sequence.c rows that shards divide (sequence parallelism)
 *   share.c    what replicas share: ZeRO, versions, updates; sums.c: arrays of collectives
 *   state.c    what a checkpoint keeps
 *   device.c   the stages of one rank as a struct device
 *   backend.c  host memory; kinds.c, NAME.c: layers (exec/device/layer.h); gemm.c: products
 *
 * Tensors of a microbatch are the outputs of the stage's own ops and those received from other
 * stages. They live in one slot per microbatch in flight, taken at the first put() or forward() and
 * given back after backward() (both halves), when the gradients of the received tensors have been
 * fetched; slots are reused, so there are as many as the schedule needs.
 *
 * A rank may hold only a shard of the ops (tensor parallelism: layer.h), only a part of optimizer
 * state, gradients and parameters (ZeRO 1, 2, 3: share.c; then gradients and parameters of two
 * buckets are there as a whole, in memory that the stages of the rank share), and forget
 * activations that it recomputes in the backward (they are in `pass.recomputed`, not in slots).
 * Without flush (PipeDream) a microbatch's backward uses the parameters that its forward has used.
 *
 * Bit for bit the same parameters, however the model is cut into stages:
 *   - start values depend on (seed, op), data on (seed, step, microbatch), not on the rank;
 *   - a layer sees the same shapes whatever else is in its stage;
 *   - gradients of parameters grow by one microbatch at a time, in the order of backward() calls;
 *   - the gradient of a tensor is the sum over its consumers, last one first, each computed on its
 *     own and then added; another stage's share counts where the last consumer in it comes. A
 *     different cut regroups this sum only when there are three or more consumers;
 *   - tied weights: gradient of the owner plus gradient of the borrower, in one stage or two; of
 *     several borrowers these are summed first, stage by stage, so that there cuts regroup the sum.
 *     */
#ifndef EXEC_DEVICE_CPU_STAGE_H
#define EXEC_DEVICE_CPU_STAGE_H

#include "core/base/digest.h"
#include "core/data/program.h"
#include "core/strategy/optimizer.h"
#include "exec/corpus.h"
#include "exec/device/backend.h"
#include "exec/device/layer.h"
#include "exec/learning_rate.h"
#include "exec/ring.h"

struct device_options;
struct device_state;

enum { NOWHERE = UINT32_MAX };

/* Sizes and offsets count reals. */
struct stage_tensor {
    size_t size;     /* of a microbatch */
    bool recomputed; /* value: offset in pass.recomputed, else in a slot */
    size_t value;
    bool overwritten; /* its gradient has the value's place, else it is here: */
    size_t gradient;  /* own output: offset in pass.work; received: offset in a slot */
};

struct stage_op {
    uint32_t index; /* in the model */
    struct layer layer;
    uint32_t input[LAYER_INPUTS]; /* tensors */
    bool recomputed;              /* the forward runs again in the backward, with those of */
    uint32_t unit_low, unit_high; /* ops unit_low .. unit_high - 1; else the op alone */
    uint32_t needed;              /* before the backward of this op (plan_needs()) */
    uint32_t remakes; /* first op of the first unit that is made again before the own backward */
    size_t saved;     /* offset in a slot, or, if recomputed, in pass.recomputed */
    size_t kept;      /* offset in a slot: gradient of the output, for backward_weight, */
    size_t gathered;  /* and what of the inputs has been gathered for that, or for the backward */
    size_t bucket;    /* index in share.bucket */
    size_t rows;      /* its experts are spread: index in arrays [layout.spread] */
    size_t parameter; /* offset of its own among the stage's parameters */
    size_t shared;    /* offset of what it borrows there */
    size_t running;   /* offset in state.running */
    /* ZeRO 2, 3: no replica has the same experts; they are used and updated where they are kept,
     * and their gradients grow where others' sums do. */
    bool alone;
    size_t at, shared_at;   /* the same in the array that passes use: with ZeRO 3 a bucket's */
    size_t d_at;            /* offset of its gradient: with ZeRO 2 and 3 in its bucket's */
    size_t d_shared;        /* offset of its gradient: in pass.tied if the owner is here, ... */
    bool gathers, scatters; /* its input, its output is divided by rows over the shards */
    bool joins;     /* its backward may make the gradient of the input of the op before it */
    bool delays;    /* gradients of its parameters come in the second half of a backward */
    uint32_t owner; /* ... an op of this stage; else NOWHERE: own copy, gradient beside it */
    bool second;    /* ... or that op is a borrower itself, and has the stage's copy */
    struct layer_routing routing; /* of experts */
};

/* Another stage that this one exchanges messages with. */
struct stage_link {
    uint32_t stage;
    size_t n;
    uint32_t *tensor; /* [n] in message order */
    size_t size;      /* of the message */
    size_t area;      /* consumers: offset in a slot of the gradients that come back */
    bool local;       /* producers: on the same device, from which the program has no messages */
    size_t parts;     /* the message is one of so many, which the receiving shards gather; else 1 */
};

/* What a consumer stage adds to the gradient of an own output. */
struct stage_remote {
    uint32_t consumer; /* the last op there that reads it */
    size_t area;       /* offset in a slot */
};

/* What the stage consists of and where everything is: constant after stage_open(). */
struct stage_layout {
    size_t batch;        /* B: samples of a microbatch */
    size_t n;            /* ops */
    struct stage_op *op; /* [n] */
    size_t tensors;
    struct stage_tensor *tensor; /* [tensors] outputs of op[0 .. n), then received ones */
    size_t producers, consumers;
    struct stage_link *producer, *consumer; /* [producers], [consumers] ascending by stage */
    size_t *remote_start;                   /* [n + 1] CSR */
    struct stage_remote *remote;            /* of tensor k, the latest consumer first */
    bool reads_data;
    struct batch_shape data;
    real scale;        /* weight of one target in the gradient of an update, */
    double loss_scale; /* and in the loss of a step */
    enum element half; /* what activations are (layer.h: half); sizes still count reals */
    size_t parameters; /* copies of borrowed ones, then own ones by op; spread experts', */
    size_t dense_n;    /* ... which others share them with, behind these */
    size_t owned_n;    /* this rank's part of them: all without ZeRO */
    size_t slot_size;  /* of what a slot has of a microbatch */
    size_t work_size, tied_size, recomputed_size; /* of the arrays of struct stage_pass */
    size_t scratch, scratch_size; /* offset in pass.work of LAYER_INPUTS areas of so many */
    size_t spread;                /* ops whose experts are */
    size_t rows;                  /* offset in pass.work of what shards make whole */
    size_t layer_work;            /* offset in pass.work for the layers' own use */
};

/* Gradients that are reduced over the replicas together (struct program_bucket), and who keeps
 * what of them and of what belongs to them. */
struct stage_bucket {
    size_t low, high;            /* ops low .. high - 1 */
    size_t first, n;             /* among the stage's parameters */
    size_t gathered;             /* n, and all of the buckets whose parameters its ops borrow */
    struct program_range own;    /* part of this replica, from `first` on; all of it without ZeRO */
    size_t at;                   /* where `own` is in arrays [owned_n] */
    const struct program_op *op; /* the collective that had its gradients last */
};

/* How the ranks of the stage divide it: what the program says. Constant after stage_open(). */
struct stage_share {
    struct layer_shard shard; /* of tensor parallelism */
    uint32_t replicas, me;    /* replicas of the stage, and which of them this is */
    uint32_t experts;         /* over how many of them experts are spread, 1: not */
    size_t context, position; /* replicas that share sequences, and which of them this is */
    bool sequence; /* shards have parts of the rows of what they do not divide (sequence.c) */
    uint32_t zero; /* 0 .. 3 */
    bool reshards; /* ZeRO 3: parameters are there only as buckets, while passes use them */
    uint32_t members, place; /* replicas over which parts are spread, and which of them this is */
    bool split;              /* backwards come in two halves */
    struct ring_part (*part)(size_t n, size_t members, size_t me); /* of struct device_options */
    enum element reduced, gathered; /* gradients as they are summed, parameters as they are
                                     * gathered */
    size_t buckets, regions;
    struct stage_bucket *bucket; /* [regions] in the order in which a backward completes them; then
                                  * those of spread experts: one, with ZeRO 2 and 3 one each */
};

/* Parameters that passes in flight use. */
struct stage_version {
    real *data;
    uint32_t users; /* microbatches between forward and backward */
};

/* Two arrays: one is at work while a collective has the other. */
struct stage_pair {
    real *data[2];
    uint32_t now; /* the one at work */
};

/* ZeRO 2, 3: gradients of the bucket whose backward computes, and of the one before; ZeRO 3: the
 * parameters of the bucket that computes, and those of the next. One for all stages of a rank,
 * since these compute one at a time. */
struct stage_flight {
    struct stage_pair gradients, parameters;
    real *reduced, *gathered; /* what a collective has of them, in 16 bits; NULL: it has them */
    real *summed;             /* likewise, of what groups of replicas sum */
    int64_t bytes;
};

/* What lives from step to step: parameters, their gradients, the optimizer's state (share.c). */
struct stage_state {
    double learning_rate;
    struct learning_rate policy;
    double factor;              /* of the rate, in this step by the policy */
    struct optimizer optimizer; /* as its numbers are */
    double scale;               /* of gradients, before the optimizer sees them, */
    double clipped;             /* and by how much they are clipped in the next update, */
    bool is_clipped;            /* if all ranks have found that out */
    uint32_t updates;           /* so far */
    uint32_t since;             /* microbatches whose gradients wait for the next one */
    real *parameter;            /* [parameters] those that passes use, or the newest version;
                               * NULL with ZeRO 3 */
    real *gradient;             /* [parameters]; NULL with ZeRO 2, 3 */
    real *moment, *square;      /* [owned_n] Adam: both; SGD: `moment` if it has momentum */
    size_t running_n;           /* of all ops, 0 in memory that the CPU cannot read */
    real *running; /* [running_n] what layers keep besides parameters (struct layer_io) */
    real *sum;     /* [owned_n] ZeRO 2, 3: own part of the gradients, reduced */
    real *owned;   /* [owned_n] ZeRO 3, and where parameters are gathered in 16 bits: own
                               * part of the parameters; else NULL */
    real *reduced; /* [parameters] ZeRO 0, 1: what collectives have, in 16 bits; NULL: the
                               * arrays above */
    struct stage_pair halved; /* [parameters] ZeRO 2, 3 when backwards come in halves: gradients */
    size_t gathered; /* ZeRO 3: bucket + 1 whose parameters are there for a pass to come, 0: none */
    uint8_t (*digest)[DIGEST];     /* [layout.n] ZeRO 3: of parameters, as they are gathered last */
    size_t versions, newest;       /* without flush; else one */
    struct stage_version *version; /* [versions] */
    real *half;                    /* in 16 bits as passes use them; NULL: everything is fp32 */
    const real *half_of;           /* version that `half` is of; NULL: none */
};

/* Buffers of the op at work, the same for every microbatch (stage.c). */
struct stage_pass {
    const struct layer_reduction *reduction; /* to other ranks, while an op computes */
    real *work;                              /* [work_size] gradients of own outputs, scratch */
    real *tied;               /* [tied_size] gradients of what is borrowed within the stage */
    real *whole;              /* gradients of earlier microbatches of what every shard has; NULL:
                                   * they are not mixed with those of a backward */
    real *recomputed;         /* [recomputed_size] activations that the backward recomputes */
    struct layer_array *rows; /* [spread] of ops that the backward recomputes */
    struct layer_array exchanged; /* of the op at work */
    bool *begun;                  /* [tensors] during a backward: its gradient holds something */
    size_t *next;                 /* [n] during a backward: next entry of layout.remote */
    size_t part;                  /* bucket up to which the backward has come */
    uint32_t parts;               /* of a backward that is not complete: so many parts are */
    int32_t *filled; /* [own microbatches][2 * samples * tokens] remote memory: where data are
                       * made, and copied from some time in the step */
    double loss;     /* weighted, of this step, */
    double hits[LOSS_HITS]; /* and parts of its targets (struct layer_io) */
};

enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_FORWARDED, SLOT_DONE };

/* A microbatch in flight: one slot each, which another microbatch takes over when it is given
 * back. */
struct slot {
    enum slot_state state;
    uint32_t microbatch;
    uint32_t parts;                     /* of its forward that are complete */
    bool owes_weights;                  /* between the halves of a backward */
    uint32_t version;                   /* of the parameters: index in stage.version */
    size_t received, returned, fetched; /* messages: inputs, gradients in, gradients out */
    real *data;                         /* [slot_size] */
    struct layer_array *rows;           /* [spread] what experts here have been sent */
    int32_t *token, *target;            /* [data.samples * data.tokens], NULL where not needed */
};

/* Microbatches in flight (slot.c). */
struct stage_stash {
    size_t slots;      /* allocated so far */
    struct slot *slot; /* [slots], room for one per microbatch */
    uint32_t *slot_of; /* [microbatches] slot + 1, 0: none */
};

struct stage {
    const struct model *model;
    const struct program *program;
    const struct corpus *corpus;
    struct memory on; /* where arrays of reals, tokens and targets are */
    uint32_t index, rank;
    int64_t bytes; /* allocated */
    struct stage_layout layout;
    struct stage_share share;
    struct stage_state state;
    struct stage_pass pass;
    struct stage_stash stash;
    struct stage_flight *flight; /* the rank's; NULL for a stage on its own */
};

/* The stages of one rank: what the CPU device is, and part of devices on other memories. */
struct stage_set {
    size_t stages;
    struct stage *stage; /* [stages] ascending */
    struct stage_flight flight;
    bool tied;  /* cpu_sum_ties() has been called since the last pass */
    real *norm; /* [2 * ranks] NULL until gradients are clipped by all ranks (norm.c) */
};
/* The stage of that index, which is one of them. */
struct stage *cpu_stage(const struct stage_set *c, uint32_t index);
/* ties.c: gradients of weights that two stages of the device share. STATUS_UNSUPPORTED names those
 * that cannot be summed here; sums the others, once between the passes and the updates. */
enum status cpu_check_ties(const struct model *m, const struct stage_set *c) MUST_CHECK;
enum status cpu_sum_ties(struct stage_set *c, const struct model *m) MUST_CHECK;
/* norm.c: what all ranks are to sum before they clip: data [*n], the device's; and what follows
 * from the sum for the next updates. STATUS_NOMEM. */
enum status cpu_norm_begin(struct stage_set *c, real **data, size_t *n) MUST_CHECK;
void cpu_norm_end(struct stage_set *c);
/* device_cpu.open() on another memory; the other functions of device_cpu then work there. */
enum status cpu_open_on(const struct memory *on, const struct model *m, const struct program *p,
                        uint32_t rank, const struct device_options *o, void **self) MUST_CHECK;
/* device_cpu.check() on another memory, of which nothing is taken. */
enum status cpu_check_on(const struct backend *on, const struct model *m, const struct program *p,
                         uint32_t rank) MUST_CHECK;

/* device_cpu.state(), save() and load() (state.c). */
bool cpu_state(void *self, size_t index, struct device_state *out);
enum status cpu_save(void *self, size_t index, void *data) MUST_CHECK;
enum status cpu_load(void *self, size_t index, const void *data) MUST_CHECK;

/* Stage `index` in host memory as its first rank has it, or on another memory. Model, program and
 * corpus stay alive until stage_close(). STATUS_INVALID, STATUS_UNSUPPORTED with the op's name;
 * STATUS_NOMEM also when the machine has too little memory for parameters and one microbatch. */
enum status stage_open(const struct model *m, const struct program *p, uint32_t index,
                       const struct corpus *c, double learning_rate, struct stage *out) MUST_CHECK;
enum status stage_open_on(const struct memory *on, const struct model *m, const struct program *p,
                          uint32_t index, uint32_t rank, const struct device_options *o,
                          struct stage *out) MUST_CHECK;
void stage_close(struct stage *s); /* accepts {0}; leaves {0} */

/* As in exec/device.h, messages in reals. STATUS_INVALID when called out of turn.
 * part: 0: all of it; 1, 2, ...: the next part, in order (program_op.part). */
enum status stage_forward(struct stage *s, uint32_t step, uint32_t microbatch,
                          uint32_t part) MUST_CHECK;
enum status stage_backward(struct stage *s, uint32_t microbatch, uint32_t part) MUST_CHECK;
/* The same in two halves, to the same bits: first what other stages wait for, then the gradients of
 * the weights of the kinds that can tell them apart (layer.h), from gradients kept in the slot. */
enum status stage_backward_input(struct stage *s, uint32_t microbatch) MUST_CHECK;
enum status stage_backward_weight(struct stage *s, uint32_t microbatch) MUST_CHECK;
enum status stage_update(struct stage *s) MUST_CHECK;
/* Everything that a step will do once, without others and without a trace, before the first step:
 * for a backend whose first calls take longer or wait for all that is under way. */
enum status stage_rehearse(struct stage *s) MUST_CHECK;
enum status stage_get(struct stage *s, uint32_t to, uint32_t microbatch, bool backward,
                      real *data) MUST_CHECK;
enum status stage_put(struct stage *s, uint32_t from, uint32_t microbatch, bool backward,
                      const real *data) MUST_CHECK;
enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, enum element *e,
                        void **data, size_t *n) MUST_CHECK;
void stage_collected(struct stage *s, const struct program_op *op);
/* The own parameters of op k as passes use them: with ZeRO 3 while its bucket is gathered. */
const real *stage_parameters(const struct stage *s, size_t k);
/* Memory for the buckets in flight of the rank's stages, or nothing. */
enum status stage_open_flight(struct stage_set *c) MUST_CHECK;
/* Position of model op `index` in s->op, NOWHERE if it is not in this stage; O(log n). */
uint32_t stage_find(const struct stage *s, uint32_t index);

#endif
