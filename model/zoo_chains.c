/* Two chains, a toy for partitioners. Ops 0 .. n/2 are a chain, n/2 + 1 .. n - 1 another, whose
 * end op n/2 reads too; every op has 2 parameters. As an undirected graph it is one path, so
 * that optimal cuts are known. */
#include "model/zoo.h"

#include <stdio.h>

#include "model/graph.h"

/* An op y = a x + b on one number: 2 parameters. */
static void add_cell(struct graph *g, size_t index)
{
    char name[32];
    snprintf(name, sizeof name, "node%zu", index);
    graph_add(g, &(struct graph_op){.name = name,
                                    .kind = "cell",
                                    .forward_flop = 2,
                                    .backward_flop = 4,
                                    .forward_bytes = 2 * sizeof(float),
                                    .backward_bytes = 4 * sizeof(float),
                                    .parameter_bytes = 2 * sizeof(float),
                                    .shares = MODEL_NO_OP,
                                    .stash_bytes = sizeof(float),
                                    .output_bytes = sizeof(float)});
}

enum { CHAINS_OPS, CHAINS_PARAMETERS };

static const struct zoo_parameter two_chains[] = {
    [CHAINS_OPS] = {"ops", "ops of both chains together", 201, 3, 100000},
};

static enum status build_two_chains(const int64_t *value, struct model *out)
{
    struct graph g = {.model = {.element_bytes = sizeof(float)}};
    uint32_t n = (uint32_t)value[CHAINS_OPS], join = n / 2;
    for (uint32_t i = 0; i < n; i++)
        add_cell(&g, i);
    for (uint32_t i = 0; i + 1 < n; i++)
        if (i != join)
            graph_connect(&g, i, i + 1);
    graph_connect(&g, n - 1, join);
    return graph_finish(&g, "two-chains", "two chains of equal ops that end in the same op", out);
}

const struct zoo_entry zoo_two_chains = {
    "two-chains",      "toy model for partitioners: two chains of equal ops that end in one op",
    CHAINS_PARAMETERS, two_chains,
    build_two_chains,  NULL};
