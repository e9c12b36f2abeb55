/* All that calls igraph as a module. */
#include "partition/igraph_module.h"

#include "core/base/provenance.h"
#include "partition/capacity.h"
#include "partition/tiers_levels.h"

extern const struct igraph_module igraph_module;
__attribute__((visibility("default"))) const struct igraph_module igraph_module = {
    .module = {foreline_version, module_adopt},
    .capacity_find = capacity_find,
    .tiers_estimate = tiers_estimate,
    .model_alike = model_alike,
#define PROPOSER(name, word, summary)
#define IGRAPH_PROPOSER(name, word, summary) .proposer_##name = proposer_##name,
#include "partition/graph/proposers.def"
#undef IGRAPH_PROPOSER
#undef PROPOSER
};
