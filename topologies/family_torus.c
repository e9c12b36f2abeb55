/* A torus of up to three dimensions: each node has a link to its neighbours on both sides; routes
 * are the shortest, of which all are equally fast. A dimension of two has one link, not two. */
#include "topologies/family.h"

enum { X, Y, Z, GPUS, TYPE, LINK, NVLINK, PARAMETERS };

static const struct family_parameter parameter[PARAMETERS] = {
    [X] = {"x", "nodes along the first dimension", FAMILY_COUNT, "4", 1, 256},
    [Y] = {"y", "along the second", FAMILY_COUNT, "4", 1, 256},
    [Z] = {"z", "along the third", FAMILY_COUNT, "1", 1, 256},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "1", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [LINK] = {"link", "between neighbours (default: the type's port)", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the node's switch", FAMILY_RATE, NULL, 0, 0},
};

/* A step to a neighbour: assumed, as for links without a switch between. */
static const double step_latency_s = 1e-6;

static size_t torus_devices(const struct family_value *v)
{
    double n = v[X].number * v[Y].number * v[Z].number * v[GPUS].number;
    return n < 1e15 ? (size_t)n : SIZE_MAX;
}

static double link_Bps(const struct family_value *v)
{
    return v[LINK].number > 0 ? v[LINK].number : v[TYPE].gpu->nic_Bps;
}

static void torus_describe(const struct family_value *v, FILE *to)
{
    fprintf(to, "torus of %.0f x %.0f x %.0f nodes x %.0f %s, %.4g GB/s between neighbours",
            v[X].number, v[Y].number, v[Z].number, v[GPUS].number, v[TYPE].gpu->name,
            link_Bps(v) / 1e9);
}

/* The next node along dimension d, the node itself when there is none or the link is there already.
 */
static size_t neighbour(const struct family_value *v, size_t node, int d)
{
    size_t stride = 1, length = (size_t)v[X + d].number;
    for (int k = 0; k < d; k++)
        stride *= (size_t)v[X + k].number;
    size_t at = node / stride % length;
    if (length == 1 || (length == 2 && at == 1))
        return node;
    return at + 1 < length ? node + stride : node - at * stride;
}

static void torus_write(const struct family_value *v, FILE *to)
{
    size_t per_node = (size_t)v[GPUS].number, nodes = torus_devices(v) / per_node;
    const struct cable step = {"torus", link_Bps(v), step_latency_s};
    double nvlink_Bps = v[NVLINK].number > 0 ? v[NVLINK].number : v[TYPE].gpu->nvlink_Bps;
    put_gpu_properties(to, v[TYPE].gpu);
    for (size_t n = 0; n < nodes; n++)
        put_node(to, n, per_node, v[TYPE].gpu, nvlink_Bps);
    for (size_t n = 0; n < nodes; n++)
        for (int d = 0; d < 3; d++)
            if (neighbour(v, n, d) != n)
                put_cable(to, &step, "n%zu-%c", n, 'x' + d);
    for (size_t n = 0; n < nodes; n++)
        put_node_routes(to, n, per_node);
    const char *node = per_node == 1 ? "g0" : ""; /* a node of one GPU is that GPU */
    for (size_t n = 0; n < nodes; n++)
        for (int d = 0; d < 3; d++)
            if (neighbour(v, n, d) != n)
                put_route(to, named("n%zu%s", n, node).id,
                          named("n%zu%s", neighbour(v, n, d), node).id,
                          named("n%zu-%c", n, 'x' + d).id);
}

const struct topology_family family_torus = {
    .name = "torus",
    .summary = "nodes in a ring, a torus of two or of three dimensions",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = torus_devices,
    .describe = torus_describe,
    .write = torus_write,
};
