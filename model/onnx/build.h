/* build.h - ops of a model out of the nodes of an ONNX graph whose shapes are known. */
#ifndef MODEL_ONNX_BUILD_H
#define MODEL_ONNX_BUILD_H

#include "core/data/model.h"
#include "model/onnx/shape.h"

/* One op per node that computes, or per group of such (pattern.h), work and sizes divided by
 * `batch`. Names are those of nodes without the operator at their end, where no two are then the
 * same. `note` is completed with how many there are. STATUS_INVALID, STATUS_NOMEM. */
enum status onnx_build(struct onnx_graph *g, int64_t batch, struct model *out) MUST_CHECK;

#endif
