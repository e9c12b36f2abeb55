/* igraph_module.h - the shared object that has igraph in it, and what it is asked for. igraph takes
 * ARPACK, LAPACK and BLAS with it, which may start threads; few commands need it. */
#ifndef PARTITION_IGRAPH_MODULE_H
#define PARTITION_IGRAPH_MODULE_H

#include "core/base/module.h"
#include "core/data/topology.h"
#include "partition/alike.h"
#include "partition/graph/proposers.h"
#include "partition/tiers.h"

/* What it exports, as "igraph_module". */
struct igraph_module {
    struct module module;
    enum status (*capacity_find)(struct topology *t);
    enum status (*tiers_estimate)(const struct topology *t, struct tiers *x);
    enum status (*model_alike)(const struct model *a, const struct model *b, enum model_alike *out);
#define PROPOSER(name, word, summary)
#define IGRAPH_PROPOSER(name, word, summary)                                                       \
    enum status (*proposer_##name)(const struct units *u, size_t parts, double *key);
#include "partition/graph/proposers.def"
#undef IGRAPH_PROPOSER
#undef PROPOSER
};

#endif
