/* A worker whose only device is the fake one: what tests/test_launch.c starts. */
#include <stddef.h>

#include "exec/worker.h"
#include "tests/fake_device.h"

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_fake, NULL};
    static const struct transport *const transports[] = {&transport_tcp, NULL};
    return worker_main(argc, argv, &(const struct worker_parts){devices, transports, NULL});
}
