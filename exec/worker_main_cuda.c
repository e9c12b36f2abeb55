/* foreline-worker-cuda - one rank of a run on a GPU. An executable of its own, because the CUDA
 * libraries are large and not everywhere. With --self-test [layers | attention | mixture | kinds |
 * cudnn | cudnn-speed] it checks the GPU instead, and `foreline calibrate` and `model profile` ask
 * it for figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/core_type.h"
#include "exec/device/cuda/calibrate.h"
#include "exec/device/cuda/selftest.h"
#include "exec/ranges.h"
#include "exec/worker.h"

/* What must be set before CUDA and NCCL start; what the user has set stays. */
static void set_environment(void)
{
    char host[32];
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* streams that do not wait for each other */
    /* NCCL makes all connections with a communicator, not in the first step that needs them: that
     * would take memory, and wait for the GPU. */
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    if (!getenv("FORELINE_SHARE_GPU"))
        return;
    /* NCCL before 2.30 refuses two ranks on a GPU unless it takes them for two machines. */
    snprintf(host, sizeof host, "foreline%ld", (long)getpid());
    setenv("NCCL_HOSTID", host, 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
    setenv("NCCL_MAX_CTAS", "2", 0);
}

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_cuda, &device_cuda_paced, &device_cpu,
                                                   &device_paced, NULL};
    static const struct transport *const transports[] = {&transport_tcp, &transport_nccl,
                                                         &transport_local_cuda, NULL};
    static const char *const parts[] = {
        [SELFTEST_LAYERS] = "layers",   [SELFTEST_ATTENTION] = "attention",
        [SELFTEST_MIXTURE] = "mixture", [SELFTEST_KINDS] = "kinds",
        [SELFTEST_CUDNN] = "cudnn",     [SELFTEST_CUDNN_SPEED] = "cudnn-speed"};
    if (argc == 2 && strcmp(argv[1], "--self-test") == 0)
        return cuda_selftest(stdout, SELFTEST_ALL);
    for (int k = SELFTEST_LAYERS; k < SELFTEST_PARTS; k++)
        if (argc == 3 && strcmp(argv[1], "--self-test") == 0 && strcmp(argv[2], parts[k]) == 0)
            return cuda_selftest(stdout, (enum selftest_part)k);
    set_environment();
    core_type_restart(argv);
    if (cuda_measures(argc, argv))
        return cuda_measure(argc, argv);
    return worker_main(argc, argv,
                       &(const struct worker_parts){devices, transports, ranges_nvtx()});
}
