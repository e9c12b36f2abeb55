/* plan_graph.h - a plan as a table, and drawn as the graph of its model with a colour for each
 * stage, for programs that lay graphs out. */
#ifndef STUDY_PLAN_GRAPH_H
#define STUDY_PLAN_GRAPH_H

#include <stdio.h>

#include "study/load.h"

struct plan_graph {
    const char *name; /* of `plan export --to` */
    void (*write)(const struct loaded_plan *p, FILE *to);
};
extern const struct plan_graph plan_graphs[];
extern const size_t plan_graphs_n;

/* The format of that name; NULL: it is none of these. */
const struct plan_graph *plan_graph_find(const char *name);
/* Write the plan of a file so; `output` NULL: standard output. Errors as of load_plan();
 * STATUS_IO. */
enum status plan_graph_export(const char *plan, const struct plan_graph *format,
                              const char *output) MUST_CHECK;

#endif
