/* kinds.h - the layer kinds that the CPU computes: one file each. */
#ifndef EXEC_DEVICE_CPU_KINDS_H
#define EXEC_DEVICE_CPU_KINDS_H

#include "exec/device/layer.h"

#define YES(name) extern const struct layer_kind kind_##name;
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) cpu(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES

/* shape() of what maps rows (tokens) of `channels` to rows of as many: x, y (B, T, C). */
enum status layer_rowwise(const struct model_op *op, struct layer *l) MUST_CHECK;

/* Importers have ops of the same kinds whose shape nobody has told them: STATUS_UNSUPPORTED without
 * the attribute. */
enum status layer_is_told(const struct model_op *op, const char *attribute) MUST_CHECK;
/* shape() of what looks at windows of an image: attributes height, width, kernel, stride and
 * padding; x (B, height, width, in), y (B, down, across, out), sizes for l->in and l->out. */
enum status layer_windows(const struct model_op *op, struct layer *l) MUST_CHECK;

/* Attribute `kernel`: tokens, with as many on both sides. STATUS_INVALID. */
enum status layer_odd_kernel(const struct model_op *op, size_t *out) MUST_CHECK;

/* context.c: attention of a replica's tokens to the whole sequence; `batch` is of the layer's
 * calls. */
void context_size(size_t batch, struct layer *l);
void attention_size(struct layer *l); /* attention.c: from tokens, heads and depth */
/* swap.c: the same where tokens change places with heads (context.swaps). STATUS_UNSUPPORTED. */
enum status swap_size(const struct model_op *op, size_t batch, struct layer *l) MUST_CHECK;
/* The layer of all tokens and a part of the heads. */
struct layer swap_inner(const struct layer *l);
void swap_forward(const struct layer *l, struct layer_io *io);
void swap_backward(const struct layer *l, struct layer_io *io);
void context_forward(const struct layer *l, struct layer_io *io);
void context_backward(const struct layer *l, struct layer_io *io);

/* Make *l that of one of n equal parts of the tokens; not of experts that drop some. */
void layer_divide_tokens(struct layer *l, size_t n);

/* divide() of what works number by number: the channels that a column-parallel product has left. */
enum status layer_divide_channels(const struct model_op *op, const struct layer_shard *s,
                                  size_t batch, struct layer *l) MUST_CHECK;
/* For divide(): a part of `rows` x columns, by rows, every group of them alike. */
void layer_divide_rows(const struct layer_shard *s, size_t rows, size_t columns,
                       struct layer_part *part);
/* Heads of queries, and of keys and values, over the shards. STATUS_UNSUPPORTED. */
enum status layer_divide_heads(const struct model_op *op, const struct layer_shard *s,
                               struct layer *l) MUST_CHECK;
/* STATUS_UNSUPPORTED with the reason. */
enum status layer_indivisible(const struct model_op *op, const struct layer_shard *s,
                              const char *what) MUST_CHECK;

#endif
