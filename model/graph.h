/* graph.h - building a model op by op, for zoo families and importers.
 *
 * Errors stick: after the first failure the add functions do nothing, so that a family reads as
 * the network it describes; graph_finish() reports what went wrong. */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "core/data/model.h"

enum { GRAPH_INPUTS = 2, GRAPH_ATTRIBUTES = 12, GRAPH_PREFIX = 32 };

struct graph_attribute {
    const char *name; /* NULL ends the list */
    int64_t value;
};

/* One op to append. Sizes and work are per sample, as in struct model_op; strings are copied. */
struct graph_op {
    const char *name, *kind;
    struct graph_attribute attribute[GRAPH_ATTRIBUTES];
    size_t inputs;
    uint32_t input[GRAPH_INPUTS]; /* [inputs] producers in argument order */
    double forward_flop, backward_flop, forward_bytes, backward_bytes;
    int64_t parameter_bytes, shared_bytes;
    bool sparse;     /* see core/data/model.h */
    uint32_t shares; /* MODEL_NO_OP: nothing borrowed */
    enum model_tensor tensor;
    bool narrow; /* its products are as narrow as the model's, fp8 or fp4; else bf16 beside it */
    int64_t exchange_bytes, context_bytes;
    int64_t stash_bytes, output_bytes;
};

struct graph {
    struct model model;
    size_t edges;
    struct model_edge *edge;   /* [edges] */
    char prefix[GRAPH_PREFIX]; /* put before the names of ops that are added, "" at first */
    enum status status;
};

/* A model whose numbers are of that type. */
struct graph graph_begin(enum data_type dtype);
/* Bytes of an operand of its matrix products. */
int64_t graph_operand(const struct graph *g);
/* Append an op with its in-edges; returns its index, 0 once something has failed. */
uint32_t graph_add(struct graph *g, const struct graph_op *op);
/* Append an edge; from MODEL_NO_OP, which is outside of the model, there is none. */
void graph_connect(struct graph *g, uint32_t from, uint32_t to);

/* Append a profile: times of the ops added so far, copied; device NULL: any. */
void graph_profile(struct graph *g, const struct model_profile *p);

/* Outputs that no backward reads again are not kept: once, over the finished graph. */
enum status graph_keep_needed(struct graph *g) MUST_CHECK;
/* Turn the graph into a model called `name`, which is also what messages start with; `note` may be
 * NULL. Leaves *g empty in every case; *out is set on success only. */
enum status graph_finish(struct graph *g, const char *name, const char *note,
                         struct model *out) MUST_CHECK;
void graph_free(struct graph *g); /* accepts {0}; leaves {0} */

#endif
