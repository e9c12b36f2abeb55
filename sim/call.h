/* call.h - one collective as a program: what an engine says of it alone. */
#ifndef SIM_CALL_H
#define SIM_CALL_H

#include "core/data/program.h"
#include "core/data/topology.h"
#include "core/engine/engine.h"

/* Seconds of one collective of `bytes` (collective.h) among the first `ranks` devices of a
 * topology.
 *
 *   platform  as of engine.run()
 *   options   may be NULL
 * STATUS_INVALID: ranks is 0 or more than there are devices; else as engine.run() fails. */
struct call {
    const struct topology *topology;
    const char *platform;
    size_t ranks;
    enum op_kind kind;
    int64_t bytes;
};
enum status call_simulate(const struct call *call, const struct engine *engine,
                          const struct collective_options *options, double *seconds) MUST_CHECK;

#endif
