/* One node: GPUs on an NVSwitch, no network. */
#include "topologies/family.h"

enum { GPUS, TYPE, NVLINK, PARAMETERS };

static const struct family_parameter parameter[PARAMETERS] = {
    [GPUS] = {"gpus", "GPUs", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
};

static size_t node_devices(const struct family_value *v)
{
    return (size_t)v[GPUS].number;
}

static void node_describe(const struct family_value *v, FILE *to)
{
    fprintf(to, "one node of %zu %s on an NVSwitch", node_devices(v), v[TYPE].gpu->name);
}

static void node_write(const struct family_value *v, FILE *to)
{
    double nvlink_Bps = v[NVLINK].number > 0 ? v[NVLINK].number : v[TYPE].gpu->nvlink_Bps;
    put_gpu_properties(to, v[TYPE].gpu);
    put_node(to, 0, node_devices(v), v[TYPE].gpu, nvlink_Bps);
    put_node_routes(to, 0, node_devices(v));
}

const struct topology_family family_node = {
    .name = "node",
    .summary = "a single node of GPUs on an NVSwitch",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = node_devices,
    .describe = node_describe,
    .write = node_write,
};
