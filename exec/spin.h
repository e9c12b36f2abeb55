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

struct spin {
    size_t looks;          /* still to be made without looking at the clock, */
    double until_s, now_s; /* and then until this moment; 0: not known yet */
};

/* What the calling thread has spent so, but for looks without the clock: of its CPU time this is
 * what nobody else would have had to do without. */
extern _Thread_local double spin_spent_s;

/* looks: how many take a few us at most; a look at the clock may take as long as ten at memory. */
static inline struct spin spin_begin(bool allowed, size_t looks)
{
    return allowed ? (struct spin){looks, 0, 0} : (struct spin){0, -1, 0};
}

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Once more? */
static inline bool spin_again(struct spin *s)
{
    if (s->looks > 0) {
        s->looks--;
        return true;
    }
    if (s->until_s < 0)
        return false;
    double now_s = clock_now();
    if (s->until_s <= 0)
        s->until_s = now_s + SPIN_S;
    else
        spin_spent_s += now_s - s->now_s;
    s->now_s = now_s;
    spin_pause();
    return now_s < s->until_s;
}

#endif
