/* pattern.h - nodes that are one op together, as exporters write layers out.
 *
 *   layernorm   ReduceMean, Sub, Pow 2, ReduceMean, Add, Sqrt, Div [, Mul weight [, Add bias]]
 *   rmsnorm     Pow 2, ReduceMean, Add, Sqrt, Reciprocal, Mul | Div [, Mul weight]
 *   gelu        x (1 + Erf(x / c)) / 2, or x (1 + Tanh(c (x + c x^3))) / 2, in any order of the
 *               products
 *   linear      MatMul by a parameter, Add of a parameter row
 *   batchnorm   BatchNormalization, Mul by a parameter, Add of a parameter (Caffe's Scale)
 *   attention   MatMul, scaling, mask, Softmax, MatMul of what other ops made
 *
 * A group is emitted where its last node stands; the others are inside. Numbers between the nodes
 * of a group are read by nobody else. */
#ifndef MODEL_ONNX_PATTERN_H
#define MODEL_ONNX_PATTERN_H

#include "model/onnx/shape.h"

enum onnx_kind {
    KIND_NODE,
    KIND_INSIDE,
    KIND_NORM,
    KIND_RMS,
    KIND_GELU,
    KIND_LINEAR,
    KIND_SCALED,
    KIND_ATTENTION,
    KIND_VIEW /* of x, by a scaling that is in an attention */
};

struct onnx_match {
    enum onnx_kind kind;
    uint32_t first;        /* node: the product, the BatchNormalization, the Softmax */
    uint32_t x;            /* value that goes in; attention: queries */
    uint32_t weight, bias; /* parameters, ONNX_NONE: none */
    uint32_t keys, values, mask;
};

/* match[g->nodes], malloc'd. Expected O(nodes + edges). STATUS_NOMEM. */
enum status onnx_find_groups(const struct onnx_graph *g, struct onnx_match **match) MUST_CHECK;

#endif
