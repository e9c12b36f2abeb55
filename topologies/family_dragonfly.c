/* Groups of leaf switches below a spine, a link between the spines of any two groups; the shortest
 * way is always taken. Source: Shpiner et al., "Dragonfly+: low cost topology for scaling
 * datacenters", HiPINEB 2017. Spine K of a group has cables to every leaf of the group and to
 * spine K of every other; where `spines` is not said they are one, and so are the cables of two
 * groups. */
#include "topologies/family.h"

enum {
    GROUPS,
    LEAVES,
    NODES,
    GPUS,
    NICS,
    TYPE,
    GLOBAL,
    NIC,
    NVLINK,
    MESH,
    SPINES,
    CABLES,
    PATHS,
    FABRIC,
    PARAMETERS
};

static const struct family_parameter parameter[PARAMETERS] = {
    [GROUPS] = {"groups", "groups", FAMILY_COUNT, "4", 1, 1024},
    [LEAVES] = {"leaves", "leaf switches of a group", FAMILY_COUNT, "2", 1, 1024},
    [NODES] = {"nodes", "nodes on a leaf switch", FAMILY_COUNT, "2", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "4", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "4", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "A100", 0, 0},
    [GLOBAL] = {"global", "between two groups", FAMILY_RATE, "100GBps", 0, 0},
    [NIC] = {"nic", "one network port", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch (mesh: of a pair)", FAMILY_RATE, NULL, 0, 0},
    [MESH] = {"mesh", "1: NVLink between each pair instead of a switch", FAMILY_COUNT, "0", 0, 1},
    [SPINES] = {"spines", "spine switches of a group, with a cable to every leaf of it",
                FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [CABLES] = {"cables", "between two groups, as many from each spine (with spines: one each)",
                FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

struct dragonfly {
    struct cluster_node node;
    size_t groups, leaves, nodes; /* leaves of a group, nodes of a leaf */
    double global_Bps;
    struct family_ways up, between; /* from a leaf to spines, of two groups */
};

static struct dragonfly dragonfly(const struct family_value *v)
{
    return (struct dragonfly){.node = cluster_node(v[GPUS].number, v[NICS].number, v[MESH].number,
                                                   &v[TYPE], v[NVLINK].number, v[NIC].number),
                              .groups = (size_t)v[GROUPS].number,
                              .leaves = (size_t)v[LEAVES].number,
                              .nodes = (size_t)v[NODES].number,
                              .global_Bps = v[GLOBAL].number,
                              .up = family_ways(&v[SPINES], &(struct family_value){0}, &v[PATHS]),
                              .between = family_ways(&v[SPINES], &v[CABLES], &v[PATHS])};
}

static size_t dragonfly_devices(const struct family_value *v)
{
    double n = v[GROUPS].number * v[LEAVES].number * v[NODES].number * v[GPUS].number;
    return n < 1e15 ? (size_t)n : SIZE_MAX;
}

static enum status dragonfly_check(const struct family_value *v)
{
    size_t spines = (size_t)v[SPINES].number, cables = (size_t)v[CABLES].number;
    if (spines > 0 && cables % spines != 0)
        return error_set(STATUS_INVALID,
                         "dragonfly+: got cables=%zu, expected a multiple of spines=%zu", cables,
                         spines);
    bool around = paths_lead_around((enum paths_policy)v[PATHS].number) && v[GROUPS].number > 2;
    return around ? STATUS_OK : family_check_ways("dragonfly+", &v[SPINES], &v[CABLES], &v[PATHS]);
}

static void dragonfly_describe(const struct family_value *v, FILE *to)
{
    struct dragonfly d = dragonfly(v);
    describe_cluster(to, &d.node, d.groups * d.leaves * d.nodes);
    fprintf(to, ", dragonfly+ of %zu groups, %.4g GB/s between two", d.groups, d.global_Bps / 1e9);
}

static void dragonfly_put_switches(const struct dragonfly *d, FILE *to)
{
    const struct cable global = {"global", d->global_Bps, switch_latency_s};
    const struct cable up = {"spine", (double)d->nodes * cluster_node_Bps(&d->node),
                             switch_latency_s};
    for (size_t g = 0; g < d->groups; g++) {
        fprintf(to, "    <router id=\"spine%zu\"/>\n", g);
        for (size_t l = 0; l < d->leaves; l++) {
            fprintf(to, "    <router id=\"leaf%zux%zu\"/>\n", g, l);
            put_bundle(to, &up, &d->up, named("leaf%zux%zu-up", g, l).id);
        }
        for (size_t h = 0; h < g; h++)
            put_bundle(to, &global, &d->between, named("global%zux%zu", h, g).id);
    }
}

static void dragonfly_write(const struct family_value *v, FILE *to)
{
    struct dragonfly d = dragonfly(v);
    size_t nodes = d.groups * d.leaves * d.nodes;
    put_gpu_properties(to, d.node.gpu);
    put_paths(to, d.up.policy);
    for (size_t n = 0; n < nodes; n++)
        put_cluster_node(to, &d.node, n);
    dragonfly_put_switches(&d, to);
    for (size_t n = 0; n < nodes; n++) {
        size_t leaf = n / d.nodes;
        put_cluster_routes(to, &d.node, n,
                           named("leaf%zux%zu", leaf / d.leaves, leaf % d.leaves).id);
    }
    for (size_t g = 0; g < d.groups; g++) {
        const struct topology_name spine = named("spine%zu", g);
        for (size_t l = 0; l < d.leaves; l++)
            put_route(to, named("leaf%zux%zu", g, l).id, spine.id,
                      named("leaf%zux%zu-up", g, l).id);
        for (size_t h = 0; h < g; h++)
            put_route(to, named("spine%zu", h).id, spine.id, named("global%zux%zu", h, g).id);
    }
}

const struct topology_family family_dragonfly = {
    .name = "dragonfly+",
    .summary = "groups of leaf switches below a spine, a link between any two groups",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = dragonfly_devices,
    .check = dragonfly_check,
    .describe = dragonfly_describe,
    .write = dragonfly_write,
};
