/* stage.h - one pipeline stage: its ops, parameters, and microbatches in flight, in the memory of
 * any backend (exec/device/backend.h).
 *
 * Tensors of a microbatch are the outputs of the stage's own ops and those received from other
 * stages. They live in one slot per microbatch in flight, taken at the first put() or forward() and
 * given back after backward() (both halves), when the gradients of the received tensors have been
 * fetched; slots
 * are reused, so there are as many as the schedule needs.
 *
 * A rank may hold only a shard of the ops (tensor parallelism: layer.h), only a part of optimizer
 * state, gradients and parameters (ZeRO 1, 2, 3: share.c), and forget activations that it makes
 * again in the backward (recomputation: they are in `remade`, not in slots). Without flush
 * (PipeDream) a microbatch's backward uses the parameters that its forward has used.
 *
 * Bit for bit the same parameters, however the model is cut into stages:
 *   - start values depend on (seed, op), data on (seed, step, microbatch), not on the rank;
 *   - a layer sees the same shapes whatever else is in its stage;
 *   - gradients of parameters grow by one microbatch at a time, in the order of backward() calls;
 *   - the gradient of a tensor is the sum over its consumers, last one first, each computed on its
 *     own and then added; another stage's share counts where the last consumer in it comes. A
 *     different cut regroups this sum only when there are three or more consumers;
 *   - tied weights: gradient of the owner plus gradient of the borrower, in one stage or two. */
#ifndef EXEC_DEVICE_CPU_STAGE_H
#define EXEC_DEVICE_CPU_STAGE_H

#include "core/program.h"
#include "exec/corpus.h"
#include "exec/device/backend.h"
#include "exec/device/layer.h"

struct device_options;
struct device_state;

enum { NOWHERE = UINT32_MAX };

/* Sizes and offsets count reals. */
struct tensor {
    size_t size; /* of a microbatch */
    bool remade; /* value: offset in `remade`, else in a slot */
    size_t value;
    size_t gradient; /* own output: offset in `work`; received: offset in a slot */
};

struct stage_op {
    uint32_t index; /* in the model */
    struct layer layer;
    uint32_t input[LAYER_INPUTS]; /* tensors */
    bool again;                   /* the forward is made again in the backward */
    size_t saved;                 /* offset in a slot, or, if `again`, in `remade` */
    size_t kept;                  /* likewise: gradient of the output, for backward_weight */
    size_t parameter;             /* offset of its own in `parameter` and `gradient` */
    size_t shared;                /* offset of what it borrows in `parameter` */
    size_t d_shared;              /* offset of its gradient: in `tied` if the owner is here, ... */
    uint32_t owner; /* ... an op of this stage; else NOWHERE: own copy, gradient beside it */
};

/* Another stage that this one exchanges messages with. */
struct stage_link {
    uint32_t stage;
    size_t n;
    uint32_t *tensor; /* [n] in message order */
    size_t size;      /* of the message */
    size_t area;      /* consumers: offset in a slot of the gradients that come back */
};

/* What a consumer stage adds to the gradient of an own output. */
struct remote {
    uint32_t consumer; /* the last op there that reads it */
    size_t area;       /* offset in a slot */
};

enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_FORWARDED, SLOT_DONE };

/* A microbatch in flight. */
struct slot {
    enum slot_state state;
    uint32_t microbatch;
    bool owes_weights;                  /* between the halves of a backward */
    uint32_t version;                   /* of the parameters: index in stage.version */
    size_t received, returned, fetched; /* messages: inputs, gradients in, gradients out */
    real *data;                         /* [slot_size] */
    int32_t *token, *target;            /* [data.samples * data.tokens], NULL where not needed */
};

/* Gradients that are summed over the replicas at a time, and who keeps what of them and of what
 * belongs to them: this rank's own numbers are first + own.first, ..., elsewhere in `moment`,
 * `square`, `sum` and `owned` at `at`. */
struct stage_piece {
    size_t first, n;   /* in `parameter` and `gradient` */
    size_t low;        /* first op */
    size_t own, own_n; /* own part: numbers first + own ..; all of it without ZeRO */
    size_t at;
};

/* Parameters that passes in flight use. */
struct stage_version {
    real *data;
    uint32_t users; /* microbatches between forward and backward */
};

struct stage {
    const struct model *model;
    const struct program *program;
    const struct corpus *corpus;
    struct place on; /* where arrays of reals, tokens and targets are */
    uint32_t index, rank;
    struct layer_shard shard;      /* of tensor parallelism */
    const struct layer_sums *sums; /* while an op computes */
    uint32_t recompute;            /* enum plan_recompute */
    uint32_t zero;                 /* 0 .. 3: ZeRO */
    uint32_t members, me;          /* replicas of the stage, and which of them this is */
    size_t pieces;                 /* gradient buckets */
    struct stage_piece *piece;     /* [pieces] in the order in which they become complete */
    size_t part;                   /* the last one that has been computed */
    bool halfway;                  /* and it was not the last one there is */
    size_t batch, n;
    struct stage_op *op; /* [n] */
    size_t tensors;
    struct tensor *tensor; /* [tensors] outputs of op[0 .. n), then received ones */
    size_t producers, consumers;
    struct stage_link *producer, *consumer; /* [producers], [consumers] ascending by stage */
    size_t *remote_start;                   /* [n + 1] CSR */
    struct remote *remote;                  /* of tensor k, the latest consumer first */
    bool reads_data, splits;                /* splits: backwards come in halves */
    struct batch_shape data;
    int32_t *filled; /* [2 * samples * tokens] remote memory: where data are made */

    size_t parameters;       /* copies of borrowed ones, then own ones by op */
    size_t owned_n;          /* this rank's part of them: all without ZeRO */
    real *parameter;         /* [parameters] those that passes use, or the newest version */
    real *gradient;          /* [parameters] of the next collective */
    real *moment, *square;   /* [owned_n] Adam; NULL for SGD */
    real *sum;               /* [owned_n] ZeRO 2, 3: own part of the gradients, summed; else NULL */
    real *owned;             /* [owned_n] ZeRO 3: own part of the parameters; else NULL */
    real *other_gradient;    /* [parameters] ZeRO 2, 3: being summed while `gradient` grows */
    real *other_parameter;   /* [parameters] ZeRO 3: being gathered while `parameter` is used */
    bool gathered;           /* ZeRO 3: `parameter` is for a pass to come */
    size_t versions, newest; /* without flush; else one */
    struct stage_version *version; /* [versions] */
    size_t tied_size, work_size;
    real *tied;                   /* [tied_size] gradients of what is borrowed within the stage */
    real *work;                   /* [work_size] gradients of own outputs, scratch */
    size_t scratch, scratch_size; /* offset in `work` of LAYER_INPUTS areas of so many */
    size_t layer_work;            /* offset in `work` for the layers' own use */
    bool halves;         /* activations are bf16 (layer.h: half), sizes still count reals */
    real *half;          /* [parameters] in bf16 as passes use them; NULL: everything is fp32 */
    const real *half_of; /* version that `half` is of; NULL: none */
    size_t wide;         /* halves: offset in `work` of one in fp32, to be summed over shards */
    size_t remade_size;
    real *remade; /* [remade_size] activations of the microbatch at work that are made again */
    bool *begun;  /* [tensors] during backward(): gradient holds something */
    size_t *next; /* [n] during backward(): next entry of `remote` */

    size_t slot_size, slots;
    struct slot *slot; /* [slots] allocated so far, room for one per microbatch */
    uint32_t *slot_of; /* [microbatches] slot + 1, 0: none */
    double learning_rate;
    uint32_t updates;
    double loss;       /* weighted, of this step */
    real scale;        /* weight of one target in the gradient of an update, */
    double loss_scale; /* and in the loss of a step */
    int64_t bytes;
};

/* The stages of one rank: what the CPU device is, and part of devices on other places. */
struct cpu {
    size_t stages;
    struct stage *stage; /* [stages] ascending */
};
/* device_cpu.open() on another place; the other functions of device_cpu then work there. */
enum status cpu_open_on(const struct place *on, const struct model *m, const struct program *p,
                        uint32_t rank, const struct device_options *o, void **self) MUST_CHECK;

/* device_cpu.state(), save() and load() (state.c). */
bool cpu_state(void *self, size_t index, struct device_state *out);
enum status cpu_save(void *self, size_t index, void *data) MUST_CHECK;
enum status cpu_load(void *self, size_t index, const void *data) MUST_CHECK;

/* Stage `index` in host memory as its first rank has it, or on another place. Model, program and
 * corpus stay alive until stage_close(). STATUS_INVALID, STATUS_UNSUPPORTED with the op's name;
 * STATUS_NOMEM also when the machine has too little memory for parameters and one microbatch. */
enum status stage_open(const struct model *m, const struct program *p, uint32_t index,
                       const struct corpus *c, double learning_rate, struct stage *out) MUST_CHECK;
enum status stage_open_on(const struct place *on, const struct model *m, const struct program *p,
                          uint32_t index, uint32_t rank, const struct device_options *o,
                          struct stage *out) MUST_CHECK;
void stage_close(struct stage *s); /* accepts {0}; leaves {0} */

/* As in exec/device.h, messages in reals. STATUS_INVALID when called out of turn. */
enum status stage_forward(struct stage *s, uint32_t step, uint32_t microbatch) MUST_CHECK;
/* part: 0: all of it; 1, 2, ...: the next bucket's part, in order (program_op.part). */
enum status stage_backward(struct stage *s, uint32_t microbatch, uint32_t part) MUST_CHECK;
/* The same in two halves, to the same bits: first what other stages wait for, then the gradients of
 * the weights of the kinds that can tell them apart (layer.h), from gradients kept in the slot. */
enum status stage_backward_input(struct stage *s, uint32_t microbatch) MUST_CHECK;
enum status stage_backward_weight(struct stage *s, uint32_t microbatch) MUST_CHECK;
enum status stage_update(struct stage *s) MUST_CHECK;
enum status stage_get(struct stage *s, uint32_t to, uint32_t microbatch, bool backward,
                      real *data) MUST_CHECK;
enum status stage_put(struct stage *s, uint32_t from, uint32_t microbatch, bool backward,
                      const real *data) MUST_CHECK;
enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, real **data,
                        size_t *n) MUST_CHECK;
void stage_collected(struct stage *s, const struct program_op *op);
/* Position of model op `index` in s->op, NOWHERE if it is not in this stage; O(log n). */
uint32_t stage_find(const struct stage *s, uint32_t index);

/* ---- between the sources of the stage */

/* What the program says of the stage (struct program_stage): shard, zero, members, me, recompute,
 * splits, pieces. */
enum status stage_find_shares(struct stage *s) MUST_CHECK;
/* Pieces; parameters are placed. */
enum status stage_cut_pieces(struct stage *s) MUST_CHECK;
/* Copy own parts between an array [parameters] and one [owned_n]. */
void stage_copy_owned(struct stage *s, real *whole, real *owned, bool to_owned);
/* Choose the parameters for a pass that begins, STATUS_INVALID when they have not been gathered. */
enum status stage_begin_pass(struct stage *s, struct slot *slot, bool forward) MUST_CHECK;
void stage_end_pass(struct stage *s, struct slot *slot); /* after a microbatch's last pass */
/* What a sample is: s->data and s->scale, from model, program, batch and corpus. */
enum status stage_find_data(struct stage *s) MUST_CHECK;

/* Offsets and sizes of everything (ops, tensors and links are known), then the memory, then the
 * start values. */
enum status stage_layout(struct stage *s) MUST_CHECK;
/* The slot of a microbatch if it is in the given state; STATUS_INVALID says what came too soon. */
enum status stage_slot(struct stage *s, uint32_t microbatch, enum slot_state state,
                       struct slot **out) MUST_CHECK;
/* The same for SLOT_FILLING, taking a slot if the microbatch has none. */
enum status stage_take_slot(struct stage *s, uint32_t microbatch, struct slot **out) MUST_CHECK;
/* Memory of a slot, unless it has it. On failure the slot stays empty and unused. */
enum status stage_allocate_slot(struct stage *s, struct slot *slot) MUST_CHECK;
/* Give a slot that is done back, unless something is still to be done with it. */
void stage_release_slot(struct stage *s, struct slot *slot);
/* calloc that counts; n elements of `size` bytes. */
enum status stage_allocate(struct stage *s, size_t n, size_t size, void *out) MUST_CHECK;
/* The same in the memory of the stage's place. */
enum status stage_allocate_data(struct stage *s, size_t n, size_t size, void *out) MUST_CHECK;

#endif
