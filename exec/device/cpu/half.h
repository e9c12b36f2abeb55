/* half.h - layers of 16-bit activations on the host: as on a GPU, numbers are bf16 (or fp16) in
 * memory and in messages, and fp32 where they are computed with.
 *
 * What a layer reads is widened, its kind computes as it always does, and what it has made is
 * rounded to the nearest, ties to even. Weights that are multiplied with activations are rounded
 * before (struct layer_io: half); biases, norms, tables of embeddings, the gates of tokens and
 * sinks are used in fp32. Gradients of parameters grow in fp32, as do the copies of the parameters
 * that the optimizer changes, and what a layer keeps for its backward. */
#ifndef EXEC_DEVICE_CPU_HALF_H
#define EXEC_DEVICE_CPU_HALF_H

#include "exec/device/layer.h"

/* Reals of struct layer_io's `work` for a call of `batch` samples: layer.work, and where somebody
 * `rounds` what the layer computes room for that. */
size_t half_work(const struct layer *l, size_t batch);

/* STATUS_UNSUPPORTED names an op whose kind exchanges activations in fp32 with other ranks (experts
 * that are spread, sequences that replicas share), or that has more experts than the type of a
 * layer in 16 bits has numbers for. */
enum status half_fits(const struct model_op *op, const struct layer *l, size_t bf16,
                      size_t fp16) MUST_CHECK;
/* adapt() of backend_cpu, whose experts have whole numbers. */
enum status half_adapt(const struct model_op *op, struct layer *l) MUST_CHECK;

/* The passes of l->kind, of a layer with `rounds`; io is as the layer has it. */
void half_forward(const struct layer *l, struct layer_io *io);
void half_backward(const struct layer *l, struct layer_io *io);
void half_backward_weight(const struct layer *l, struct layer_io *io);

#endif
