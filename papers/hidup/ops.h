/* ops.h - the operators that graphs are made of: shapes, work and legal signatures of each.
 *
 * Every function appends one node and returns the (first) tensor that it makes; failures stay in
 * g->status. Work counts the operations of a forward as the published code does: three for each
 * multiplication and addition of a product, because its devices' speed is measured over forward,
 * backward and update. r is the rank of what is made, signatures are those of section 4 of the
 * paper and of its artifact; with g->compat those of the artifact, faults included. */
#ifndef PAPERS_HIDUP_OPS_H
#define PAPERS_HIDUP_OPS_H

#include "papers/hidup/graph.h"

/* A batch, along dimension 0: gathered or full. */
uint32_t op_input(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size);
/* Replicated, or gathered along any dimension. */
uint32_t op_parameter(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size);
/* What is the same for all samples and on all devices, as a mask of attention: replicated. */
uint32_t op_mask(struct spmd_graph *g, const char *name, size_t rank, const int64_t *size);
/* The end of a graph: the loss as a sum over devices. */
void op_output(struct spmd_graph *g, const char *name, uint32_t loss);

/* x (..., in), w (out, in), b (out) or SPMD_NO_TENSOR -> (..., out): r + 1 signatures with a bias,
 * r + 3 without. */
uint32_t op_linear(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b);
/* Rows ELEMENTWISE and BINARY of ops.def, by name; y SPMD_NO_TENSOR: a number. Dimensions of size
 * one are broadcast. */
uint32_t op_elementwise(struct spmd_graph *g, const char *op, const char *name, uint32_t x);
uint32_t op_binary(struct spmd_graph *g, const char *op, const char *name, uint32_t x, uint32_t y);
/* Rows EINSUM. */
uint32_t op_einsum(struct spmd_graph *g, const char *op, const char *name, uint32_t x, uint32_t y);
/* Sum of all numbers. */
uint32_t op_sum(struct spmd_graph *g, const char *name, uint32_t x);
/* Softmax along a dimension; `log`: its logarithm. */
uint32_t op_softmax(struct spmd_graph *g, const char *name, uint32_t x, size_t dim, bool log);
/* Over the last dimension, with weight and bias. */
uint32_t op_layer_norm(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b);
/* x (tokens...), table (rows, channels) -> (tokens..., channels). */
uint32_t op_embedding(struct spmd_graph *g, const char *name, uint32_t x, uint32_t table);
/* Logarithms of probabilities (N, C, ...) and targets (N, ...) -> loss. */
uint32_t op_nll_loss(struct spmd_graph *g, const char *name, uint32_t x, uint32_t y);
/* Patches: x (N, C, H, W), w (O, C, p, p), b (O) -> (N, O, H / p, W / p). */
uint32_t op_conv2d(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, uint32_t b);

/* ---- ops_shape.c: what moves numbers only */

/* Equal parts along a dimension; the tensors have consecutive indices. */
uint32_t op_chunk(struct spmd_graph *g, const char *name, uint32_t x, size_t parts, size_t dim);
/* Item of what a node makes: whatever form it has. */
uint32_t op_item(struct spmd_graph *g, const char *name, uint32_t x);
uint32_t op_view(struct spmd_graph *g, const char *name, uint32_t x, size_t rank,
                 const int64_t *size);
uint32_t op_transpose(struct spmd_graph *g, const char *name, uint32_t x, size_t a, size_t b);
/* Dimensions from `start` on become one. */
uint32_t op_flatten(struct spmd_graph *g, const char *name, uint32_t x, size_t start);
/* Before the tokens of x (N, S, C) the row `row` (1, 1, C); and that row of the result, (N, C). */
uint32_t op_append_class(struct spmd_graph *g, const char *name, uint32_t x, uint32_t row);
uint32_t op_get_class(struct spmd_graph *g, const char *name, uint32_t x);

/* ---- ops_attention.c */

struct op_attention_weights {
    uint32_t in_w, in_b;   /* (3 C, C), (3 C): of queries, keys and values */
    uint32_t out_w, out_b; /* (C, C), (C) */
    uint32_t mask;         /* (S, S), or SPMD_NO_TENSOR */
};
/* Self-attention of x (S, N, C): outputs (S, N, C) and probabilities (N, S, S). In parallel over
 * samples, or over heads: then every device has a summand of the output, and the bias is divided by
 * their number. The published code has x gathered by channels in the second, with every device
 * adding all of the bias ("very wrong", say its authors). */
uint32_t op_attention(struct spmd_graph *g, const char *name, uint32_t x,
                      const struct op_attention_weights *w);
/* Routing of x (N, S, C) by w (C, E) into `slots` of each expert: masks (N, S, E, slots) of
 * dispatch and of combination. */
uint32_t op_gate(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, int64_t slots);

#endif
