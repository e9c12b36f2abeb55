/* fake_device.h - a device without numerics that checks what it is asked to do, and breaks when
 * told.
 *
 * For toy_pipeline(): forward of stage s turns the number x of a microbatch into 3 x + s + step,
 * backward adds 1; messages carry the number in every byte. Calls that come in the wrong order, and
 * messages or sums that are not what they must be, are errors.
 *
 * FAKE="rank call action": at its call number `call` of forward, backward and update (0: open) the
 * rank does "kill" (itself, signal 9), "stop" (SIGSTOP), "exit" (status 3), "error" or "hang". */
#ifndef TESTS_FAKE_DEVICE_H
#define TESTS_FAKE_DEVICE_H

#include "exec/device.h"

extern const struct device device_fake;

#endif
