/* cores.h - cores of its own for each of some ranks. */
#ifndef EXEC_CORES_H
#define EXEC_CORES_H

#include <stddef.h>

/* Bind the caller's thread, and those that it starts, to part `i` of `n` equal parts of the cores
 * that it may use now: whole ones with all their hardware threads where there are n of them,
 * neighbours by number. A scheduler that may choose puts a rank that wakes up on the core of
 * another one, now and then, though one is idle: for two ranks on two cores that made iterations 4
 * to 7 % longer. Nothing is bound where n is 1 or there are fewer than n, or where the kernel does
 * not say or refuses. O(cores log cores), a small file for each. */
void cores_bind(size_t i, size_t n);

#endif
