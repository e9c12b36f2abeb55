/* foreline-worker - one rank of a run, with every device of this build. Started by `foreline run`.
 */
#include "exec/worker.h"

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_cpu, &device_paced};
    return worker_main(argc, argv, devices, sizeof devices / sizeof *devices);
}
