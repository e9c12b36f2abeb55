/* core_type.h - which kernels OpenBLAS computes with on this machine.
 *
 * The OpenBLAS of distributions takes processors that are newer than it for the oldest ones, and
 * multiplies at a fifth of their speed. OPENBLAS_CORETYPE says which kernels to take instead; it
 * counts when the library is loaded. What the user has set stays. Our own choice is marked by
 * FORELINE_CORETYPE with the same value, so that a process on another machine that has inherited
 * both chooses anew. */
#ifndef EXEC_CORE_TYPE_H
#define EXEC_CORE_TYPE_H

#include <stdbool.h>

/* "SkylakeX" with AVX-512 (F, CD, BW, DQ, VL), "Haswell" with AVX2 and FMA, as processor and system
 * both have them; NULL: OpenBLAS knows better (AMD, older ones, other than x86-64). */
const char *core_type_name(void);
/* Set both variables for what is loaded from now on, while the process has one thread. False:
 * nothing had to be changed. */
bool core_type_set(void);
/* For a process that has OpenBLAS loaded already: if something had to be changed, it becomes itself
 * again. Returns otherwise, and where it cannot. */
void core_type_restart(char **argv);

#endif
