/* spin.h - waiting awake for a moment, before sleeping.
 *
 * A thread that sleeps is woken some 5 to 50 us after what it waits for, longer than a small
 * message takes. So whoever waits looks again and again for SPIN_S first: that is what a wait may
 * cost of a core beyond sleeping. Where there are more ranks than processors nobody does, for the
 * others need them. */
#ifndef EXEC_SPIN_H
#define EXEC_SPIN_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "core/base/clock.h"

#define SPIN_S 5e-5

/* May so many ranks wait awake on this machine? */
static inline bool spin_allowed(size_t ranks)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 1 && ranks <= (size_t)processors;
}

/* Until when, from now on. */
static inline double spin_until(bool allowed)
{
    return allowed ? clock_now() + SPIN_S : 0;
}

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Once more? */
static inline bool spin_again(double until_s)
{
    spin_pause();
    return clock_now() < until_s;
}

#endif
