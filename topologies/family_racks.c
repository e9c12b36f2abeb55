/* Racks of nodes below spines. A node has an NVSwitch and either a network port for each GPU, with
 * GPU G of every node of a rack on leaf switch G (rail, rail-only, hpn), or one port for all, with
 * one leaf switch a rack (leaf-spine). Sources: Wang et al., "Rail-only: a low-cost high-
 * performance network for training LLMs with trillion parameters", Hot Interconnects 2024; Qian et
 * al., "Alibaba HPN: a data center network for large language model training", SIGCOMM 2024. */
#include "topologies/family.h"

#include <math.h>

enum {
    NODES,
    GPUS,
    TYPE,
    RACK,
    OVERSUBSCRIPTION,
    NIC,
    NVLINK,
    SPINES,
    UPLINKS,
    PATHS,
    FABRIC,
    PARAMETERS,
    PLANES = PARAMETERS, /* of hpn alone */
    HPN_PARAMETERS
};

static const struct family_parameter rail_parameter[PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "4", 1, 65536},
    [GPUS] = {"gpus", "GPUs, and rails, of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [RACK] = {"rack", "nodes on the same leaf switches", FAMILY_COUNT, "32", 1, 65536},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a leaf: ports to nodes per port to spines",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "network port of a GPU", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [SPINES] = FAMILY_SPINES,
    [UPLINKS] = FAMILY_UPLINKS,
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

static const struct family_parameter leaf_spine_parameter[PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "4", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "A100", 0, 0},
    [RACK] = {"rack", "nodes on the same leaf switch", FAMILY_COUNT, "16", 1, 65536},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a leaf: ports to nodes per port to spines",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "network port of a node", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [SPINES] = FAMILY_SPINES,
    [UPLINKS] = FAMILY_UPLINKS,
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

static const struct family_parameter rail_only_parameter[PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "4", 1, 65536},
    [GPUS] = {"gpus", "GPUs, and rails, of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [RACK] = {"rack", "nodes on the same leaf switches", FAMILY_COUNT, "64", 1, 65536},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a leaf: ports to nodes per port to spines",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "network port of a GPU", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [SPINES] = {"spines", "spine switches of each rail, with cables to every leaf of it",
                FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [UPLINKS] = FAMILY_UPLINKS,
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

static const struct family_parameter hpn_parameter[HPN_PARAMETERS] = {
    [NODES] = {"nodes", "nodes", FAMILY_COUNT, "128", 1, 65536},
    [GPUS] = {"gpus", "GPUs, and rails, of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [RACK] = {"segment", "nodes on the same leaf switches", FAMILY_COUNT, "128", 1, 65536},
    [OVERSUBSCRIPTION] = {"oversubscription", "of a leaf: ports to nodes per port to spines",
                          FAMILY_FACTOR, "1", 0.01, 1000},
    [NIC] = {"nic", "network card of a GPU, all its ports together", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [SPINES] = {"spines", "spine switches of each plane, with cables to every leaf of it",
                FAMILY_COUNT, "8", 1, PATHS_LANES_MAX},
    [UPLINKS] = {"uplinks", "cables up from a leaf, as many to each spine (default: one)",
                 FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
    [PLANES] = {"planes", "ports of a network card, each to a leaf of its own", FAMILY_COUNT, "2",
                1, 16},
};

/* The parameters, checked. */
struct pod {
    bool apart; /* rails have spines of their own, so that nothing but NVLink joins them */
    size_t nodes, gpus, rack, racks;
    const struct gpu *gpu;
    double oversubscription, nic_Bps, nvlink_Bps;
    struct family_ways ways, ports; /* up from a leaf; of a network card */
};

static struct pod pod(const struct family_value *v)
{
    struct pod p = {.nodes = (size_t)v[NODES].number,
                    .gpus = (size_t)v[GPUS].number,
                    .rack = (size_t)v[RACK].number,
                    .gpu = v[TYPE].gpu,
                    .oversubscription = v[OVERSUBSCRIPTION].number,
                    .nic_Bps = v[NIC].number,
                    .nvlink_Bps = v[NVLINK].number,
                    .ways = family_ways(&v[SPINES], &v[UPLINKS], &v[PATHS])};
    p.racks = (p.nodes + p.rack - 1) / p.rack;
    p.nic_Bps = p.nic_Bps > 0 ? p.nic_Bps : p.gpu->nic_Bps;
    p.nvlink_Bps = p.nvlink_Bps > 0 ? p.nvlink_Bps : p.gpu->nvlink_Bps;
    return p;
}

static size_t racks_devices(const struct family_value *v)
{
    return (size_t)v[NODES].number * (size_t)v[GPUS].number;
}

static void racks_describe(const struct family_value *v, const char *kind, const char *owner,
                           FILE *to)
{
    struct pod p = pod(v);
    fprintf(to, "%zu nodes x %zu %s, %s, %.4g Gb/s a %s, %zu rack%s", p.nodes, p.gpus, p.gpu->name,
            kind, p.nic_Bps * 8e-9, owner, p.racks, p.racks == 1 ? "" : "s");
    if (p.racks > 1) {
        fputs(", ", to);
        describe_spines(to, &p.ways);
        fprintf(to, " %.4g:1", p.oversubscription);
    }
}

/* One past the last node of a rack. */
static size_t rack_end(const struct pod *p, size_t rack)
{
    size_t end = (rack + 1) * p->rack;
    return end < p->nodes ? end : p->nodes;
}

/* What a leaf switch has to the spines. */
static struct cable uplink(const struct pod *p, size_t rack)
{
    double nodes = (double)(rack_end(p, rack) - rack * p->rack);
    return (struct cable){"spine", nodes * p->nic_Bps / p->oversubscription, switch_latency_s};
}

/* The spine above leaf g of a rack. */
static struct topology_name spine(const struct pod *p, size_t g)
{
    return p->apart ? named("spine%zu", g) : named("spine");
}

/* What all families begin with. */
static void racks_put_nodes(const struct pod *p, FILE *to)
{
    put_gpu_properties(to, p->gpu);
    put_paths(to, p->ways.policy);
    for (size_t n = 0; n < p->nodes; n++)
        put_node(to, n, p->gpus, p->gpu, p->nvlink_Bps);
    for (size_t g = 0; p->racks > 1 && g < (p->apart ? p->gpus : 1); g++)
        fprintf(to, "    <router id=\"%s\"/>\n", spine(p, g).id);
}

/* ---- rail */

static enum status check_rail(const struct family_value *v)
{
    return family_check_ways("rail", &v[SPINES], &v[UPLINKS], &v[PATHS]);
}

static void describe_rail(const struct family_value *v, FILE *to)
{
    racks_describe(v, "rail-optimised", "GPU", to);
}

/* Leaf switch `g` of a rack and the ports on it. */
static void put_rail(const struct pod *p, size_t rack, size_t g, FILE *to)
{
    const struct cable nic = {"rail", p->nic_Bps, nic_latency_s};
    const struct cable up = uplink(p, rack), port = {NULL, up.bandwidth_Bps, 0};
    fprintf(to, "    <router id=\"leaf%zux%zu\"/>\n", rack, g);
    for (size_t n = rack * p->rack; n < rack_end(p, rack); n++)
        put_bundle(to, &nic, &p->ports, named("n%zug%zu-nic", n, g).id);
    if (p->racks > 1) {
        put_bundle(to, &up, &p->ways, named("leaf%zux%zu-up", rack, g).id);
        put_cable(to, &port, "leaf%zux%zu-port", rack, g);
    }
}

/* The way up has two links, so that a message to another rail of its rack rather passes a GPU of
 * its node (NCCL's PXN): four links, not six. */
static void put_rail_routes(const struct pod *p, size_t rack, size_t g, FILE *to)
{
    for (size_t n = rack * p->rack; n < rack_end(p, rack); n++)
        fprintf(to,
                "    <route src=\"n%zug%zu\" dst=\"leaf%zux%zu\">"
                "<link_ctn id=\"n%zug%zu-nic\" direction=\"UP\"/></route>\n",
                n, g, rack, g, n, g);
    if (p->racks > 1)
        fprintf(to,
                "    <route src=\"leaf%zux%zu\" dst=\"%s\">"
                "<link_ctn id=\"leaf%zux%zu-up\" direction=\"UP\"/>"
                "<link_ctn id=\"leaf%zux%zu-port\" direction=\"UP\"/></route>\n",
                rack, g, spine(p, g).id, rack, g, rack, g);
}

static void write_rails(const struct pod *p, FILE *to)
{
    racks_put_nodes(p, to);
    for (size_t rack = 0; rack < p->racks; rack++)
        for (size_t g = 0; g < p->gpus; g++)
            put_rail(p, rack, g, to);
    for (size_t n = 0; n < p->nodes; n++)
        put_node_routes(to, n, p->gpus);
    for (size_t rack = 0; rack < p->racks; rack++)
        for (size_t g = 0; g < p->gpus; g++)
            put_rail_routes(p, rack, g, to);
}

static void write_rail(const struct family_value *v, FILE *to)
{
    const struct pod p = pod(v);
    write_rails(&p, to);
}

const struct topology_family family_rail = {
    .name = "rail",
    .summary = "racks of nodes, a network port for each GPU, a leaf switch for each rack and rail",
    .parameters = PARAMETERS,
    .parameter = rail_parameter,
    .devices = racks_devices,
    .check = check_rail,
    .describe = describe_rail,
    .write = write_rail,
};

/* ---- rail-only: a rack's or rail's leaves never meet those of another rail */

static enum status check_rail_only(const struct family_value *v)
{
    return family_check_ways("rail-only", &v[SPINES], &v[UPLINKS], &v[PATHS]);
}

static void describe_rail_only(const struct family_value *v, FILE *to)
{
    racks_describe(v, "rail-only", "GPU", to);
}

static void write_rail_only(const struct family_value *v, FILE *to)
{
    struct pod p = pod(v);
    p.apart = true;
    write_rails(&p, to);
}

const struct topology_family family_rail_only = {
    .name = "rail-only",
    .summary = "the same without a switch between rails: NVLink joins them",
    .parameters = PARAMETERS,
    .parameter = rail_only_parameter,
    .devices = racks_devices,
    .check = check_rail_only,
    .describe = describe_rail_only,
    .write = write_rail_only,
};

/* ---- hpn: a leaf of each plane, and spines of each plane, as lanes of one */

static struct pod hpn(const struct family_value *v)
{
    struct pod p = pod(v);
    size_t planes = (size_t)v[PLANES].number;
    p.ways.switches *= planes;
    p.ports = (struct family_ways){planes, 1, p.ways.policy};
    return p;
}

static enum status check_hpn(const struct family_value *v)
{
    if (v[PLANES].number * fmax(v[SPINES].number, v[UPLINKS].number) > PATHS_LANES_MAX)
        return error_set(STATUS_INVALID,
                         "hpn: the leaves of a rail have more than %d uplink cables",
                         PATHS_LANES_MAX);
    return family_check_ways("hpn", &v[SPINES], &v[UPLINKS], &v[PATHS]);
}

static void describe_hpn(const struct family_value *v, FILE *to)
{
    racks_describe(v, "rail-optimised", "GPU", to);
    fprintf(to, ", %.0f planes", v[PLANES].number);
}

static void write_hpn(const struct family_value *v, FILE *to)
{
    const struct pod p = hpn(v);
    write_rails(&p, to);
}

const struct topology_family family_hpn = {
    .name = "hpn",
    .summary = "rails in planes (HPN): each network card has a port to a leaf switch of each plane",
    .parameters = HPN_PARAMETERS,
    .parameter = hpn_parameter,
    .devices = racks_devices,
    .check = check_hpn,
    .describe = describe_hpn,
    .write = write_hpn,
};

/* ---- leaf-spine */

static enum status check_leaf_spine(const struct family_value *v)
{
    return family_check_ways("leaf-spine", &v[SPINES], &v[UPLINKS], &v[PATHS]);
}

static void describe_leaf_spine(const struct family_value *v, FILE *to)
{
    racks_describe(v, "leaf-spine", "node", to);
}

/* The leaf switch of a rack and the ports on it, PCIe lanes included. */
static void put_leaf(const struct pod *p, size_t rack, FILE *to)
{
    const struct cable nic = {"nic", p->nic_Bps, nic_latency_s};
    const struct cable pcie = {NULL, p->gpu->pcie_Bps, 0}, up = uplink(p, rack);
    fprintf(to, "    <router id=\"leaf%zu\"/>\n", rack);
    for (size_t n = rack * p->rack; n < rack_end(p, rack); n++) {
        put_cable(to, &nic, "n%zu-nic", n);
        for (size_t g = 0; g < p->gpus; g++)
            put_cable(to, &pcie, "n%zug%zu-pcie", n, g);
    }
    if (p->racks > 1)
        put_bundle(to, &up, &p->ways, named("leaf%zu-up", rack).id);
}

/* A GPU reaches the leaf in one route of two links: within a node NVLink has fewer. */
static void put_leaf_routes(const struct pod *p, size_t rack, FILE *to)
{
    for (size_t n = rack * p->rack; n < rack_end(p, rack); n++)
        for (size_t g = 0; g < p->gpus; g++)
            fprintf(to,
                    "    <route src=\"n%zug%zu\" dst=\"leaf%zu\">"
                    "<link_ctn id=\"n%zug%zu-pcie\" direction=\"UP\"/>"
                    "<link_ctn id=\"n%zu-nic\" direction=\"UP\"/></route>\n",
                    n, g, rack, n, g, n);
    if (p->racks > 1)
        fprintf(to,
                "    <route src=\"leaf%zu\" dst=\"spine\">"
                "<link_ctn id=\"leaf%zu-up\" direction=\"UP\"/></route>\n",
                rack, rack);
}

static void write_leaf_spine(const struct family_value *v, FILE *to)
{
    struct pod p = pod(v);
    racks_put_nodes(&p, to);
    for (size_t rack = 0; rack < p.racks; rack++)
        put_leaf(&p, rack, to);
    for (size_t n = 0; n < p.nodes; n++)
        put_node_routes(to, n, p.gpus);
    for (size_t rack = 0; rack < p.racks; rack++)
        put_leaf_routes(&p, rack, to);
}

const struct topology_family family_leaf_spine = {
    .name = "leaf-spine",
    .summary = "racks of nodes, a network port for each node, a leaf switch for each rack",
    .parameters = PARAMETERS,
    .parameter = leaf_spine_parameter,
    .devices = racks_devices,
    .check = check_leaf_spine,
    .describe = describe_leaf_spine,
    .write = write_leaf_spine,
};
