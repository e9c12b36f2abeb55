/* stage_parts.h - what the sources of a stage (stage.h) call of each other. */
#ifndef EXEC_DEVICE_CPU_STAGE_PARTS_H
#define EXEC_DEVICE_CPU_STAGE_PARTS_H

#include "exec/device/cpu/stage.h"

/* ---- sums.c */
/* Gradients of what is borrowed within the stage join their owners'; again: nothing. */
void stage_fold(struct stage *s);
/* Gradients of the parameters of op `owner` that stages share, those borrowed here included. */
enum status stage_tied(struct stage *s, uint32_t owner, real **gradient, size_t *n) MUST_CHECK;

/* ---- share.c */
/* The k-th of the buckets, and lenders of its ops' weights among them, that ZeRO 3 gathers for
 * bucket b; NOWHERE: there are not so many. */
size_t stage_gathered_for(const struct stage *s, size_t b, size_t k);
/* The region of the spread experts of bucket b, NULL: there are none. */
struct stage_bucket *stage_experts_of(const struct stage *s, size_t b);
/* Numbers in an array that is in flight for bucket b, of gradients or of parameters: with experts
 * that replicas share. */
size_t stage_flying(const struct stage *s, size_t b, bool parameters);
/* What the program says of the stage (struct program_stage): shard, zero, members, me, splits,
 * pieces. */
enum status stage_find_shares(struct stage *s) MUST_CHECK;
/* Pieces; parameters are placed. */
enum status stage_cut_buckets(struct stage *s) MUST_CHECK;
/* Of the stage's parameters `first` .. first + n - 1, which are in parameter[n], those that are
 * this replica's go to state.owned. */
void stage_keep_owned(struct stage *s, size_t first, size_t n, const real *parameter);
/* Choose the parameters for a pass that begins, and then for the part that computes a bucket:
 * STATUS_INVALID when they have not been gathered. */
void stage_begin_pass(struct stage *s, struct slot *slot, bool forward);
enum status stage_begin_part(struct stage *s, const struct slot *slot, size_t bucket) MUST_CHECK;
/* Where the gradients of what passes compute grow: [parameters], with ZeRO 2 and 3 a bucket's. */
real *stage_gradients(const struct stage *s);
void stage_end_pass(struct stage *s, struct slot *slot); /* after a microbatch's last pass */
/* ---- open.c */
/* What a sample is: s->data and s->scale, from model, program, batch and corpus. */
enum status stage_find_data(struct stage *s) MUST_CHECK;

/* ---- sequence.c */
/* Reduce a tensor over the shards, in its own numbers: [size] reals, which are 2 size numbers in 16
 * bits. */
void stage_sum_shards(const struct stage *s, real *data, size_t size);
/* The op, a layer of a shard, where shards have parts of the rows. STATUS_UNSUPPORTED names it. */
enum status stage_divide_rows(const struct stage *s, struct stage_op *o) MUST_CHECK;
/* Are all tensors that ops read divided as they read them? Sizes do not tell rows from channels. */
enum status stage_check_rows(const struct stage *s) MUST_CHECK;
/* Room for what shards make whole, in reals: a tensor, or the gradients of the parameters that all
 * of them have, of every shard. */
size_t stage_whole_rows(const struct stage *s);
/* Operands of op k, of which others have rows: of a forward, what is gathered and where its output
 * is made; of a backward, the gradients of both, and what is gathered again for that of its
 * parameters. Without rows of others nothing. */
void stage_rows_forward(const struct stage *s, const struct slot *slot, size_t k,
                        struct layer_io *io);
void stage_rows_backward(const struct stage *s, const struct slot *slot, size_t k,
                         struct layer_io *io);
/* Behind the layer: outputs, or gradients of inputs, to where the shards' parts are: own[]; then
 * the input once more for gradients of parameters, `halves`: to be kept. */
void stage_rows_made(const struct stage *s, size_t k, const struct layer_io *io, real *own);
void stage_rows_returned(const struct stage *s, const struct slot *slot, size_t k, bool halves,
                         struct layer_io *io, real *const own[LAYER_INPUTS]);
/* Numbers of a slot for what is gathered of the inputs of op k and kept. */
size_t stage_rows_kept(const struct stage *s, size_t k);
/* Shards have seen different rows: gradients of the parameters of ops low .. high - 1 that all of
 * them have are summed. Where they may have some of earlier microbatches, those are apart
 * meanwhile. */
void stage_set_apart(const struct stage *s);
void stage_sum_whole(const struct stage *s, size_t low, size_t high);
/* Numbers of them: room for pass.whole. */
size_t stage_whole_parameters(const struct stage *s);

/* ---- layout.c */
/* Offsets and sizes of everything (ops, tensors and links are known), then the memory, then the
 * start values. */
enum status stage_layout(struct stage *s) MUST_CHECK;
/* ---- layout_gradient.c */
/* Sizes of tensors whose rows are to be apart (layer_kind.row): before anything is placed. */
void stage_part_rows(struct stage *s);
/* Where gradients of outputs and scratch are in pass.work, after stage_place_slot(). */
enum status stage_place_gradients(struct stage *s) MUST_CHECK;
/* ---- slot.c */
/* The slot of a microbatch if it is in the given state; STATUS_INVALID says what came too soon. */
enum status stage_slot(struct stage *s, uint32_t microbatch, enum slot_state state,
                       struct slot **out) MUST_CHECK;
/* The same for SLOT_FILLING, taking a slot if the microbatch has none. */
enum status stage_take_slot(struct stage *s, uint32_t microbatch, struct slot **out) MUST_CHECK;
/* Memory of a slot, unless it has it. On failure the slot stays empty and unused. */
enum status stage_allocate_slot(struct stage *s, struct slot *slot) MUST_CHECK;
/* Give a slot that is done back, unless something is still to be done with it. */
void stage_release_slot(struct stage *s, struct slot *slot);
/* Without backwards: the same behind a forward whose outputs all consumers have. */
void stage_forget(struct stage *s, struct slot *slot);
/* The k-th message of a pass that came in parts, which its ALLGATHER FOR_PIPELINE makes whole;
 * nothing behind the last one. */
void stage_received(struct stage *s, const struct program_op *op, uint32_t k, void **data,
                    size_t *n);
/* ---- layout_slot.c */
/* Is the tensor sent to another stage? Its value then stays in its slot until it is fetched. */
bool stage_sends(const struct stage *s, size_t t);
/* Numbers that are kept of the gradient of the output of op k between the halves of a backward. */
size_t stage_kept(const struct stage *s, size_t k);
/* Offsets of what a slot has, and of what is made again. STATUS_INVALID: buckets and units
 * cross. */
enum status stage_place_slot(struct stage *s) MUST_CHECK;
/* Room for a tensor. Products on a GPU may choose their kernel, and so their bits, by the alignment
 * of the operands: there all tensors begin at multiples of as much as any of them looks at. */
static inline size_t stage_room(const struct stage *s, size_t size)
{
    enum { ALIGNED = 64 };
    return s->on.backend->remote ? size_plus(size, ALIGNED - 1) / ALIGNED * ALIGNED : size;
}
/* ---- layout.c */
/* calloc that counts; n elements of `size` bytes. */
enum status stage_allocate(struct stage *s, size_t n, size_t size, void *out) MUST_CHECK;
/* The same in the memory of the stage's place. */
enum status stage_allocate_data(struct stage *s, size_t n, size_t size, void *out) MUST_CHECK;

/* Over how many replicas microbatches are spread: those that share sequences have the same. */
static inline size_t stage_streams(const struct stage *s)
{
    return s->share.replicas / (s->share.context > 1 ? s->share.context : 1);
}

#endif
