/* A worker whose only device is the fake one: what tests/test_launch.c starts. */
#include "exec/worker.h"
#include "tests/fake_device.h"

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_fake};
    return worker_main(argc, argv, devices, 1);
}
