/* strategy.h - a choice of signatures and stages: what it costs, and as a file, a text, a drawing.
 *
 * Which conversions a stage needs follows from the signatures: a tensor that is not in the form
 * that a node reads is converted at the beginning of the node's stage. So it must be there by then,
 * and has at most two forms at any time. */
#ifndef PAPERS_HIDUP_STRATEGY_H
#define PAPERS_HIDUP_STRATEGY_H

#include <stdio.h>

#include "papers/hidup/cost.h"

struct json_document;
struct provenance;

struct spmd_move {
    uint32_t tensor;
    uint8_t from, to;
};

struct spmd_stage {
    uint32_t first, nodes;
    size_t moves;
    struct spmd_move *move; /* [moves] in the order in which nodes need them */
};

struct spmd_strategy {
    const char *model;             /* as the command line names it */
    struct spmd_signature *chosen; /* [nodes of the graph] */
    size_t stages;
    struct spmd_stage *stage; /* [stages] */
};

/* Complete a strategy whose `chosen`, and first and nodes of whose stages, are in place: its moves,
 * out of *memory. STATUS_INVALID names the node that cannot have what it reads; STATUS_NOMEM.
 * O(nodes). */
enum status spmd_complete(const struct spmd_graph *g, struct arena *memory,
                          struct spmd_strategy *s) MUST_CHECK;
/* Seconds of an iteration. O(nodes + moves). */
double spmd_seconds(const struct spmd_costs *c, const struct spmd_graph *g,
                    const struct spmd_strategy *s);

/* JSON, format "foreline-strategy" version 1: of every stage its communications, of every node its
 * signature. */
void spmd_put(const struct spmd_graph *g, const struct spmd_strategy *s,
              const struct provenance *by, FILE *to);
/* What a file says of the graph, out of *memory; `model` is borrowed. STATUS_PARSE, with the place:
 * another model, nodes missing, twice or in another order, signatures that the node does not have,
 * communications that do not follow from them. */
enum status spmd_read(const struct json_document *d, const struct spmd_graph *g, const char *model,
                      struct arena *memory, struct spmd_strategy *out) MUST_CHECK;
/* The signature of a node that is written so. STATUS_INVALID. */
enum status spmd_choose(const struct spmd_node *n, const char *letters,
                        struct spmd_signature *out) MUST_CHECK;
/* A line per communication and computation, stage by stage; and the same for Graphviz. */
void spmd_print(const struct spmd_graph *g, const struct spmd_strategy *s, FILE *to);
void spmd_draw(const struct spmd_graph *g, const struct spmd_strategy *s, FILE *to);

#endif
