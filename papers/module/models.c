/* What the module exports about models. */
#include "papers/hidup/models.h"
#include "core/base/provenance.h"
#include "papers/common/importers.h"
#include "papers/hidup/lowered.h"
#include "papers/pipedream/export.h"

static enum status flop(const char *spec, double *out)
{
    struct spmd_graph g = {0};
    PASS(spmd_model(spec, false, &g));
    *out = 0;
    for (size_t i = 0; i < g.nodes; i++)
        *out += g.node[i].flop;
    spmd_graph_free(&g);
    return STATUS_OK;
}

extern const struct papers_of_models papers_of_models;
__attribute__((visibility("default"))) const struct papers_of_models papers_of_models = {
    .module = {foreline_version, module_adopt},
    .read_pipedream = pipedream_read_model,
    .read_placement = placement_read_model,
    .read_piper = piper_read_model,
    .write_pipedream = model_export_pipedream,
    .build = spmd_load_model,
    .flop = flop,
    .option = spmd_options,
};
