/* What the module exports about plans. */
#include "core/base/provenance.h"
#include "papers/command/command.h"
#include "papers/module/services.h"
#include "papers/pipedream/driver.h"

extern const struct papers_of_plans papers_of_plans;
__attribute__((visibility("default"))) const struct papers_of_plans papers_of_plans = {
    .module = {foreline_version, module_adopt},
    .serve = services_take,
    .by_objective = objective_command,
    .of_objective = objective_of_point,
    .translate_driver = driver_translate,
};
