/* A folded Clos of equal switches, cable by cable: leaf switches, below them the nodes, in pods,
 * and core switches above the pods. Every cable is as fast as a port of a node. Source: Al-Fares,
 * Loukissas & Vahdat, "A scalable, commodity data center network architecture", SIGCOMM 2008. */
#include "topologies/family.h"

#include <math.h>

enum {
    NODES,
    GPUS,
    NICS,
    TYPE,
    RADIX,
    OVERSUBSCRIPTION,
    NIC,
    NVLINK,
    MESH,
    PATHS,
    FABRIC,
    PARAMETERS
};

static const struct family_parameter parameter[PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "16", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [RADIX] = {"radix", "ports of a switch, an even number", FAMILY_COUNT, "64", 4, 128},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a leaf switch: ports below per port above",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "one network port, and every cable", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch (mesh: of a pair)", FAMILY_RATE, NULL, 0, 0},
    [MESH] = {"mesh", "1: NVLink between each pair instead of a switch", FAMILY_COUNT, "0", 0, 1},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

struct clos {
    struct cluster_node node;
    size_t nodes, radix, up, leaf, leaves, pod, pods; /* ports up of a leaf, nodes of it, leaves of
                                                       * a pod */
    struct family_ways leaf_ways, pod_ways;
};

/* As few switches as have the ports for so many cables from each of `below` switches: a number that
 * divides the cables. */
static size_t switches_for(size_t cables, size_t below, size_t radix)
{
    size_t n = 1;
    while (n < cables && (cables % n != 0 || below * (cables / n) > radix))
        n++;
    return n;
}

/* Of k ports k / 2 of a pod switch go up; there are as many of these as a leaf has ports up. Where
 * all leaves fit under one pod there is no core, and pod switches have no ports up. */
static struct clos clos(const struct family_value *v)
{
    struct clos c = {.node = cluster_node(v[GPUS].number, v[NICS].number, v[MESH].number, &v[TYPE],
                                          v[NVLINK].number, v[NIC].number),
                     .nodes = (size_t)v[NODES].number,
                     .radix = (size_t)v[RADIX].number};
    size_t half = c.radix / 2;
    enum paths_policy policy = (enum paths_policy)v[PATHS].number;
    c.up = (size_t)round((double)c.radix / (1 + v[OVERSUBSCRIPTION].number));
    c.up = c.up < 1 ? 1 : c.up;
    c.leaf = c.up < c.radix ? (c.radix - c.up) / c.node.nics : 0;
    if (c.leaf == 0)
        return c;
    c.leaves = (c.nodes + c.leaf - 1) / c.leaf;
    c.pod = c.leaves <= c.radix ? c.leaves : half;
    c.pods = (c.leaves + c.pod - 1) / c.pod;
    size_t above = c.pods > 1 ? c.up : switches_for(c.up, c.leaves, c.radix);
    size_t core = above * switches_for(half, c.pods, c.radix);
    c.leaf_ways = (struct family_ways){above, c.up / above, policy};
    c.pod_ways = (struct family_ways){core, above * half / core, policy};
    return c;
}

static size_t clos_devices(const struct family_value *v)
{
    return (size_t)v[NODES].number * (size_t)v[GPUS].number;
}

static enum status clos_check(const struct family_value *v)
{
    struct clos c = clos(v);
    if (c.radix % 2 != 0)
        return error_set(STATUS_INVALID, "clos: got radix=%zu, expected an even number", c.radix);
    if (c.leaf == 0)
        return error_set(STATUS_INVALID,
                         "clos: a node has %zu ports, but a leaf switch has only %zu of its %zu "
                         "ports for nodes; use fewer nics= or a larger radix=",
                         c.node.nics, c.up < c.radix ? c.radix - c.up : 0, c.radix);
    if (c.pods > c.radix)
        return error_set(STATUS_INVALID,
                         "clos: got %zu pods, but a core switch joins at most radix=%zu pods; use "
                         "fewer nodes= or a larger radix=",
                         c.pods, c.radix);
    return STATUS_OK;
}

static void clos_describe(const struct family_value *v, FILE *to)
{
    struct clos c = clos(v);
    describe_cluster(to, &c.node, c.nodes);
    fprintf(to, ", Clos of %zu-port switches: %zu lea%s %zu:%zu, %zu pod%s", c.radix, c.leaves,
            c.leaves == 1 ? "f" : "ves", c.radix - c.up, c.up, c.pods, c.pods == 1 ? "" : "s");
}

static void clos_put_switches(const struct clos *c, FILE *to)
{
    double port_Bps = c->node.nic_Bps;
    const struct cable up = {"pod", (double)c->up * port_Bps, switch_latency_s};
    const struct cable core = {
        "core", (double)(c->pod_ways.switches * c->pod_ways.cables) * port_Bps, switch_latency_s};
    if (c->pods > 1)
        fputs("    <router id=\"core\"/>\n", to);
    for (size_t p = 0; p < c->pods && c->leaves > 1; p++) {
        fprintf(to, "    <router id=\"pod%zu\"/>\n", p);
        if (c->pods > 1)
            put_bundle(to, &core, &c->pod_ways, named("pod%zu-up", p).id);
    }
    for (size_t l = 0; l < c->leaves; l++) {
        fprintf(to, "    <router id=\"leaf%zu\"/>\n", l);
        if (c->leaves > 1)
            put_bundle(to, &up, &c->leaf_ways, named("leaf%zu-up", l).id);
    }
}

static void clos_write(const struct family_value *v, FILE *to)
{
    struct clos c = clos(v);
    put_gpu_properties(to, c.node.gpu);
    put_paths(to, c.leaf_ways.policy);
    for (size_t n = 0; n < c.nodes; n++)
        put_cluster_node(to, &c.node, n);
    clos_put_switches(&c, to);
    for (size_t n = 0; n < c.nodes; n++)
        put_cluster_routes(to, &c.node, n, named("leaf%zu", n / c.leaf).id);
    for (size_t l = 0; l < c.leaves && c.leaves > 1; l++)
        put_route(to, named("leaf%zu", l).id, named("pod%zu", l / c.pod).id,
                  named("leaf%zu-up", l).id);
    for (size_t p = 0; p < c.pods && c.pods > 1; p++)
        put_route(to, named("pod%zu", p).id, "core", named("pod%zu-up", p).id);
}

const struct topology_family family_clos = {
    .name = "clos",
    .summary = "leaf, pod and core switches of one radix, cable by cable",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = clos_devices,
    .check = clos_check,
    .describe = clos_describe,
    .write = clos_write,
};
