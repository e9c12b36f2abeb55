/* A tree of edge, pod and core switches whose links grow towards the root: each switch has one link
 * upwards, as wide as its ports below, over the oversubscription. Source: Leiserson, "Fat-trees:
 * universal networks for hardware-efficient supercomputing", IEEE Trans. Computers C-34 (1985). */
#include "topologies/family.h"

enum {
    NODES,
    GPUS,
    NICS,
    TYPE,
    EDGE,
    POD,
    OVERSUBSCRIPTION,
    CORE,
    NIC,
    NVLINK,
    MESH,
    UPLINKS,
    SPINES,
    PATHS,
    FABRIC,
    PARAMETERS
};

static const struct family_parameter parameter[PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "16", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "1", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "A100", 0, 0},
    [EDGE] = {"edge", "nodes on an edge switch", FAMILY_COUNT, "4", 1, 65536},
    [POD] = {"pod", "edge switches of a pod", FAMILY_COUNT, "2", 1, 65536},
    [OVERSUBSCRIPTION] = {"oversubscription", "of an edge switch: ports below per port above",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [CORE] = {"core", "the same of a pod", FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "one network port", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch (mesh: of a pair)", FAMILY_RATE, NULL, 0, 0},
    [MESH] = {"mesh", "1: NVLink between each pair instead of a switch", FAMILY_COUNT, "0", 0, 1},
    [UPLINKS] = {"uplinks", "pod switches of each pod, with a cable to every edge switch of it",
                 FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [SPINES] = {"spines", "core switches, as many to each pod switch (with uplinks: as many)",
                FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

struct tree {
    struct cluster_node node;
    size_t nodes, edge, edges, pod, pods;
    double edge_factor, pod_factor;
    struct family_ways edge_ways, pod_ways;
};

static struct tree tree(const struct family_value *v)
{
    struct tree t = {.node = cluster_node(v[GPUS].number, v[NICS].number, v[MESH].number, &v[TYPE],
                                          v[NVLINK].number, v[NIC].number),
                     .nodes = (size_t)v[NODES].number,
                     .edge = (size_t)v[EDGE].number,
                     .pod = (size_t)v[POD].number,
                     .edge_factor = v[OVERSUBSCRIPTION].number,
                     .pod_factor = v[CORE].number};
    t.edge_ways = family_ways(&v[UPLINKS], &v[UPLINKS], &v[PATHS]);
    t.pod_ways = t.edge_ways;
    if (v[SPINES].number > 0)
        t.pod_ways.switches = (size_t)v[SPINES].number;
    t.edges = (t.nodes + t.edge - 1) / t.edge;
    t.pods = (t.edges + t.pod - 1) / t.pod;
    return t;
}

static size_t fat_tree_devices(const struct family_value *v)
{
    return (size_t)v[NODES].number * (size_t)v[GPUS].number;
}

/* A core switch belongs to one pod switch of each pod. */
static enum status fat_tree_check(const struct family_value *v)
{
    size_t uplinks = (size_t)v[UPLINKS].number, spines = (size_t)v[SPINES].number;
    if (spines > 0 && uplinks == 0)
        return error_set(STATUS_INVALID,
                         "fat-tree: spines=%zu needs uplinks= (the pod switches of each pod)",
                         spines);
    if (spines > 0 && spines % uplinks != 0)
        return error_set(STATUS_INVALID,
                         "fat-tree: got spines=%zu, expected a multiple of uplinks=%zu", spines,
                         uplinks);
    return family_check_ways("fat-tree", &v[UPLINKS], &v[UPLINKS], &v[PATHS]);
}

static void fat_tree_describe(const struct family_value *v, FILE *to)
{
    struct tree t = tree(v);
    describe_cluster(to, &t.node, t.nodes);
    fprintf(to, ", %zu edge switches %.4g:1, %zu pods %.4g:1", t.edges, t.edge_factor, t.pods,
            t.pod_factor);
    if (t.edge_ways.switches > 0)
        fprintf(to, ", %zu uplinks, %zu cores", t.edge_ways.switches, t.pod_ways.switches);
}

/* Nodes below an edge switch, and below a pod: the last may have fewer. */
static double below(size_t nodes, size_t each, size_t index)
{
    size_t first = index * each, end = first + each;
    return (double)((end < nodes ? end : nodes) - first);
}

static void fat_tree_put_switches(const struct tree *t, FILE *to)
{
    double node_Bps = cluster_node_Bps(&t->node);
    if (t->pods > 1)
        fputs("    <router id=\"core\"/>\n", to);
    for (size_t p = 0; p < t->pods && t->edges > 1; p++) {
        struct cable up = {"core",
                           below(t->nodes, t->edge * t->pod, p) * node_Bps / t->edge_factor /
                               t->pod_factor,
                           switch_latency_s};
        fprintf(to, "    <router id=\"pod%zu\"/>\n", p);
        if (t->pods > 1)
            put_bundle(to, &up, &t->pod_ways, named("pod%zu-up", p).id);
    }
    for (size_t e = 0; e < t->edges; e++) {
        struct cable up = {"pod", below(t->nodes, t->edge, e) * node_Bps / t->edge_factor,
                           switch_latency_s};
        fprintf(to, "    <router id=\"edge%zu\"/>\n", e);
        if (t->edges > 1)
            put_bundle(to, &up, &t->edge_ways, named("edge%zu-up", e).id);
    }
}

static void fat_tree_write(const struct family_value *v, FILE *to)
{
    struct tree t = tree(v);
    put_gpu_properties(to, t.node.gpu);
    put_paths(to, t.edge_ways.policy);
    for (size_t n = 0; n < t.nodes; n++)
        put_cluster_node(to, &t.node, n);
    fat_tree_put_switches(&t, to);
    for (size_t n = 0; n < t.nodes; n++)
        put_cluster_routes(to, &t.node, n, named("edge%zu", n / t.edge).id);
    for (size_t e = 0; e < t.edges && t.edges > 1; e++)
        put_route(to, named("edge%zu", e).id, named("pod%zu", e / t.pod).id,
                  named("edge%zu-up", e).id);
    for (size_t p = 0; p < t.pods && t.pods > 1; p++)
        put_route(to, named("pod%zu", p).id, "core", named("pod%zu-up", p).id);
}

const struct topology_family family_fat_tree = {
    .name = "fat-tree",
    .summary = "edge, pod and core switches, each with one link upwards as wide as its ports",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = fat_tree_devices,
    .check = fat_tree_check,
    .describe = fat_tree_describe,
    .write = fat_tree_write,
};
