/* stage_parts.h - what the sources of a stage (stage.h) call of each other. */
#ifndef EXEC_DEVICE_CPU_STAGE_PARTS_H
#define EXEC_DEVICE_CPU_STAGE_PARTS_H

#include "exec/device/cpu/stage.h"

/* What the program says of the stage (struct program_stage): shard, zero, members, me, recompute,
 * splits, pieces. */
enum status stage_find_shares(struct stage *s) MUST_CHECK;
/* Pieces; parameters are placed. */
enum status stage_cut_buckets(struct stage *s) MUST_CHECK;
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
