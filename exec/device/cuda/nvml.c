#include "exec/device/cuda/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
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

/* The library, started; NULL: there is none. It stays until the process ends: starting it may take
 * as long as the second that a figure is of, in which the GPU would do nothing. */
static void *library;

static void nvml_load(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml_init *init = handle ? entry(handle, "nvmlInit_v2").plain : NULL;
    if (init && init() == 0)
        library = handle;
    else if (handle)
        dlclose(handle);
}

bool nvml_read(const char *bus, struct nvml_figures *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *device = NULL;
    unsigned value;
    if (pthread_once(&once, nvml_load) != 0 || !library)
        return false;
    nvml_find *find = entry(library, "nvmlDeviceGetHandleByPciBusId_v2").find;
    nvml_clock *clock = entry(library, "nvmlDeviceGetClockInfo").clock;
    nvml_power *power = entry(library, "nvmlDeviceGetPowerUsage").power;
    bool found = find && find(bus, &device) == 0;
    *out = (struct nvml_figures){0};
    if (found && clock && clock(device, CLOCK_SM, &value) == 0)
        out->clock_Hz = value * 1e6;
    if (found && clock && clock(device, CLOCK_MEMORY, &value) == 0)
        out->memory_Hz = value * 1e6;
    if (found && power && power(device, &value) == 0)
        out->watts = value * 1e-3;
    return found;
}
