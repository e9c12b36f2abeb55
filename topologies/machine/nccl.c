/* What NCCL and RCCL know of a machine: NCCL_TOPO_DUMP_FILE, and files for NCCL_TOPO_FILE, which
 * clouds ship and which say less: neither <gpu> nor <net>, PCIe switches that do not exist, speeds
 * that are hints. */
#include "topologies/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "topologies/machine/pci.h"
#include "topologies/xml.h"

enum { HOSTS = 4096 };

/* <nvlink> and <xgmi> name their other end by bus, which may stand further below. */
struct nccl_xml_end {
    const struct xml_element *e;
    uint32_t gpu;
};

struct nccl_xml_reader {
    struct machine *m;
    const char *path;
    size_t ends;
    struct nccl_xml_end *end; /* [ends], in the arena */
    uint32_t gpus, nics;
    bool described;   /* some device has a <gpu> */
    const char *numa; /* of the <cpu> under way; NULL: not said */
};

static bool nccl_xml_recognises(const struct machine_source *s)
{
    const char *at = s->text + strspn(s->text, " \t\r\n");
    return *at == '<' && (strstr(s->text, "<system") || strstr(s->text, "<graphs"));
}

/* A number of an attribute, which may be followed by a unit; `otherwise` when absent or empty. */
static double nccl_xml_number(const struct xml_element *e, const char *name, double otherwise)
{
    const char *text = xml_value(e, name);
    char *end;
    double value = text ? strtod(text, &end) : 0;
    return text && end != text && value >= 0 && value < 1e15 ? value : otherwise;
}

/* Of the lanes above a device: "16.0 GT/s PCIe" and "16". 0: not said. */
static double nccl_xml_lanes_Bps(const struct xml_element *e)
{
    return pci_Bps(nccl_xml_number(e, "link_speed", 0) * 1e9, nccl_xml_number(e, "link_width", 0));
}

static const struct xml_element *child(const struct xml_element *e, const char *name)
{
    for (e = e->first; e; e = e->next)
        if (!strcmp(e->name, name))
            return e;
    return NULL;
}

/* Ids say the product, what NCCL and RCCL say beside them only its family. */
static enum status nccl_xml_identify(struct machine *m, uint32_t part,
                                     const struct xml_element *pci, const struct xml_element *gpu)
{
    const char *gcn = gpu ? xml_value(gpu, "gcn") : NULL, *sm = gpu ? xml_value(gpu, "sm") : NULL;
    m->part[part].line = pci->line;
    PASS(pci_identify(m, part, xml_value(pci, "vendor"), xml_value(pci, "device")));
    if (m->part[part].model)
        return STATUS_OK;
    if (gcn && *gcn && strcmp(gcn, "0") != 0)
        return pci_identify_family(m, part, "gcn", gcn);
    return sm && *sm ? pci_identify_family(m, part, "sm", sm) : STATUS_OK;
}

static enum status nccl_xml_add_gpu(struct nccl_xml_reader *r, const struct xml_element *pci,
                                    uint32_t node, uint32_t up)
{
    struct machine *m = r->m;
    char name[48];
    uint32_t part;
    const char *bus = xml_value(pci, "busid");
    const struct xml_element *gpu = child(pci, "gpu");
    const char *dev = gpu ? xml_value(gpu, "dev") : NULL;
    r->described = r->described || gpu;
    if (dev && strlen(dev) < 8)
        snprintf(name, sizeof name, "GPU%s", dev);
    else
        snprintf(name, sizeof name, "GPU%u", r->gpus);
    r->gpus++;
    PASS(machine_add_part(m, MACHINE_GPU, node, up, name, &part));
    m->part[part].up_Bps = nccl_xml_lanes_Bps(pci);
    PASS(nccl_xml_identify(m, part, pci, gpu));
    PASS(machine_set_numa(m, part, r->numa));
    if (bus) {
        m->part[part].bus = arena_text(&m->arena, bus);
        PASS(machine_name_put(r->m, NAMES_PARTS, bus, part));
    }
    for (const struct xml_element *e = gpu ? gpu->first : NULL; e; e = e->next)
        if (!strcmp(e->name, "nvlink") || !strcmp(e->name, "xgmi")) {
            PASS(ARENA_ROOM(&m->arena, r->end, r->ends));
            r->end[r->ends++] = (struct nccl_xml_end){e, part};
        }
    return STATUS_OK;
}

/* Ports: each <net>, or the device itself where the file has none. */
static enum status add_nics(struct nccl_xml_reader *r, const struct xml_element *at, uint32_t node,
                            uint32_t up, double up_Bps)
{
    uint32_t part;
    char name[48];
    const struct xml_element *nic = child(at, "nic");
    const struct xml_element *net = nic ? child(nic, "net") : child(at, "net");
    bool alone = !net;
    for (; net || alone; net = net ? net->next : NULL) {
        if (net && strcmp(net->name, "net") != 0)
            continue;
        const char *called = net ? xml_value(net, "name") : NULL;
        snprintf(name, sizeof name, "NIC%u", r->nics++);
        PASS(machine_add_part(r->m, MACHINE_NIC, node, up, called ? called : name, &part));
        r->m->part[part].up_Bps = up_Bps;
        PASS(machine_set_numa(r->m, part, r->numa));
        r->m->part[part].line = net ? net->line : at->line;
        double Mbps = net ? nccl_xml_number(net, "speed", 0) : 0;
        if (Mbps > 3.2e6) { /* no port is that fast: some versions write kb/s */
            PASS(machine_warn(r->m, "%s:%zu: port speed of %g Mb/s is implausible; read as kb/s",
                              r->path, net->line, Mbps));
            Mbps = Mbps / 1000 > 3.2e6 ? 0 : Mbps / 1000;
        }
        r->m->part[part].Bps = Mbps * 1e6 / 8;
        alone = false;
        if (!net)
            break;
    }
    return STATUS_OK;
}

/* What is below a <cpu> or a <pci>; expat's limit of depth is this recursion's. */
static enum status read_below(struct nccl_xml_reader *r, const struct xml_element *above,
                              uint32_t node, uint32_t up)
{
    for (const struct xml_element *e = above->first; e; e = e->next) {
        uint32_t part;
        if (!strcmp(e->name, "nic"))
            PASS(add_nics(r, e, node, up, 0));
        if (strcmp(e->name, "pci") != 0)
            continue;
        long class = pci_class(xml_value(e, "class"));
        bool gpu = child(e, "gpu") || class == 0x03 || class == 0x12;
        if (gpu) {
            PASS(nccl_xml_add_gpu(r, e, node, up));
        } else if (class == 0x06 || child(e, "pci")) {
            const char *bus = xml_value(e, "busid");
            PASS(machine_add_part(r->m, MACHINE_BRIDGE, node, up, bus ? bus : "switch", &part));
            r->m->part[part].up_Bps = nccl_xml_lanes_Bps(e);
            PASS(read_below(r, e, node, part));
        } else if (child(e, "nic") || child(e, "net") || class == 0x02) {
            PASS(add_nics(r, e, node, up, nccl_xml_lanes_Bps(e)));
        }
    }
    return STATUS_OK;
}

/* "host_hash" tells nodes apart in dumps of several. */
static enum status read_system(struct nccl_xml_reader *r, const struct xml_element *system)
{
    for (const struct xml_element *e = system->first; e; e = e->next) {
        uint32_t part;
        if (strcmp(e->name, "cpu") != 0)
            continue;
        const char *hash = xml_value(e, "host_hash"), *numa = xml_value(e, "numaid");
        char name[48];
        hash = hash ? hash : "";
        uint32_t node = machine_name_find(r->m, NAMES_HOSTS, hash);
        if (node == MACHINE_NONE) {
            node = (uint32_t)r->m->nodes++;
            PASS(machine_name_put(r->m, NAMES_HOSTS, hash, node));
        }
        snprintf(name, sizeof name, "CPU%.20s", numa ? numa : "");
        PASS(machine_add_part(r->m, MACHINE_CPU, node, MACHINE_NONE, name, &part));
        r->numa = numa;
        PASS(read_below(r, e, node, part));
    }
    return STATUS_OK;
}

/* A link of GPUs stands at both of its ends: the same pair is not joined again. */
static enum status nccl_xml_join_link(struct nccl_xml_reader *r, const struct nccl_xml_end *end)
{
    struct machine *m = r->m;
    const char *target = xml_value(end->e, "target"), *class = xml_value(end->e, "tclass");
    double count = nccl_xml_number(end->e, "count", 1);
    uint32_t other = target ? machine_name_find(r->m, NAMES_PARTS, target) : MACHINE_NONE;
    if (count < 1 || count > 1000)
        return error_set(STATUS_PARSE, "%s:%zu: count of links: got '%.20s', expected 1 to 1000",
                         r->path, end->e->line, xml_value(end->e, "count"));
    if (other == end->gpu)
        return machine_warn(m, "ignored: NVLink of a GPU to itself (as in virtual machines): the "
                               "file does not name its other end");
    if (other == MACHINE_NONE && target && pci_class(class) == 0x06 &&
        !strncmp(class, "0x0680", 6)) {
        PASS(machine_add_part(m, MACHINE_NVSWITCH, m->part[end->gpu].node, MACHINE_NONE, target,
                              &other));
        PASS(machine_name_put(r->m, NAMES_PARTS, target, other));
    }
    if (other == MACHINE_NONE)
        return machine_warn(m, "%s:%zu: ignored a link to %.40s, which is not in the file", r->path,
                            end->e->line, target ? target : "nothing");
    if (m->part[other].kind == MACHINE_GPU && other < end->gpu)
        for (size_t k = 0; k < m->links; k++)
            if (m->link[k].a == other && m->link[k].b == end->gpu)
                return STATUS_OK;
    uint32_t a = end->gpu, b = other;
    if (m->part[b].kind == MACHINE_GPU && b < a)
        a = other, b = end->gpu;
    return machine_join(m, &(struct machine_link){.a = a, .b = b, .count = (uint32_t)count});
}

static enum status nccl_xml_parse(const struct machine_source *s, struct machine *m)
{
    struct xml_element *root;
    struct nccl_xml_reader r = {.m = m, .path = s->path};
    PASS(xml_read(s->path, s->text, s->length, &m->arena, &root));
    if (!strcmp(root->name, "graphs"))
        return error_set(STATUS_PARSE,
                         "%s:%zu: got <graphs> (rings and trees, from NCCL_GRAPH_DUMP_FILE), "
                         "expected <system>, as NCCL_TOPO_DUMP_FILE writes it",
                         s->path, root->line);
    if (strcmp(root->name, "system") != 0)
        return error_set(STATUS_PARSE, "%s:%zu: got <%.40s>, expected <system>", s->path,
                         root->line, root->name);
    PASS(read_system(&r, root));
    if (r.ends > 1 << 16)
        return error_set(STATUS_PARSE, "%s: more than %d NVLinks", s->path, 1 << 16);
    for (size_t k = 0; k < r.ends; k++)
        PASS(nccl_xml_join_link(&r, &r.end[k]));
    m->no_nvlink_seen = m->no_gpus_seen = !r.described;
    return r.gpus > 0
               ? STATUS_OK
               : error_set(STATUS_PARSE, "%s: no GPU: expected a <gpu>, or a <pci> of class 0x03",
                           s->path);
}

const struct machine_format machine_nccl = {
    .name = "NCCL topology",
    .summary = "XML of NCCL_TOPO_DUMP_FILE and for NCCL_TOPO_FILE, of RCCL too",
    .recognises = nccl_xml_recognises,
    .parse = nccl_xml_parse,
};
