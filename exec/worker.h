/* worker.h - one rank as a process: what `foreline-worker` and the tests' workers are made of.
 *
 *   worker --program FILE --model FILE --device NAME [--text FILE] [--learning-rate X] --steps N
 *          --timeout SECONDS
 *
 * Environment: RANK, WORLD_SIZE; FORELINE_LAUNCHER=address:port and FORELINE_TOKEN (hexadecimal) of
 * the launcher, which gets all results and errors through the control connection (rendezvous.h).
 * Nothing is printed unless the launcher cannot be reached. Exit status 0: DONE was sent. */
#ifndef EXEC_WORKER_H
#define EXEC_WORKER_H

#include <stddef.h>

#include "exec/device.h"

int worker_main(int argc, char **argv, const struct device *const *device, size_t devices);

#endif
