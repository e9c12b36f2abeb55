/* libnvidia-ml.so.1 of a machine whose only GPU that it knows is at this address, at 1,980 MHz. */
#include <string.h>

static int known;

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *MHz);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    *device = &known;
    return strcmp(bus, "0000:10:00.0") == 0 ? 0 : 6; /* NVML_ERROR_NOT_FOUND */
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *MHz)
{
    *MHz = which == 1 ? 1980 : 2619;
    return device == &known && (which == 1 || which == 2) ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 612500;
    return device == &known ? 0 : 2;
}
