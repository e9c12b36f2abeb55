/* fake_device.h - a device without numerics that checks what it is asked to do, and breaks when
 * told.
 *
 * For toy_pipeline(): forward of stage s turns the number x of a microbatch into 3 x + s + step,
 * backward adds 1; messages carry the number in every byte. Calls that come in the wrong order, and
 * messages or sums that are not what they must be, are errors.
 *
 * FAKE="rank call action": at its call number `call` of forward, backward and update (0: open) the
 * rank does "kill" (itself, signal 9), "stop" (SIGSTOP), "exit" (status 3), "error" or "hang".
 * FAKE_GPUS="ab-!": rank 0 has GPU a, rank 1 GPU b, rank 2 none, and rank 3 cannot use its own. */
#ifndef TESTS_FAKE_DEVICE_H
#define TESTS_FAKE_DEVICE_H

#include "exec/device.h"

extern const struct device device_fake;

#endif
