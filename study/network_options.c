/* Options about how an engine simulates the network. */
#include "study/network_options.h"

#include "sim/ns3.h"

enum status network_options_read(const struct arguments *a, const struct engine *engine,
                                 struct simulation_options *out)
{
    if (arguments_given(a, "network-model") && !engine->models)
        return error_set(STATUS_USAGE,
                         "--network-model has no effect with --engine %s, only with simgrid",
                         engine->name);
    if (arguments_given(a, "ns3") && !engine->packets)
        return error_set(STATUS_USAGE, "--ns3 has no effect with --engine %s, only with ns3",
                         engine->name);
    if (engine->packets)
        PASS(ns3_settings_use(a->sim.ns3));
    out->network_model = a->sim.network_model;
    out->ns3 = a->sim.ns3;
    return STATUS_OK;
}
