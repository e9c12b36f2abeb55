/* What the module exports about frameworks. */
#include "core/base/provenance.h"
#include "papers/module/services.h"
#include "papers/pipedream/runtime.h"

extern const struct papers_of_frameworks papers_of_frameworks;
__attribute__((visibility("default"))) const struct papers_of_frameworks papers_of_frameworks = {
    .module = {foreline_version, module_adopt},
    .serve = services_take_note,
    .runtime = &pipedream_runtime,
};
