/* kinds.h - the layer kinds that the CPU computes; one file each. */
#ifndef EXEC_CPU_KINDS_H
#define EXEC_CPU_KINDS_H

#include "exec/layer.h"

extern const struct layer_kind kind_attention, kind_embedding, kind_gelu, kind_layernorm,
    kind_linear, kind_loss, kind_residual;

#endif
