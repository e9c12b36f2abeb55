/* failing_worker.h - a real worker that sends itself a signal at a chosen moment.
 *
 * FAIL="rank phase signal": the rank signals itself
 *   init       while the device is opened
 *   warm-up    in the first backward of step 0
 *   steady     in the first backward of step 4
 *   allreduce  while it waits for an all-reduce of step 4 that it has begun
 * more than a heartbeat after it got there, so that the launcher knows where that was. */
#ifndef TESTS_FAILING_WORKER_H
#define TESTS_FAILING_WORKER_H

#include "exec/transport.h"

/* worker_main() with the CPU device and this transport, both made to fail. */
int failing_worker(int argc, char **argv, const struct transport *transport);

#endif
