/* emit.h - the layer of the zoo, or the plain op, that a node of ONNX or a group of nodes is. */
#ifndef MODEL_ONNX_EMIT_H
#define MODEL_ONNX_EMIT_H

#include "model/onnx/op.h"

/* Append the op of a node whose output is made. */
void onnx_add_single(struct onnx_build *b, const struct onnx_node *n, const char *name,
                     const struct onnx_rule *r);
/* Append the op of a group, of which n is the last node. STATUS_INVALID: too large. */
enum status onnx_add_group(struct onnx_build *b, const struct onnx_node *n, const char *name,
                           const struct onnx_match *m) MUST_CHECK;
/* Characters that are not printable ASCII become '_'. */
void onnx_clean(char *text);

#endif
