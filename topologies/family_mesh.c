/* One node: a link from each GPU to each other, no network. */
#include "topologies/family.h"

enum { GPUS, TYPE, LINK, PARAMETERS };

static const struct family_parameter parameter[PARAMETERS] = {
    [GPUS] = {"gpus", "GPUs", FAMILY_COUNT, "8", 1, 256},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "MI300X", 0, 0},
    [LINK] = {"link", "between two GPUs (default: the type's NVLink over its peers)", FAMILY_RATE,
              NULL, 0, 0},
};

static size_t mesh_devices(const struct family_value *v)
{
    return (size_t)v[GPUS].number;
}

static struct cable mesh_link_of(const struct family_value *v)
{
    double Bps = v[LINK].number > 0 ? v[LINK].number
                                    : v[TYPE].gpu->nvlink_Bps / (double)(mesh_devices(v) - 1);
    return (struct cable){"link", Bps, 2 * nvlink_latency_s};
}

static void mesh_describe(const struct family_value *v, FILE *to)
{
    fprintf(to, "one node of %zu %s, a link of %.4g GB/s for each pair", mesh_devices(v),
            v[TYPE].gpu->name, mesh_link_of(v).bandwidth_Bps / 1e9);
}

static void mesh_write(const struct family_value *v, FILE *to)
{
    const struct cable link = mesh_link_of(v);
    put_gpu_properties(to, v[TYPE].gpu);
    for (size_t g = 0; g < mesh_devices(v); g++)
        fprintf(to, "    <host id=\"n0g%zu\" speed=\"%.12gf\"/>\n", g, v[TYPE].gpu->flops);
    for (size_t g = 0; g < mesh_devices(v); g++)
        for (size_t h = g + 1; h < mesh_devices(v); h++)
            put_cable(to, &link, "g%zu-g%zu", g, h);
    for (size_t g = 0; g < mesh_devices(v); g++)
        for (size_t h = g + 1; h < mesh_devices(v); h++)
            fprintf(to,
                    "    <route src=\"n0g%zu\" dst=\"n0g%zu\">"
                    "<link_ctn id=\"g%zu-g%zu\" direction=\"UP\"/></route>\n",
                    g, h, g, h);
}

const struct topology_family family_mesh = {
    .name = "mesh",
    .summary = "a single node with a link for each pair of GPUs",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = mesh_devices,
    .describe = mesh_describe,
    .write = mesh_write,
};
