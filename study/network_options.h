/* network_options.h - options about how an engine simulates the network. */
#ifndef STUDY_NETWORK_OPTIONS_H
#define STUDY_NETWORK_OPTIONS_H

#include "sim/engines.h"
#include "study/settings.h"

/* --network-model and --ns3, for an engine; to be called before a platform is read
 * (ns3_settings_use()). STATUS_USAGE: it takes no such option. */
enum status network_options_read(const struct arguments *a, const struct engine *engine,
                                 struct simulation_options *out) MUST_CHECK;

#endif
