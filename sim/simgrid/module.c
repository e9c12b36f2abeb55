/* What the module has for the command that loads it. */
#include "sim/simgrid_module.h"

#include "core/base/provenance.h"
#include "sim/simgrid/tasks.h"

extern const struct simgrid_module simgrid_module;
__attribute__((visibility("default"))) const struct simgrid_module simgrid_module = {
    .module = {foreline_version},
    .task = {[SIMGRID_DESCRIBE] = simgrid_describe, [SIMGRID_SIMULATE] = simgrid_simulate},
    .message = error_message,
};
