/* data_type.h - the types of numbers that models are trained in: a line of data_types.def each.
 *
 * A model keeps its parameters and activations in numbers of `bytes`; its matrix products run at
 * the speed that a device has for the type (core/data/topology.h). fp8 and fp4 are types of
 * products only: what it does not touch - attention's core, routers, embeddings, heads, norms - is
 * bf16, and so are the parameters and activations that are kept, but for operands that only such
 * products read again. Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022
 * (arXiv:2209.05433). */
#ifndef CORE_BASE_DATA_TYPE_H
#define CORE_BASE_DATA_TYPE_H

#include <stdbool.h>
#include <stdint.h>

enum data_type {
    DATA_ANY, /* not said: whatever the device's speed is of */
#define DATA_TYPE(name, kept, operand, peak) DATA_##name,
#include "core/base/data_types.def"
#undef DATA_TYPE
    DATA_TYPES
};
extern const char *const data_type_names[DATA_TYPES]; /* "", "fp32", ... */
/* Property of a host with its nominal speed: "", "peak_fp32", ...; both 16-bit types have one. */
extern const char *const data_type_peaks[DATA_TYPES];

/* Are only products of the type? */
static inline bool data_type_narrow(enum data_type t)
{
    return t >= DATA_fp8;
}
int64_t data_type_bytes(enum data_type t);   /* of a number that is kept; 0 of DATA_ANY */
int64_t data_type_operand(enum data_type t); /* of an operand of a product; 0 of DATA_ANY */
/* What the rest of a model is of whose products are of type t: bf16 beside fp8 and fp4, else t. */
enum data_type data_type_beside(enum data_type t);

#endif
