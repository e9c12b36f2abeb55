/* Domains of many GPUs on one NVSwitch fabric (GB200 NVL72), a network port for each GPU, a leaf
 * switch for each domain. Device nNgG is GPU G of domain N. */
#include "topologies/family.h"

enum {
    DOMAINS,
    GPUS,
    TYPE,
    OVERSUBSCRIPTION,
    NIC,
    NVLINK,
    SPINES,
    UPLINKS,
    PATHS,
    FABRIC,
    PARAMETERS
};

static const struct family_parameter parameter[PARAMETERS] = {
    [DOMAINS] = {"domains", "NVSwitch domains", FAMILY_COUNT, "2", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a domain", FAMILY_COUNT, "72", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "GB200", 0, 0},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a domain's leaf: ports below per port above",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "network port of a GPU", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [SPINES] = FAMILY_SPINES,
    [UPLINKS] = FAMILY_UPLINKS,
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

static struct cluster_node domain(const struct family_value *v)
{
    return cluster_node(v[GPUS].number, v[GPUS].number, 0, &v[TYPE], v[NVLINK].number,
                        v[NIC].number);
}

static size_t nvl_devices(const struct family_value *v)
{
    return (size_t)v[DOMAINS].number * (size_t)v[GPUS].number;
}

static enum status nvl_check(const struct family_value *v)
{
    return family_check_ways("nvl", &v[SPINES], &v[UPLINKS], &v[PATHS]);
}

static void nvl_describe(const struct family_value *v, FILE *to)
{
    const struct cluster_node d = domain(v);
    const struct family_ways ways = family_ways(&v[SPINES], &v[UPLINKS], &v[PATHS]);
    fprintf(to, "%.0f NVSwitch domains x %zu %s, %.4g Gb/s a GPU, leaves %.4g:1", v[DOMAINS].number,
            d.gpus, d.gpu->name, d.nic_Bps * 8e-9, v[OVERSUBSCRIPTION].number);
    if (ways.switches > 0) {
        fputs(", ", to);
        describe_spines(to, &ways);
    }
}

static void nvl_write(const struct family_value *v, FILE *to)
{
    const struct cluster_node d = domain(v);
    size_t domains = (size_t)v[DOMAINS].number;
    const struct cable up = {"spine", cluster_node_Bps(&d) / v[OVERSUBSCRIPTION].number,
                             switch_latency_s};
    const struct family_ways ways = family_ways(&v[SPINES], &v[UPLINKS], &v[PATHS]);
    put_gpu_properties(to, d.gpu);
    put_paths(to, ways.policy);
    for (size_t n = 0; n < domains; n++)
        put_cluster_node(to, &d, n);
    if (domains > 1)
        fputs("    <router id=\"spine\"/>\n", to);
    for (size_t n = 0; n < domains; n++) {
        fprintf(to, "    <router id=\"leaf%zu\"/>\n", n);
        if (domains > 1)
            put_bundle(to, &up, &ways, named("leaf%zu-up", n).id);
    }
    for (size_t n = 0; n < domains; n++)
        put_cluster_routes(to, &d, n, named("leaf%zu", n).id);
    for (size_t n = 0; n < domains && domains > 1; n++)
        put_route(to, named("leaf%zu", n).id, "spine", named("leaf%zu-up", n).id);
}

const struct topology_family family_nvl = {
    .name = "nvl",
    .summary = "NVSwitch domains of many GPUs (NVL72), a network port for each GPU",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = nvl_devices,
    .check = nvl_check,
    .describe = nvl_describe,
    .write = nvl_write,
};
