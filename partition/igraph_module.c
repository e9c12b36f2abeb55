/* alike.c, capacity.c and tiers_measured.c as a module. */
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
};
