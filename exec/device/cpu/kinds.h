/* kinds.h - the layer kinds that the CPU computes; one file each. */
#ifndef EXEC_DEVICE_CPU_KINDS_H
#define EXEC_DEVICE_CPU_KINDS_H

#include "exec/device/layer.h"

extern const struct layer_kind kind_attention, kind_embedding, kind_gelu, kind_layernorm,
    kind_linear, kind_loss, kind_residual;

/* For divide(): a part of `rows` x columns, by rows, every group of them alike. */
void layer_divide_rows(const struct layer_shard *s, size_t rows, size_t columns,
                       struct layer_part *part);
/* STATUS_UNSUPPORTED with the reason. */
enum status layer_indivisible(const struct model_op *op, const struct layer_shard *s,
                              const char *what) MUST_CHECK;

#endif
