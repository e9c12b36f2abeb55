/* Switches at the points of a grid of up to three dimensions; a switch has a cable to every other
 * of its row in each dimension. Routes are the shortest: one link in each dimension that differs.
 * Source: Ahn et al., "HyperX: topology, routing, and packaging of efficient large-scale networks",
 * SC 2009. */
#include "topologies/family.h"

enum { X, Y, Z, NODES, GPUS, NICS, TYPE, CABLES, LINK, NIC, NVLINK, PATHS, FABRIC, PARAMETERS };

enum { HYPERX_LINKS = 262144 }; /* most between switches */

static const struct family_parameter parameter[PARAMETERS] = {
    [X] = {"x", "switches along the first dimension", FAMILY_COUNT, "4", 1, 256},
    [Y] = {"y", "along the second", FAMILY_COUNT, "4", 1, 256},
    [Z] = {"z", "along the third", FAMILY_COUNT, "1", 1, 256},
    [NODES] = {"nodes", "nodes on a switch", FAMILY_COUNT, "1", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [CABLES] = {"cables", "between two switches", FAMILY_COUNT, "1", 1, PATHS_LANES_MAX},
    [LINK] = {"link", "one of these cables (default: a network port)", FAMILY_RATE, NULL, 0, 0},
    [NIC] = {"nic", "one network port", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

struct hyperx {
    struct cluster_node node;
    size_t side[3], switches, nodes; /* nodes of a switch */
    struct cable link;
    struct family_ways ways;
};

static struct hyperx hyperx(const struct family_value *v)
{
    struct hyperx h = {.node = cluster_node(v[GPUS].number, v[NICS].number, 0, &v[TYPE],
                                            v[NVLINK].number, v[NIC].number),
                       .side = {(size_t)v[X].number, (size_t)v[Y].number, (size_t)v[Z].number},
                       .nodes = (size_t)v[NODES].number};
    double cable_Bps = v[LINK].number > 0 ? v[LINK].number : h.node.nic_Bps;
    h.switches = h.side[0] * h.side[1] * h.side[2];
    h.link = (struct cable){"hyperx", cable_Bps * v[CABLES].number, switch_latency_s};
    h.ways = (struct family_ways){.policy = (enum paths_policy)v[PATHS].number};
    if (v[CABLES].number > 1) {
        h.ways.switches = 1;
        h.ways.cables = (size_t)v[CABLES].number;
    }
    return h;
}

static size_t hyperx_devices(const struct family_value *v)
{
    double n = v[X].number * v[Y].number * v[Z].number * v[NODES].number * v[GPUS].number;
    return n < 1e15 ? (size_t)n : SIZE_MAX;
}

static enum status hyperx_check(const struct family_value *v)
{
    double links =
        v[X].number * v[Y].number * v[Z].number / 2 * (v[X].number + v[Y].number + v[Z].number - 3);
    if (links > HYPERX_LINKS)
        return error_set(STATUS_INVALID,
                         "hyperx: got %.0f links between switches, expected up to %d", links,
                         HYPERX_LINKS);
    if (v[PATHS].number > 0 && v[CABLES].number < 2 &&
        !paths_lead_around((enum paths_policy)v[PATHS].number))
        return error_set(
            STATUS_INVALID,
            "hyperx: paths= has no effect: there is one cable between two switches. Try cables=2");
    return STATUS_OK;
}

static void hyperx_describe(const struct family_value *v, FILE *to)
{
    struct hyperx h = hyperx(v);
    describe_cluster(to, &h.node, h.switches * h.nodes);
    fprintf(to, ", HyperX of %zu x %zu x %zu switches, %.4g GB/s between two", h.side[0], h.side[1],
            h.side[2], h.link.bandwidth_Bps / 1e9);
}

/* Call for each two switches of a row, the one of the lower number first. */
static void each_link(const struct hyperx *h,
                      void (*put)(const struct hyperx *h, size_t from, size_t to, FILE *out),
                      FILE *out)
{
    for (size_t s = 0; s < h->switches; s++)
        for (size_t d = 0, stride = 1; d < 3; stride *= h->side[d++])
            for (size_t at = s / stride % h->side[d] + 1; at < h->side[d]; at++)
                put(h, s, s + (at - s / stride % h->side[d]) * stride, out);
}

static void hyperx_put_link(const struct hyperx *h, size_t from, size_t to, FILE *out)
{
    put_bundle(out, &h->link, &h->ways, named("sw%zu-sw%zu", from, to).id);
}

static void hyperx_put_route(const struct hyperx *h, size_t from, size_t to, FILE *out)
{
    (void)h;
    put_route(out, named("sw%zu", from).id, named("sw%zu", to).id,
              named("sw%zu-sw%zu", from, to).id);
}

static void hyperx_write(const struct family_value *v, FILE *to)
{
    struct hyperx h = hyperx(v);
    size_t nodes = h.switches * h.nodes;
    put_gpu_properties(to, h.node.gpu);
    put_paths(to, h.ways.policy);
    for (size_t n = 0; n < nodes; n++)
        put_cluster_node(to, &h.node, n);
    for (size_t s = 0; s < h.switches; s++)
        fprintf(to, "    <router id=\"sw%zu\"/>\n", s);
    each_link(&h, hyperx_put_link, to);
    for (size_t n = 0; n < nodes; n++)
        put_cluster_routes(to, &h.node, n, named("sw%zu", n / h.nodes).id);
    each_link(&h, hyperx_put_route, to);
}

const struct topology_family family_hyperx = {
    .name = "hyperx",
    .summary = "a grid of switches, each with a cable to every other of its rows",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = hyperx_devices,
    .check = hyperx_check,
    .describe = hyperx_describe,
    .write = hyperx_write,
};
