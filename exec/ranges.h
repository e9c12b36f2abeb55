/* ranges.h - what a profiler is told while a rank runs: ranges with the labels of the program's ops
 * inside a range per step, so that its picture has the names of ours (docs/reference/cuda.md).
 *
 *   device/cuda/ranges.c        NVTX, for Nsight Systems and its kin
 *   device/cuda/ranges_none.c   where its headers are not installed */
#ifndef EXEC_RANGES_H
#define EXEC_RANGES_H

#include <stdint.h>

/* Ranges of one thread nest; end() ends the newest. */
struct ranges {
    void (*begin)(const char *name, uint32_t kind); /* kind: enum op_kind, OP_KINDS of a step */
    void (*end)(void);
};

/* NULL: no profiler is there, so that runs without one pay nothing. */
const struct ranges *ranges_nvtx(void);

#endif
