/* steady.h - the middle of an iteration that repeats, found and proved on the events of a shorter
 * one.
 *
 * An engine's state at a moment is which ops have ended, which are under way, and what remains of
 * these; what it does next depends on that and on the ops still to come alone. If at a moment y of
 * an iteration of n microbatches the state is the one at y + step, but for ops that are `unit`
 * microbatches further, then an iteration of n + unit microbatches does the same up to y + step and
 * from there on what this one does from y on: it takes `step` longer, and so on for every further
 * unit. This is checked for all ranks:
 *
 *   - in the middle of each rank's list every op has an image, the same op `unit` microbatches
 *     later, at the same distance to the ops that it depends on;
 *   - a window longer than `step` is clear: every op that touches it starts and ends `step` before
 *     its image does, and every op that is under way at its end began inside it (so what remains
 *     of it was shared alike: engines share by what is in flight, not by what remains);
 *   - what has no earlier image has ended before the window, what has no later one begins after.
 *
 * Equal differences of iteration times alone prove nothing: a slow circuit that has more slack at
 * first overtakes the others only when that is used up (Baccelli et al., Synchronization and
 * Linearity, 1992, section 3.7: the transient of a max-plus system can be as long as one likes).
 * That lists of n and of more microbatches differ by whole units is lowering's to say
 * (lower.h: plan_lower_repeats()). */
#ifndef CORE_DATA_STEADY_H
#define CORE_DATA_STEADY_H

#include "core/data/measurement.h"

struct steady {
    bool found;
    double from_s, step_s; /* the window [from_s, from_s + step_s) recurs every step_s */
    size_t *from, *to;     /* [ranks] ops of one recurrence of each rank: op[from .. to) */
};

/* Look for the part of a simulated iteration that repeats.
 *
 *   unit          microbatches after which the lists repeat, >= 1
 *   resolution_s  differences of two times that the engine cannot tell apart; 0: only rounding
 * A middle that does not repeat is no error: found is false. O(ops). STATUS_NOMEM. */
enum status steady_find(const struct program *p, const struct timeline *t, uint32_t unit,
                        double resolution_s, struct steady *out) MUST_CHECK;
void steady_free(struct steady *s); /* accepts {0}; leaves {0} */

#endif
