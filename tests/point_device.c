#include "tests/point_device.h"

const struct device *const point_device = &device_cpu;
