/* Sites with a switch each, joined by long lines through one point without limits of its own. */
#include "topologies/family.h"

enum { SITES, NODES, GPUS, NICS, TYPE, LINE, LATENCY, NIC, NVLINK, PARAMETERS };

static const struct family_parameter parameter[PARAMETERS] = {
    [SITES] = {"sites", "sites", FAMILY_COUNT, "2", 1, 1024},
    [NODES] = {"nodes", "nodes of a site", FAMILY_COUNT, "2", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "1", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "A100", 0, 0},
    [LINE] = {"line", "what a site has to the others", FAMILY_RATE, "10Gbps", 0, 0},
    [LATENCY] = {"latency", "one way between two sites, besides their ports", FAMILY_TIME, "10ms",
                 0, 0},
    [NIC] = {"nic", "one network port", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
};

static struct cluster_node wan_node_of(const struct family_value *v)
{
    return cluster_node(v[GPUS].number, v[NICS].number, 0, &v[TYPE], v[NVLINK].number,
                        v[NIC].number);
}

static size_t wan_devices(const struct family_value *v)
{
    double n = v[SITES].number * v[NODES].number * v[GPUS].number;
    return n < 1e15 ? (size_t)n : SIZE_MAX;
}

static void wan_describe(const struct family_value *v, FILE *to)
{
    const struct cluster_node node = wan_node_of(v);
    describe_cluster(to, &node, (size_t)(v[SITES].number * v[NODES].number));
    fprintf(to, ", %.0f sites, %.4g Gb/s and %.4g ms between them", v[SITES].number,
            v[LINE].number * 8e-9, v[LATENCY].number * 1e3);
}

static void wan_write(const struct family_value *v, FILE *to)
{
    const struct cluster_node node = wan_node_of(v);
    size_t sites = (size_t)v[SITES].number, each = (size_t)v[NODES].number;
    const struct cable line = {"wan", v[LINE].number, v[LATENCY].number / 2};
    put_gpu_properties(to, node.gpu);
    for (size_t n = 0; n < sites * each; n++)
        put_cluster_node(to, &node, n);
    if (sites > 1)
        fputs("    <router id=\"exchange\"/>\n", to);
    for (size_t s = 0; s < sites; s++) {
        fprintf(to, "    <router id=\"site%zu\"/>\n", s);
        if (sites > 1)
            put_cable(to, &line, "site%zu-line", s);
    }
    for (size_t n = 0; n < sites * each; n++)
        put_cluster_routes(to, &node, n, named("site%zu", n / each).id);
    for (size_t s = 0; s < sites && sites > 1; s++)
        put_route(to, named("site%zu", s).id, "exchange", named("site%zu-line", s).id);
}

const struct topology_family family_wan = {
    .name = "wan",
    .summary = "several sites over long lines",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = wan_devices,
    .describe = wan_describe,
    .write = wan_write,
};
