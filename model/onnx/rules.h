/* rules.h - how the shapes of outputs follow from those of inputs, one function for each way
 * (rules.def says which operator has which). Each gives the outputs of a step their shapes; false:
 * what it needs is not known, or does not fit.
 *
 * Source: github.com/onnx/onnx, docs/Operators.md. */
#ifndef MODEL_ONNX_RULES_H
#define MODEL_ONNX_RULES_H

#include "model/onnx/shape.h"

bool infer_same(struct onnx_step *s);
bool infer_broadcast(struct onnx_step *s);
bool infer_expand(struct onnx_step *s);
bool infer_tile(struct onnx_step *s);
bool infer_pool(struct onnx_step *s);
bool infer_convolution(struct onnx_step *s);
bool infer_transposed(struct onnx_step *s);
bool infer_global(struct onnx_step *s);
bool infer_resize(struct onnx_step *s);
bool infer_pad(struct onnx_step *s);
bool infer_matmul(struct onnx_step *s);
bool infer_gemm(struct onnx_step *s);
bool infer_reshape(struct onnx_step *s);
bool infer_transpose(struct onnx_step *s);
bool infer_flatten(struct onnx_step *s);
bool infer_squeeze(struct onnx_step *s);
bool infer_unsqueeze(struct onnx_step *s);
bool infer_slice(struct onnx_step *s);
bool infer_split(struct onnx_step *s);
bool infer_concat(struct onnx_step *s);
bool infer_gather(struct onnx_step *s);
bool infer_gather_elements(struct onnx_step *s);
bool infer_reduce(struct onnx_step *s);
bool infer_arg(struct onnx_step *s);
bool infer_shape(struct onnx_step *s);
bool infer_size(struct onnx_step *s);
bool infer_constant(struct onnx_step *s);
bool infer_filled(struct onnx_step *s);
bool infer_range(struct onnx_step *s);
bool infer_depth_to_space(struct onnx_step *s);
bool infer_space_to_depth(struct onnx_step *s);

/* Input `i` if it is there and its shape is known, else NULL. */
const struct onnx_value *onnx_known(const struct onnx_step *s, size_t i);
/* Whole numbers of input `i`, or of an attribute of older versions; NULL: neither is there. */
const int64_t *onnx_numbers(const struct onnx_step *s, size_t i, const char *name, size_t *n);
/* An axis, counted from the end if it is negative; false: there is none such. */
bool onnx_axis(int64_t axis, size_t rank, size_t *out);

#endif
