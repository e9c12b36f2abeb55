/* Words that settings take from other tables: objectives, engines, collectives. */
#include "study/settings_words.h"

#include <string.h>
#include <strings.h>

#include "campaign/timeline.h"
#include "core/collective/collective.h"
#include "core/strategy/framework.h"
#include "model/papers.h"
#include "sim/engines.h"
#include "study/frameworks/setup.h"
#include "study/plan_graph.h"
#include "study/point.h"

const char *settings_objective_word(size_t i)
{
    static const char *const own[] = {"pipeline", "campaign"};
    enum { OWN = sizeof own / sizeof *own };
    return i < OWN                         ? own[i]
           : i < OWN + papers_objectives_n ? papers_objectives[i - OWN].name
                                           : NULL;
}

const char *settings_profile_word(size_t i)
{
    return i < papers_profiles_n ? papers_profiles[i] : NULL;
}

const char *settings_simulator_word(size_t i)
{
    return i < engines_n ? engines[i]->name : NULL;
}

const char *settings_failures_word(size_t i)
{
    const char *text;
    return failures_preset(i, &text);
}

const char *settings_recovery_word(size_t i)
{
    return i < RECOVERIES ? recoveries[i].name : NULL;
}

/* Those of simulations and, behind them, the collectives that NCCL has itself. */
const char *settings_real_collective(size_t i)
{
    const char *name = collective_name(i);
    return !name && i > 0 && collective_name(i - 1) ? "nccl" : name;
}

const char *settings_runner_word(size_t i)
{
    return i < point_engines_n ? point_engines[i]->name : NULL;
}

const char *settings_engine_word(size_t i)
{
    return i < engines_n ? settings_simulator_word(i) : settings_runner_word(i - engines_n);
}

const char *settings_export_word(size_t i)
{
    size_t n = 0;
    while (dialect_name(n))
        n++;
    return i < n ? dialect_name(i) : i - n < plan_graphs_n ? plan_graphs[i - n].name : NULL;
}

/* Names of frameworks (core/strategy/framework.h) are those of their launchers. */
const char *settings_export_alias(const char *name)
{
    static const char *const of[][2] = {{"mcore", "megatron"},
                                        {"megatron-core", "megatron"},
                                        {"megatron-lm", "megatron"},
                                        {"megatronlm", "megatron"},
                                        {"torchtitan-toml", "torchtitan_toml"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcasecmp(of[i][0], name))
            return of[i][1];
    for (size_t i = 0; i < frameworks_n; i++)
        if (frameworks[i]->launcher && !strcasecmp(frameworks[i]->name, name))
            return frameworks[i]->launcher;
    return NULL;
}

/* What other frameworks and papers call a setting, and its name. */
static const char *const aliases[][2] = {
    {"pp", "pipeline-parallel"},
    {"pipeline-parallel-size", "pipeline-parallel"},
    {"pipeline-model-parallel-size", "pipeline-parallel"},
    {"dp", "data-parallel"},
    {"dp", "replicas"}, /* where nothing shares a sequence */
    {"data-parallel-size", "data-parallel"},
    {"vp", "chunks"},
    {"vpp", "chunks"},
    {"virtual-pipeline-model-parallel-size", "chunks"},
    {"virtual-stages", "chunks"},
    {"num-virtual-stages-per-pipeline-rank", "chunks"},
    {"num-model-chunks", "chunks"},
    {"mbs", "microbatch-size"},
    {"micro-batch-size", "microbatch-size"},
    {"gbs", "batch"},
    {"global-batch-size", "batch"},
    {"global-batch", "batch"},
    {"batch-size", "batch"},
    {"num-microbatches", "microbatches"},
    {"gas", "microbatches"},
    {"gradient-accumulation-steps", "microbatches"},
    {"seq-length", "tokens"},
    {"seq-len", "tokens"},
    {"sequence-length", "tokens"},
    {"lr", "learning-rate"},
};
enum { ALIASES = sizeof aliases / sizeof *aliases };

const char *settings_alias(size_t i, const char **means)
{
    *means = i < ALIASES ? aliases[i][1] : NULL;
    return i < ALIASES ? aliases[i][0] : NULL;
}
