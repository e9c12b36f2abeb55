/* point_device.h - the device that a test asks: each of its executables has one. */
#ifndef TESTS_POINT_DEVICE_H
#define TESTS_POINT_DEVICE_H

#include "exec/device.h"

extern const struct device *const point_device;

#endif
