/* cudnn.h - NVIDIA's cuDNN, where there is one: its backend's descriptors, and graphs of operations
 * made of them.
 *
 * The library is opened when it is first asked for, so that no executable needs it, and it is
 * declared here as far as it is used, so that no build needs its headers (cudnn_graph_v9.h;
 * tests/double/headers.sh compares).
 *
 * A graph is made like this: tensors, operations on them, cudnn_graph_plan(). The first call that
 * cuDNN refuses is kept in `why`, and those behind it do nothing. */
#ifndef EXEC_DEVICE_CUDA_CUDNN_H
#define EXEC_DEVICE_CUDA_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum cudnn_data { CUDNN_FP32 = 0, CUDNN_INT32 = 4, CUDNN_BF16 = 9, CUDNN_BOOLEAN = 11 };
/* Of pointwise operations. */
enum cudnn_mode {
    CUDNN_MUL = 1,
    CUDNN_ADD = 0,
    CUDNN_DIV = 6,
    CUDNN_SUB = 9,
    CUDNN_EXP = 13,
    CUDNN_LOG = 15,
    CUDNN_IS_GREATER_OR_EQUAL = 303,
    CUDNN_INDEX = 501,
    CUDNN_SELECT = 601
};
enum cudnn_reduction { CUDNN_SUM = 0, CUDNN_LARGEST = 3 };
/* Of descriptors. */
enum cudnn_kind {
    CUDNN_POINTWISE = 0,
    CUDNN_ENGINE = 2,
    CUDNN_CONFIGURATION = 3,
    CUDNN_HEURISTICS = 4,
    CUDNN_PLAN = 5,
    CUDNN_POINTWISE_OPERATION = 13,
    CUDNN_GRAPH = 15,
    CUDNN_PACK = 16,
    CUDNN_TENSOR = 17,
    CUDNN_MATMUL = 18,
    CUDNN_MATMUL_OPERATION = 19,
    CUDNN_REDUCTION = 21,
    CUDNN_REDUCTION_OPERATION = 22,
    CUDNN_RESHAPE_OPERATION = 31,
    CUDNN_DEVICE = 38
};
/* Of attributes. */
enum cudnn_type {
    CUDNN_OF_HANDLE = 0,
    CUDNN_OF_DATA = 1,
    CUDNN_OF_BOOL = 2, /* C's bool */
    CUDNN_OF_INT64 = 3,
    CUDNN_OF_POINTER = 6,
    CUDNN_OF_HEURISTICS = 8,
    CUDNN_OF_NUMERICAL_NOTE = 11,
    CUDNN_OF_MODE = 14,
    CUDNN_OF_DESCRIPTOR = 15,
    CUDNN_OF_REDUCTION = 18,
    CUDNN_OF_CHAR = 24
};
enum cudnn_attribute {
    CUDNN_POINTWISE_MODE = 0,
    CUDNN_POINTWISE_PRECISION = 1,
    CUDNN_POINTWISE_AXIS = 9,
    CUDNN_HEURISTICS_MODE = 200,
    CUDNN_HEURISTICS_GRAPH = 201,
    CUDNN_HEURISTICS_RESULTS = 202,
    CUDNN_HEURISTICS_DEVICE = 204,
    CUDNN_CONFIGURATION_ENGINE = 300,
    CUDNN_PLAN_HANDLE = 400,
    CUDNN_PLAN_CONFIGURATION = 401,
    CUDNN_PLAN_WORKSPACE = 402,
    CUDNN_PLAN_DEVICE = 407,
    CUDNN_POINTWISE_HOW = 750,
    CUDNN_POINTWISE_X = 751,
    CUDNN_POINTWISE_B = 752,
    CUDNN_POINTWISE_Y = 753,
    CUDNN_POINTWISE_T = 758,
    CUDNN_GRAPH_HANDLE = 800,
    CUDNN_GRAPH_OPERATIONS = 801,
    CUDNN_TENSOR_ALIGNMENT = 900,
    CUDNN_TENSOR_DATA = 901,
    CUDNN_TENSOR_SIZES = 902,
    CUDNN_TENSOR_STRIDES = 903,
    CUDNN_TENSOR_ID = 906,
    CUDNN_TENSOR_IS_VIRTUAL = 907,
    CUDNN_TENSOR_IS_BY_VALUE = 908,
    CUDNN_PACK_IDS = 1000,
    CUDNN_PACK_POINTERS = 1001,
    CUDNN_PACK_WORKSPACE = 1003,
    CUDNN_ENGINE_NUMERICAL_NOTES = 1303,
    CUDNN_MATMUL_PRECISION = 1500,
    CUDNN_MATMUL_A = 1520,
    CUDNN_MATMUL_B = 1521,
    CUDNN_MATMUL_C = 1522,
    CUDNN_MATMUL_HOW = 1523,
    CUDNN_REDUCTION_WHAT = 1600,
    CUDNN_REDUCTION_PRECISION = 1601,
    CUDNN_REDUCTION_X = 1610,
    CUDNN_REDUCTION_Y = 1611,
    CUDNN_REDUCTION_HOW = 1612,
    CUDNN_RESHAPE_X = 2200,
    CUDNN_RESHAPE_Y = 2201,
    CUDNN_DEVICE_JSON = 2702
};
enum cudnn_number {
    CUDNN_OLDEST = 91002, /* before are faults in its attention, and needs of other workarounds */
    CUDNN_HEURISTICS_BEST = 3,
    CUDNN_HEURISTICS_FALLBACK = 2,
    CUDNN_IS_NOT_DETERMINISTIC = 4, /* a numerical note of an engine */
    CUDNN_NUMERICAL_NOTES = 10
};

/* Its functions; 0 is success. Attributes: descriptor, enum cudnn_attribute, enum cudnn_type, how
 * many, which. */
struct cudnn {
    size_t (*version)(void); /* 91900: 9.19.0 */
    const char *(*error_string)(int status);
    void (*last_error)(char *text, size_t bytes);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*descriptor)(int kind, void **out);
    int (*release)(void *descriptor);
    int (*finalize)(void *descriptor);
    int (*set)(void *descriptor, int attribute, int type, int64_t n, const void *values);
    int (*get)(void *descriptor, int attribute, int type, int64_t room, int64_t *n, void *values);
    int (*execute)(void *handle, void *plan, void *pack);
};

/* libcudnn.so.9, as dlopen() finds it from this executable: where its own libraries are looked for
 * (docs/reference/cuda.md). It stays until the process ends. STATUS_UNSUPPORTED: there is none, it
 * lacks a function, or it is older than CUDNN_OLDEST. Any thread. */
enum status cudnn_library(const struct cudnn **out) MUST_CHECK;

enum { CUDNN_MOST_DESCRIPTORS = 256, CUDNN_MOST_OPERATIONS = 32, CUDNN_REASON = 256 };
struct cudnn_graph {
    const struct cudnn *library;
    /* One of them: a GPU's handle; or a descriptor of one that is not there. */
    void *handle, *device;
    size_t made, operations;
    void *descriptor[CUDNN_MOST_DESCRIPTORS]; /* [made] */
    void *operation[CUDNN_MOST_OPERATIONS];   /* [operations] among them */
    int64_t tensors;                          /* so far */
    char why[CUDNN_REASON];                   /* "": nothing has been refused */
};

/* Dimensions and strides in numbers, innermost last. id 0: it is nowhere in memory; id < 0: one
 * number of the host's; else what cudnn_pack() calls it. */
struct cudnn_shape {
    int64_t size[4], stride[4];
};
void *cudnn_tensor(struct cudnn_graph *g, int64_t id, enum cudnn_data data,
                   const struct cudnn_shape *shape);
/* y = x mode b where b, t are not NULL (CUDNN_SELECT: x where t, else b). CUDNN_INDEX: places of y
 * along `axis`. */
struct cudnn_pointwise {
    enum cudnn_mode mode;
    enum cudnn_data precision;
    int64_t axis;
    void *x, *b, *t;
};
void cudnn_pointwise(struct cudnn_graph *g, const struct cudnn_pointwise *p, void *y);
void cudnn_matmul(struct cudnn_graph *g, void *a, void *b, void *c); /* sums in fp32 */
/* Along dimensions that y has one of, or fewer of. */
void cudnn_reduce(struct cudnn_graph *g, enum cudnn_reduction what, void *x, void *y);
void cudnn_reshape(struct cudnn_graph *g, void *x, void *y);

/* How the graph is computed: the first of cuDNN's choices that can be made and is not said to be
 * nondeterministic. NULL: there is none, see `why`. *workspace: bytes. */
void *cudnn_graph_plan(struct cudnn_graph *g, int64_t *workspace);
/* Ids of tensors, those below 0 as they are without the sign, and where they are. */
enum { CUDNN_MOST_OPERANDS = 16 };
struct cudnn_operands {
    size_t n;
    int64_t id[CUDNN_MOST_OPERANDS];
    void *data[CUDNN_MOST_OPERANDS];
    void *workspace;
};
/* Queue it on the handle's stream; cuDNN's status. */
int cudnn_run(const struct cudnn_graph *g, void *plan, const struct cudnn_operands *o);
void cudnn_graph_close(struct cudnn_graph *g); /* accepts {0}; leaves {0} */

#endif
