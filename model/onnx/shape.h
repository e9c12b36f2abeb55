/* shape.h - shapes of all values of an ONNX graph, and what each depends on.
 *
 * Nodes are taken in the order of the file, which is topological. Integers from which shapes are
 * computed are computed too (fold.c), so that a graph with dynamic dimensions has static shapes
 * once those of its inputs are chosen. What the file states of a value is compared with what is
 * inferred, and taken where nothing can be. */
#ifndef MODEL_ONNX_SHAPE_H
#define MODEL_ONNX_SHAPE_H

#include "model/onnx/file.h"

/* What an operator costs, and how a node of it becomes an op of the model. */
enum onnx_class {
    CLASS_UNKNOWN, /* not in the table: its output's shape must be stated */
    CLASS_VIEW,    /* no work: its output is its first input, seen otherwise */
    CLASS_SHAPE,   /* makes a constant, of whatever */
    CLASS_ELEMENT, /* operations per number */
    CLASS_REDUCE,  /* the same of its input's numbers */
    CLASS_COPY,    /* memory traffic alone */
    CLASS_POOL,    /* operations per number of a window */
    CLASS_MATMUL,
    CLASS_GEMM,
    CLASS_CONVOLUTION,
    CLASS_TRANSPOSED, /* convolution */
    CLASS_BATCHNORM,
    CLASS_LAYERNORM,
    CLASS_RMSNORM,
    CLASS_GELU,
    CLASS_GATHER
};

/* A node whose outputs are being found. */
struct onnx_step {
    struct onnx_graph *g;
    const struct onnx_node *n;
    enum status st; /* STATUS_NOMEM once there is none */
};

struct onnx_rule {
    const char *op;
    enum onnx_class class;
    bool (*infer)(struct onnx_step *s); /* false: cannot be inferred */
    uint8_t forward, backward;          /* operations per number */
};

/* The rule of a node; that of unknown operators if there is none. */
const struct onnx_rule *onnx_rule(const struct onnx_node *n);

/* Sizes that were chosen for dimensions: ":batch=8,seq=128". */
struct onnx_choices {
    size_t n;
    struct onnx_choice {
        const char *name;
        int64_t value;
        bool used;
    } at[ONNX_RANK];
    int64_t inputs; /* files without initialisers: so many inputs are no parameters; 1 */
};

/* Input `i` of a node, NULL: left out. */
struct onnx_value *onnx_input(const struct onnx_step *s, size_t i);
/* Give output `k` its shape; false: more than 1e15 numbers, or no memory. */
bool onnx_shape(struct onnx_step *s, size_t k, size_t rank, const int64_t *dim);

/* Shapes and roles of all values; *batch is what the first dimension of the first input is.
 * Dimensions of inputs that have a name or nothing are `choices`; the first one is 1 if nobody
 * chose. STATUS_INVALID, STATUS_PARSE, STATUS_UNSUPPORTED (unknown operators), STATUS_NOMEM. */
enum status onnx_infer(struct onnx_graph *g, struct onnx_choices *choices,
                       int64_t *batch) MUST_CHECK;

/* Compute the numbers of output 0, if it is small and all that it needs is there (fold.c). */
void onnx_fold(struct onnx_step *s);

#endif
