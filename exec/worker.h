/* worker.h - one rank as a process, or with transport local all of them: what `foreline-worker` and
 * the tests' workers are made of.
 *
 *   worker --program FILE --model FILE --device NAME [--transport NAME] [--text FILE]
 *          [--learning-rate X] --steps N [--warmup N] --timeout SECONDS [--paced 0|1]
 *          [--cuda-graphs 0|1] [--cudnn 0|1] [--bind 0|1] [--early 0|1]
 *          [--resume DIRECTORY_OF_A_STEP] [--checkpoint DIRECTORY --checkpoint-every N]
 *          [--log PREFIX]
 *
 * Environment: RANK, WORLD_SIZE or what stands for them (rendezvous_rank());
 * FORELINE_LAUNCHER=address:port and FORELINE_TOKEN (hexadecimal) of the launcher, which gets all
 * results and errors through the control connection (rendezvous.h); FORELINE_BEGIN=STEP:SECONDS,
 * before which CLOCK_MONOTONIC that step does not begin. With --early 1 the launcher
 * may not listen yet; else a worker that it refuses is one too many, and ends. With transport
 * local, RANK and WORLD_SIZE do not count; every rank has its control connection. Nothing is
 * printed unless the launcher cannot be reached, but with --log: what it is, how it ended and
 * whatever libraries print go to PREFIX.RANK, or PREFIX when it is all ranks. Exit status 0: DONE
 * was sent. */
#ifndef EXEC_WORKER_H
#define EXEC_WORKER_H

#include "exec/device.h"
#include "exec/transport.h"

/* What this executable is made of; lists end in NULL. The first transport is the default. */
struct worker_parts {
    const struct device *const *device;
    const struct transport *const *transport;
    const struct ranges *ranges; /* exec/ranges.h; NULL: no profiler is told anything */
};

int worker_main(int argc, char **argv, const struct worker_parts *have);

#endif
