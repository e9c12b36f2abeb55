/* Nodes with network ports, as several families have them. */
#include "topologies/family.h"

#include <stdarg.h>

struct cluster_node cluster_node(double gpu_count, double nics, double mesh,
                                 const struct family_value *type, double nvlink_Bps, double nic_Bps)
{
    struct cluster_node c = {.gpus = (size_t)gpu_count,
                             .nics = (size_t)nics,
                             .mesh = mesh > 0,
                             .gpu = type->gpu,
                             .nvlink_Bps = nvlink_Bps,
                             .nic_Bps = nic_Bps};
    c.nvlink_Bps = nvlink_Bps > 0 ? nvlink_Bps : c.gpu->nvlink_Bps;
    if (c.mesh && !(nvlink_Bps > 0) && c.gpus > 1) /* a GPU's links spread over its peers */
        c.nvlink_Bps /= (double)(c.gpus - 1);
    c.nic_Bps = nic_Bps > 0 ? nic_Bps : c.gpu->nic_Bps;
    c.nics = c.nics > c.gpus ? c.gpus : c.nics;
    while (c.gpus % c.nics != 0)
        c.nics++;
    return c;
}

double cluster_node_Bps(const struct cluster_node *c)
{
    return (double)c->nics * c->nic_Bps;
}

void put_cluster_node(FILE *to, const struct cluster_node *c, size_t node)
{
    const struct cable pair = {"nvlink", c->nvlink_Bps, 2 * nvlink_latency_s};
    const struct cable pcie = {NULL, c->gpu->pcie_Bps, 0}, nic = {"nic", c->nic_Bps, nic_latency_s};
    if (c->mesh) {
        for (size_t g = 0; g < c->gpus; g++)
            fprintf(to, "    <host id=\"n%zug%zu\" speed=\"%.12gf\"/>\n", node, g, c->gpu->flops);
        for (size_t g = 0; g < c->gpus; g++)
            for (size_t h = g + 1; h < c->gpus; h++)
                put_cable(to, &pair, "n%zug%zu-g%zu", node, g, h);
    } else {
        put_node(to, node, c->gpus, c->gpu, c->nvlink_Bps);
    }
    for (size_t g = 0; g < c->gpus; g++)
        put_cable(to, &pcie, "n%zug%zu-pcie", node, g);
    for (size_t k = 0; k < c->nics; k++)
        put_cable(to, &nic, "n%zu-nic%zu", node, k);
}

void put_cluster_routes(FILE *to, const struct cluster_node *c, size_t node, const char *network)
{
    if (!c->mesh)
        put_node_routes(to, node, c->gpus);
    for (size_t g = 0; c->mesh && g < c->gpus; g++)
        for (size_t h = g + 1; h < c->gpus; h++)
            fprintf(to,
                    "    <route src=\"n%zug%zu\" dst=\"n%zug%zu\">"
                    "<link_ctn id=\"n%zug%zu-g%zu\" direction=\"UP\"/></route>\n",
                    node, g, node, h, node, g, h);
    for (size_t g = 0; g < c->gpus; g++)
        fprintf(to,
                "    <route src=\"n%zug%zu\" dst=\"%s\">"
                "<link_ctn id=\"n%zug%zu-pcie\" direction=\"UP\"/>"
                "<link_ctn id=\"n%zu-nic%zu\" direction=\"UP\"/></route>\n",
                node, g, network, node, g, node, g * c->nics / c->gpus);
}

struct topology_name named(const char *format, ...)
{
    struct topology_name name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name.id, sizeof name.id, format, arguments);
    va_end(arguments);
    return name;
}

void put_route(FILE *to, const char *a, const char *b, const char *link)
{
    fprintf(to, "    <route src=\"%s\" dst=\"%s\"><link_ctn id=\"%s\" direction=\"UP\"/></route>\n",
            a, b, link);
}

void describe_cluster(FILE *to, const struct cluster_node *c, size_t nodes)
{
    fprintf(to, "%zu nodes x %zu %s, %zu NIC%s of %.4g Gb/s a node", nodes, c->gpus, c->gpu->name,
            c->nics, c->nics == 1 ? "" : "s", c->nic_Bps * 8e-9);
}

struct family_ways family_ways(const struct family_value *spines,
                               const struct family_value *uplinks,
                               const struct family_value *policy)
{
    size_t switches = (size_t)spines->number, cables = (size_t)uplinks->number;
    if (cables > 0 && switches == 0)
        switches = 1;
    return (struct family_ways){switches, cables > 0 ? cables / switches : switches > 0,
                                (enum paths_policy)policy->number};
}

enum status family_check_ways(const char *family, const struct family_value *spines,
                              const struct family_value *uplinks, const struct family_value *policy)
{
    size_t switches = (size_t)spines->number, cables = (size_t)uplinks->number;
    if (switches > 0 && cables % switches != 0)
        return error_set(STATUS_INVALID, "%s: got uplinks=%zu, expected a multiple of spines=%zu",
                         family, cables, switches);
    if (paths_lead_around((enum paths_policy)policy->number))
        return error_set(STATUS_INVALID,
                         "%s: paths=%s has no effect: no link has an alternative path", family,
                         paths_name((enum paths_policy)policy->number));
    if (policy->number > 0 && switches + cables == 0)
        return error_set(
            STATUS_INVALID,
            "%s: paths=%s has no effect: there is a single path between two devices. Try spines=16",
            family, paths_name((enum paths_policy)policy->number));
    return STATUS_OK;
}

void put_paths(FILE *to, enum paths_policy policy)
{
    if (policy != PATHS_UNSAID)
        fprintf(to, "    <prop id=\"paths\" value=\"%s\"/>\n", paths_name(policy));
}

void describe_spines(FILE *to, const struct family_ways *w)
{
    if (w->switches > 0)
        fprintf(to, "%zu ", w->switches);
    fputs("spines", to);
}
