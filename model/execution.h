/* execution.h - the nodes of an execution trace of PyTorch: what was called within what, on which
 * tensors. Private to the importer. */
#ifndef MODEL_EXECUTION_H
#define MODEL_EXECUTION_H

#include "core/base/array.h"
#include "core/base/json.h"

enum { EXECUTION_DIMENSIONS = 8, EXECUTION_NONE = UINT32_MAX };

struct execution_tensor {
    int64_t storage;   /* its number: tensors that share it share memory */
    double bytes;      /* >= 0 */
    uint32_t each;     /* bytes of a number */
    uint32_t argument; /* of the call, or place among its results */
};

enum execution_phase { EXECUTED_FORWARD, EXECUTED_BACKWARD, EXECUTED_UPDATE };

struct execution_node {
    int64_t id, parent_id, sequence; /* sequence -1: none */
    const char *name, *schema;       /* of the document; schema "": no operator */
    struct json_at at;
    size_t inputs, outputs;
    struct execution_tensor *input, *output; /* [inputs], [outputs] */
    uint32_t parent;                         /* index; EXECUTION_NONE: a root */
    uint32_t outer; /* the outermost operator around it, itself included; EXECUTION_NONE */
    uint32_t grad;  /* backward: the nearest node of autograd's around it */
    enum execution_phase phase;
    bool communicates; /* a collective or message, not within another */
    bool in_call;      /* that, or within one */
};

struct execution {
    struct json_at list; /* what the nodes' cursors point at */
    size_t n;
    struct execution_node *node; /* [n] ascending by id, as they began */
    struct arena memory;
};

/* Read the "nodes" of a document, whose root must outlive *out. STATUS_PARSE with path:line:column,
 * STATUS_NOMEM. O(n log n). */
enum status execution_read(const struct json_at *root, struct execution *out) MUST_CHECK;
void execution_free(struct execution *e); /* accepts {0}; leaves {0} */

/* Sizes of an argument's tensor; how many there are, 0: none, or more than EXECUTION_DIMENSIONS. */
size_t execution_shape(const struct execution_node *n, size_t argument,
                       double size[EXECUTION_DIMENSIONS]);
/* The name of an argument of the operator's schema, "weight"; "" for none. Returns name[size]. */
const char *execution_argument(const struct execution_node *n, size_t argument, char *name,
                               size_t size);
/* FLOP of an operator that computes products, by the shapes of its arguments; 0 for others. */
double execution_flop(const struct execution_node *n);

#endif
