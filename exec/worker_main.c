/* foreline-worker - one rank of a run, with every device of this build. Started by `foreline run`.
 */
#include "exec/core_type.h"
#include "exec/worker.h"

#include <stddef.h>

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_cpu, &device_paced, NULL};
    static const struct transport *const transports[] = {&transport_tcp, &transport_local, NULL};
    core_type_restart(argv);
    return worker_main(argc, argv, &(const struct worker_parts){devices, transports, NULL});
}
