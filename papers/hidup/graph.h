/* graph.h - a model as fine-grained operators, and in which forms each can take and make tensors.
 *
 * Nodes stand in the order in which they are traced; a node reads tensors of earlier ones. Inputs
 * and parameters are nodes that read nothing, the output is one that makes nothing. A signature of
 * a node is a form for each tensor that it reads and makes, in which the same program runs on every
 * device. Sizes are of whole tensors of the whole batch, numbers are of type `dtype`. */
#ifndef PAPERS_HIDUP_GRAPH_H
#define PAPERS_HIDUP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/data/form.h"

enum { SPMD_READS = 10, SPMD_MAKES = 4, SPMD_NODES = 4096, SPMD_NAME = 64, SPMD_ARGUMENTS = 2 };
enum { SPMD_NO_TENSOR = UINT32_MAX };

enum spmd_kind {
    SPMD_INPUT,
    SPMD_PARAMETER,
    SPMD_FUNCTION, /* can always run with everything full, too */
    SPMD_ADAPTIVE, /* takes what there is: an item of a tuple */
    SPMD_OUTPUT,   /* wants the sum of the loss */
};

struct spmd_signature {
    uint8_t read[SPMD_READS], made[SPMD_MAKES]; /* forms */
};

struct spmd_tensor {
    uint32_t node, last; /* that makes it; the last one that reads it, or `node` */
    uint32_t rank;
    int64_t size[FORM_RANK];
};

struct spmd_node {
    const char *name, *op; /* unique; what it does */
    enum spmd_kind kind;
    uint32_t reads, makes;
    uint32_t read[SPMD_READS], made; /* tensors; the first that is made */
    double flop; /* forward, of the whole batch, as published; backward twice as much */
    size_t arguments;
    int64_t argument[SPMD_ARGUMENTS]; /* what an execution has to know besides the shapes */
    bool product; /* whose work counts three operations for a multiplication and an addition */
    size_t signatures;
    struct spmd_signature *signature;
};

/* Grows node by node. The first failure stays in `status`, and all that comes behind it does
 * nothing; texts and arrays live in `memory`. */
struct spmd_graph {
    size_t nodes, tensors;
    struct spmd_node *node;
    struct spmd_tensor *tensor;
    enum data_type dtype;       /* DATA_ANY: as fp32 */
    bool compat;                /* signatures as the published code has them, its faults included */
    char prefix[SPMD_NAME / 2]; /* of names of nodes */
    enum status status;
    struct arena memory;
};

/* Append a node; `read` may be NULL for n 0. `op` is borrowed, the name copied behind the
 * prefix. */
void spmd_add(struct spmd_graph *g, enum spmd_kind kind, const char *op, const char *name,
              const uint32_t *read, size_t n);
/* One more tensor that the last node makes; its index. */
uint32_t spmd_make(struct spmd_graph *g, size_t rank, const int64_t *size);
/* One more signature of the last node: letters of what is read, '>', letters of what is made. */
void spmd_sign(struct spmd_graph *g, const char *letters);
/* The same for several, separated by blanks. */
void spmd_sign_all(struct spmd_graph *g, const char *list);
/* One more argument of the last node. */
void spmd_argue(struct spmd_graph *g, int64_t argument);
/* The last node's work. */
void spmd_work(struct spmd_graph *g, double flop);
/* The same of a product of so many multiplications and additions. */
void spmd_product(struct spmd_graph *g, double pairs);

/* Check and complete: names, last readers, full signatures of functions. Returns the status; after
 * a failure the graph is to be freed all the same. */
enum status spmd_finish(struct spmd_graph *g) MUST_CHECK;
void spmd_graph_free(struct spmd_graph *g); /* accepts {0}; leaves {0} */

double spmd_elements(const struct spmd_graph *g, uint32_t tensor);
double spmd_bytes(const struct spmd_graph *g, uint32_t tensor);
static inline enum data_type spmd_dtype(const struct spmd_graph *g)
{
    return g->dtype == DATA_ANY ? DATA_fp32 : g->dtype;
}
/* Is the tensor a parameter, which both halves of a batch share? */
static inline bool spmd_is_parameter(const struct spmd_graph *g, uint32_t tensor)
{
    return g->node[g->tensor[tensor].node].kind == SPMD_PARAMETER;
}
/* "0FF>0"; returns `text`. */
enum { SPMD_LETTERS = SPMD_READS + SPMD_MAKES + 2 };
const char *spmd_letters(const struct spmd_node *n, const struct spmd_signature *s,
                         char text[SPMD_LETTERS]);
/* Does every form of a signature leave the work whole? */
bool spmd_is_whole(const struct spmd_node *n, const struct spmd_signature *s);

/* Keep only the signatures whose made tensors are in one of the forms of a hint,
 * "NODE=FORM[+FORM]" with forms as letters or names. STATUS_USAGE: no such node or form;
 * STATUS_INFEASIBLE: the node makes none of them; both name the node. */
enum status spmd_restrict(struct spmd_graph *g, const char *hint) MUST_CHECK;

/* Keep only what so many devices can execute: heads of attention are whole on a device, so that
 * it is not divided over heads where these do not divide over the devices. O(signatures). Nodes
 * are named by STATUS_INVALID: channels that are not a multiple of the heads, tokens that go to
 * more experts than there are; and by STATUS_INFEASIBLE: hints leave nothing else than to divide
 * heads. */
enum status spmd_divide(struct spmd_graph *g, size_t devices) MUST_CHECK;

#endif
