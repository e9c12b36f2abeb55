#include "exec/device/cuda/nvml.h"

#include <dlfcn.h>
#include <stddef.h>

/* As nvml.h of the driver declares them; 0 is success. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };
typedef int nvml_init(void);
typedef int nvml_find(const char *bus, void **device);
typedef int nvml_clock(void *device, int which, unsigned *MHz);
typedef int nvml_power(void *device, unsigned *milliwatts);

union entry {
    void *object;
    nvml_init *plain;
    nvml_find *find;
    nvml_clock *clock;
    nvml_power *power;
};

static union entry entry(void *handle, const char *name)
{
    return (union entry){.object = dlsym(handle, name)};
}

/* One handle for the process: threads of one worker all have it opened. NULL: there is none. */
static void *library(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml_init *init = handle ? entry(handle, "nvmlInit_v2").plain : NULL;
    return init && init() == 0 ? handle : NULL;
}

bool nvml_read(const char *bus, struct nvml_figures *out)
{
    void *handle = library(), *device = NULL;
    unsigned value;
    if (!handle)
        return false;
    nvml_find *find = entry(handle, "nvmlDeviceGetHandleByPciBusId_v2").find;
    nvml_clock *clock = entry(handle, "nvmlDeviceGetClockInfo").clock;
    nvml_power *power = entry(handle, "nvmlDeviceGetPowerUsage").power;
    nvml_init *shutdown = entry(handle, "nvmlShutdown").plain;
    bool found = find && find(bus, &device) == 0;
    *out = (struct nvml_figures){0};
    if (found && clock && clock(device, CLOCK_SM, &value) == 0)
        out->clock_Hz = value * 1e6;
    if (found && clock && clock(device, CLOCK_MEMORY, &value) == 0)
        out->memory_Hz = value * 1e6;
    if (found && power && power(device, &value) == 0)
        out->watts = value * 1e-3;
    if (shutdown)
        shutdown();
    dlclose(handle);
    return found;
}
