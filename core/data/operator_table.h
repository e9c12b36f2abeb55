/* operator_table.h - the operators that foreline knows: one row each of operator_table.def.
 *
 * Models may name any other operator: such an op has the type OPERATOR_UNKNOWN, no traits, and is
 * predicted by its work and its bytes. Types are found once, when a model is read (model_finish());
 * what runs often compares types and traits, never names. */
#ifndef CORE_DATA_OPERATOR_TABLE_H
#define CORE_DATA_OPERATOR_TABLE_H

#include <stdint.h>

enum operator_type {
    OPERATOR_UNREAD, /* nobody has looked for the name yet: model_op_type() does */
    OPERATOR_UNKNOWN,
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) OPERATOR_##name,
#include "core/data/operator_table.def"
#undef OPERATOR
    OPERATORS
};

/* What predictions, plans and devices ask of an operator. */
enum operator_trait {
    OPERATOR_PRODUCT = 1 << 0,   /* of input and weight: the gradient of either costs as much */
    OPERATOR_ATTENTION = 1 << 1, /* where tokens of a sequence meet: has scores, keeps its output */
    OPERATOR_NORM = 1 << 2,      /* of rows of the residual stream */
    OPERATOR_ROTATION = 1 << 3,  /* of queries and keys, by their positions */
    OPERATOR_GATED = 1 << 4,     /* reads two halves of a product's output */
    OPERATOR_ADDS_BIAS = 1 << 5, /* fused kernels of it add the bias of the product before it */
    OPERATOR_STREAM = 1 << 6,    /* sum with the residual stream: dropout comes before it, and its
                                  * backward passes the gradient on as it is */
    OPERATOR_FORGETS = 1 << 7,   /* the backward reads no input again */
    OPERATOR_EXPERTS = 1 << 8,   /* a token meets top_k of them */
    OPERATOR_WORDS = 1 << 9,     /* looks words up: where text enters the model */
    OPERATOR_LOSS = 1 << 10,     /* of logits: where a model of a text ends */
};

/* Name and traits of a type; of OPERATOR_UNREAD and OPERATOR_UNKNOWN "" and 0. */
struct operator_row {
    const char *name;
    uint32_t traits;
};
extern const struct operator_row operator_table[OPERATORS];

/* Never OPERATOR_UNREAD; NULL is unknown too. O(OPERATORS). */
enum operator_type operator_find(const char *name);

#endif
