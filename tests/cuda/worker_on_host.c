/* A worker whose devices "cuda", "paced-cuda" and "cpu" are the CUDA device without a GPU: for
 * tests/cuda/run.sh.
 */
#include <stddef.h>

#include "exec/device/cuda/calibrate.h"
#include "exec/worker.h"

int main(int argc, char **argv)
{
    struct device device = device_cuda;
    if (cuda_measures(argc, argv))
        return cuda_measure(argc, argv);
    device.name = "cpu";
    const struct device *const devices[] = {&device_cuda, &device_cuda_paced, &device, NULL};
    const struct transport *const transports[] = {&transport_tcp, NULL};
    return worker_main(argc, argv, &(const struct worker_parts){devices, transports});
}
