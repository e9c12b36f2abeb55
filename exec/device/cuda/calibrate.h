/* calibrate.h - what the GPU's ops cost: foreline-worker-cuda as exec/calibrate/probe.h calls it.
 * */
#ifndef EXEC_DEVICE_CUDA_CALIBRATE_H
#define EXEC_DEVICE_CUDA_CALIBRATE_H

#include <stdbool.h>

/* Do the arguments ask for figures? */
bool cuda_measures(int argc, char **argv);
/* Then: print them, or a complaint on stderr. Exit status. */
int cuda_measure(int argc, char **argv);

#endif
