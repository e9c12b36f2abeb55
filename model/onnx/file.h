/* file.h - what foreline reads of an ONNX file: nodes, values and their stated shapes, and the
 * small tensors from which shapes are computed. Weights are never read, only their sizes.
 *
 * Source: the messages of onnx.proto (github.com/onnx/onnx, docs/IR.md), by their field numbers. */
#ifndef MODEL_ONNX_FILE_H
#define MODEL_ONNX_FILE_H

#include "core/base/array.h"
#include "core/base/intern.h"
#include "model/onnx/wire.h"

enum {
    ONNX_RANK = 16,   /* dimensions of a tensor */
    ONNX_KEPT = 64,   /* a tensor of more numbers is not read */
    ONNX_NAME = 1024, /* bytes of a name */
    ONNX_NONE = UINT32_MAX
};

/* Types of elements, by their numbers in files. */
enum onnx_type {
    ONNX_ANY = 0,
    ONNX_FLOAT = 1,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16
};

/* Numbers of a tensor that is small enough; of integers and floats. */
struct onnx_data {
    bool kept;
    size_t n;
    int64_t *whole; /* [n] of integer types; else NULL */
    double *real;   /* [n] of float types; else NULL */
};

/* A dimension as the file states it. */
struct onnx_dim {
    int64_t size;       /* < 0: not stated */
    const char *symbol; /* its name; NULL: none */
};

/* What a value depends on. */
enum onnx_role {
    ONNX_UNSET,     /* no node has made it yet */
    ONNX_CONSTANT,  /* on nothing that is learned or given */
    ONNX_PARAMETER, /* a parameter, or a view of one */
    ONNX_GIVEN,     /* an input of the model, or a view of one */
    ONNX_MADE       /* made by an op */
};

struct onnx_value {
    const char *name;
    enum onnx_type type;
    enum onnx_role role;
    bool stated; /* stated_rank and stated_dim are there */
    size_t stated_rank;
    struct onnx_dim *stated_dim; /* [stated_rank] */
    bool is_initial;             /* an initialiser */
    bool is_known;               /* rank and dim are there */
    size_t rank;
    int64_t *dim; /* [rank] */
    struct onnx_data data;
    uint32_t parameter; /* ONNX_PARAMETER: the value that is the parameter itself */
};

struct onnx_attribute {
    const char *name;
    bool has_text, has_ints, has_tensor;
    int64_t whole;
    double real;
    const char *text;
    size_t ints; /* at most ONNX_RANK * 2 */
    int64_t *value;
    enum onnx_type type; /* of the tensor */
    size_t rank;
    int64_t *dim;
    struct onnx_data data;
};

struct onnx_node {
    const char *name, *op, *domain; /* "" where there is none */
    size_t inputs, outputs, attributes;
    uint32_t *input, *output; /* values; ONNX_NONE: left out */
    struct onnx_attribute *attribute;
    const struct onnx_rule *rule; /* of its operator (shape.h); NULL: not looked up yet */
};

struct onnx_graph {
    const char *path, *name, *producer;
    int64_t opset;
    size_t values, nodes, inputs, outputs;
    size_t stated; /* attributes, and shapes of values */
    struct onnx_value *value;
    struct onnx_node *node;
    uint32_t *input, *output;
    struct interner names;
    struct arena memory;
};

/* Do the first bytes look like a model in this format? */
bool onnx_looks_so(const char *head, size_t length);
/* Read a model; `w` is all of it. STATUS_PARSE with path: byte N, STATUS_IO, STATUS_NOMEM. */
enum status onnx_read(struct wire w, struct onnx_graph *out) MUST_CHECK;
void onnx_free(struct onnx_graph *g); /* accepts {0}; leaves {0} */

/* Attribute of a node, NULL: absent; its whole number, or `fallback`. */
const struct onnx_attribute *onnx_attribute(const struct onnx_node *n, const char *name);
int64_t onnx_whole(const struct onnx_node *n, const char *name, int64_t fallback);
bool onnx_is_float(enum onnx_type type);
/* Numbers in a tensor, -1: more than 1e15, or a dimension is negative. */
int64_t onnx_count(size_t rank, const int64_t *dim);

#endif
