/* smpi.h - a second opinion: the worker's own executor and MPI transport on a simulated network. */
#ifndef SIM_SMPI_H
#define SIM_SMPI_H

#include "core/engine/engine.h"

/* Runs foreline-worker-smpi.so, found beside this executable or at $FORELINE_WORKER_SMPI, under
 * smpirun on the platform, one rank per host of the program. An op's end is when its rank noticed:
 * for communication that is the rank's next call of the transport. No links are reported. Not in
 * engines[]: a process per prediction is no engine for searches.
 * STATUS_IO: smpirun or the worker is missing; STATUS_EXTERNAL with SimGrid's or the worker's
 * reason, as when the executor cannot run the program. */
extern const struct engine engine_smpi;

#endif
