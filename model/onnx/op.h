/* op.h - a model that is being made of an ONNX graph, op by op. */
#ifndef MODEL_ONNX_OP_H
#define MODEL_ONNX_OP_H

#include "model/graph.h"
#include "model/onnx/pattern.h"

struct onnx_build {
    struct onnx_graph *g;
    struct onnx_match *match;
    struct graph out;
    int64_t batch;
    uint32_t *op_of; /* [values] that makes a value; MODEL_NO_OP: none */
    uint32_t *owner; /* [values] op that has a parameter, MODEL_NO_OP: nobody yet */
    bool *learns;    /* [nodes] of ops: is there something learned in what it is given, or in it? */
    uint32_t *linked; /* [nodes] of ops: the last op that was linked to it, + 1 */
    struct interner names;
    size_t borrowers; /* ops that borrow of two owners, of which one is written down */
};

const struct onnx_value *onnx_at(const struct onnx_build *b, uint32_t v);
/* Input i of a node, NULL: there is none. */
const struct onnx_value *onnx_in(const struct onnx_build *b, const struct onnx_node *n, size_t i);
/* Numbers of a sample, rounded up where the batch does not divide them. */
int64_t onnx_size(const struct onnx_build *b, const struct onnx_value *v);
/* Does it depend on what the model is given? */
bool onnx_is_active(const struct onnx_value *v);
/* Numbers of the last dimension, at least 1. */
int64_t onnx_last(const struct onnx_value *v);

/* An op has been added for node n: its outputs, its edges from read[], its parameters own[]. Where
 * nothing learned is before it, no gradient of its input is wanted; where nothing is in it either,
 * none at all. */
void onnx_finish_op(struct onnx_build *b, const struct onnx_node *n, uint32_t op,
                    const uint32_t *read, size_t reads, const uint32_t *own, size_t owns);
/* The same with all of the node's inputs: those that are made are read, parameters are its own. */
void onnx_finish_node(struct onnx_build *b, const struct onnx_node *n, uint32_t op);

#endif
