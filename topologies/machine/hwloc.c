/* hwloc's XML (lstopo --of xml, versions 1 to 3): packages, PCI bridges and devices. A GPU has an
 * OS device for each of CUDA, NVML and OpenCL below its one PCI device, which is what counts.
 * NVLink is the matrix "NVLinkBandwidth" of MB/s, of objects of one or of several types. */
#include "topologies/machine/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "topologies/machine/pci.h"
#include "topologies/xml.h"

enum { OBJECTS = 1024 };

struct hwloc_reader {
    struct machine *m;
    const char *path;
    uint32_t gpus, silent;
    char numa[16]; /* of the object under way; "": none, or several */
    /* some device has an interface that computes: those without one are not in use */
    bool computing;
};

static bool hwloc_recognises(const struct machine_source *s)
{
    const char *at = s->text + strspn(s->text, " \t\r\n");
    return *at == '<' && strstr(s->text, "<topology") && strstr(s->text, "<object");
}

static bool hwloc_is_type(const struct xml_element *e, const char *type)
{
    const char *value = strcmp(e->name, "object") ? NULL : xml_value(e, "type");
    return value && !strcmp(value, type);
}

static const char *info(const struct xml_element *e, const char *name)
{
    for (e = e->first; e; e = e->next) {
        const char *called = strcmp(e->name, "info") ? NULL : xml_value(e, "name");
        if (called && !strcmp(called, name))
            return xml_value(e, "value");
    }
    return NULL;
}

/* GB/s, line code taken off. */
static double hwloc_link_Bps(const struct xml_element *e)
{
    double value;
    const char *text = xml_value(e, "pci_link_speed");
    return text && text_real(text, &value) && value > 0 && value < 1e4 ? value * 1e9 : 0;
}

/* "0302 [10de:15f9] ..." says the product; where it does not, the model's name counts. */
static enum status hwloc_identify(struct machine *m, uint32_t part, const struct xml_element *pci,
                                  const struct xml_element *os)
{
    char vendor[5] = "", device[5] = "";
    const char *type = xml_value(pci, "pci_type"), *said = os ? info(os, "GPUModel") : NULL;
    m->part[part].line = pci->line;
    if (type && sscanf(type, "%*4s [%4[0-9a-fA-F]:%4[0-9a-fA-F]", vendor, device) == 2)
        PASS(pci_identify(m, part, vendor, device));
    if (said && !m->part[part].type)
        m->part[part].model = said;
    return STATUS_OK;
}

/* The object is known by its type and gp_index to the matrix of NVLink. */
static enum status hwloc_note_object(struct hwloc_reader *r, const struct xml_element *e,
                                     uint32_t part)
{
    char name[64];
    const char *index = xml_value(e, "gp_index"), *type = xml_value(e, "type");
    if (!index || !type)
        return STATUS_OK;
    snprintf(name, sizeof name, "%.20s:%.20s", type, index);
    return machine_name_put(r->m, NAMES_PARTS, name, part);
}

/* Is an OS device one of a GPU's computing interfaces, or a network port? RDMA ports count, plain
 * Ethernet and IPoIB interfaces of the same device do not count again. */
static bool hwloc_computes(const struct xml_element *os)
{
    const char *name = xml_value(os, "name"), *sub = xml_value(os, "subtype");
    return (sub && (!strcmp(sub, "CUDA") || !strcmp(sub, "NVML") || !strcmp(sub, "OpenCL") ||
                    !strcmp(sub, "RSMI") || !strcmp(sub, "LevelZero"))) ||
           (name && (!strncmp(name, "nvml", 4) || !strncmp(name, "cuda", 4) ||
                     !strncmp(name, "rsmi", 4) || !strncmp(name, "opencl", 6)));
}

static const struct xml_element *find_os(const struct xml_element *pci,
                                         bool (*which)(const struct xml_element *))
{
    for (const struct xml_element *e = pci->first; e; e = e->next)
        if (hwloc_is_type(e, "OSDev") && which(e))
            return e;
    return NULL;
}

static enum status hwloc_add_gpu(struct hwloc_reader *r, const struct xml_element *pci, uint32_t up)
{
    struct machine *m = r->m;
    char name[48];
    uint32_t part;
    const struct xml_element *os = find_os(pci, hwloc_computes);
    snprintf(name, sizeof name, "GPU%u", r->gpus++);
    PASS(machine_add_part(m, MACHINE_GPU, 0, up, name, &part));
    m->part[part].up_Bps = hwloc_link_Bps(pci);
    PASS(hwloc_identify(m, part, pci, os));
    PASS(machine_set_numa(m, part, r->numa));
    const char *bus = xml_value(pci, "pci_busid");
    m->part[part].bus = bus;
    PASS(hwloc_note_object(r, pci, part));
    for (os = pci->first; os; os = os->next)
        if (hwloc_is_type(os, "OSDev"))
            PASS(hwloc_note_object(r, os, part));
    return STATUS_OK;
}

static bool is_network(const struct xml_element *os)
{
    const char *type = xml_value(os, "osdev_type"), *name = xml_value(os, "name");
    /* 2 and 3 of versions 1 and 2; bits 16 and 32 of version 3. */
    return type && !hwloc_computes(os) &&
           (!strcmp(type, "2") || !strcmp(type, "3") || !strcmp(type, "16") ||
            !strcmp(type, "32") || !strcmp(type, "48") || (name && !strncmp(name, "mlx5_", 5)));
}

/* OpenFabrics is 3 of versions 1 and 2, bit 32 of version 3. */
static bool is_rdma(const struct xml_element *os)
{
    const char *type = xml_value(os, "osdev_type");
    return info(os, "NodeGUID") ||
           (type && (!strcmp(type, "3") || !strcmp(type, "32") || !strcmp(type, "48")));
}

static enum status add_nic(struct hwloc_reader *r, const struct xml_element *pci, uint32_t up)
{
    uint32_t part;
    const struct xml_element *os = NULL;
    for (const struct xml_element *e = pci->first; e;
         e = e->next) /* RDMA's name is the better one */
        if (hwloc_is_type(e, "OSDev") && is_network(e) && (!os || info(e, "NodeGUID")))
            os = e;
    const char *name = os ? xml_value(os, "name") : NULL, *bus = xml_value(pci, "pci_busid");
    PASS(machine_add_part(r->m, MACHINE_NIC, 0, up, name ? name : bus ? bus : "port", &part));
    r->m->part[part].up_Bps = hwloc_link_Bps(pci);
    r->m->part[part].bus = bus;
    r->m->part[part].line = pci->line;
    PASS(machine_set_numa(r->m, part, r->numa));
    r->m->part[part].rdma = find_os(pci, is_rdma) ? MACHINE_RDMA : MACHINE_PLAIN;
    return hwloc_note_object(r, pci, part);
}

/* A PCI device that computes or has a port; others do not matter. */
static enum status add_device(struct hwloc_reader *r, const struct xml_element *pci, uint32_t up)
{
    uint32_t part;
    const char *sub = xml_value(pci, "subtype"), *type = xml_value(pci, "pci_type");
    long class = pci_class(type);
    if (sub && !strcmp(sub, "NVSwitch")) {
        const char *bus = xml_value(pci, "pci_busid");
        PASS(machine_add_part(r->m, MACHINE_NVSWITCH, 0, MACHINE_NONE, bus ? bus : "NVSwitch",
                              &part));
        return hwloc_note_object(r, pci, part);
    }
    bool compute = find_os(pci, hwloc_computes);
    r->silent += !compute && type && !strncmp(type, "0302", 4) && r->computing;
    if (compute || (type && !strncmp(type, "0302", 4) && !r->computing))
        return hwloc_add_gpu(r, pci, up);
    return class == 0x02 && find_os(pci, is_network) ? add_nic(r, pci, up) : STATUS_OK;
}

/* The one NUMA node of a set "0x00000002" or "0x1,,0x0", 32 bits a word; sets of several are
 * none. */
static void read_nodeset(struct hwloc_reader *r, const char *set)
{
    unsigned nodes = 0, number = 0, words = 0;
    for (const char *at = set; *at; words++) {
        unsigned long word = strtoul(at, NULL, 16);
        number += words > 0 ? 32 : 0;
        for (unsigned bit = 0; bit < 32; bit++)
            if (word >> bit & 1) {
                nodes++;
                number = bit;
            }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    r->numa[0] = '\0';
    if (nodes == 1)
        snprintf(r->numa, sizeof r->numa, "%u", number);
}

static enum status read_objects(struct hwloc_reader *r, const struct xml_element *above,
                                uint32_t up)
{
    for (const struct xml_element *e = above->first; e; e = e->next) {
        uint32_t part = up;
        const char *name = NULL, *set = xml_value(e, "nodeset");
        char numa[sizeof r->numa];
        if (strcmp(e->name, "object") != 0)
            continue;
        if (hwloc_is_type(e, "Package") || hwloc_is_type(e, "Socket") ||
            (hwloc_is_type(e, "Bridge") && up == MACHINE_NONE)) {
            PASS(machine_add_part(r->m, MACHINE_CPU, 0, MACHINE_NONE, "CPU", &part));
            PASS(hwloc_note_object(r, e, part));
        }
        if (hwloc_is_type(e, "Bridge") && (name = xml_value(e, "pci_busid"))) {
            uint32_t root = part;
            PASS(machine_add_part(r->m, MACHINE_BRIDGE, 0, root, name, &part));
            r->m->part[part].up_Bps = hwloc_link_Bps(e);
        }
        memcpy(numa, r->numa, sizeof numa);
        if (set)
            read_nodeset(r, set);
        if (hwloc_is_type(e, "PCIDev"))
            PASS(add_device(r, e, up));
        else
            PASS(read_objects(r, e, part));
        memcpy(r->numa, numa, sizeof numa);
    }
    return STATUS_OK;
}

/* The texts of all children of one name, joined. */
static enum status hwloc_gather(struct arena *a, const struct xml_element *of, const char *name,
                                char **out)
{
    size_t length = 0;
    for (const struct xml_element *e = of->first; e; e = e->next)
        length += !strcmp(e->name, name) && e->text ? strlen(e->text) + 1 : 0;
    char *text = arena_new(a, length + 1, 1), *at = text;
    if (!text)
        return STATUS_NOMEM;
    for (const struct xml_element *e = of->first; e; e = e->next)
        if (!strcmp(e->name, name) && e->text) {
            size_t n = strlen(e->text);
            memcpy(at, e->text, n);
            at[n] = ' ';
            at += n + 1;
        }
    *out = text;
    return STATUS_OK;
}

/* Objects of the matrix; those that are no part stand as MACHINE_NONE. */
static enum status read_indexes(struct hwloc_reader *r, const struct xml_element *of, char *text,
                                uint32_t *part, size_t *n)
{
    char *rest, name[64];
    const char *type = xml_value(of, "type");
    *n = 0;
    for (char *word = strtok_r(text, " \t\r\n", &rest); word;
         word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (*n == OBJECTS)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d objects", r->path, of->line,
                             OBJECTS);
        snprintf(name, sizeof name, "%.20s%s%.30s", type ? type : "", type ? ":" : "", word);
        part[(*n)++] = machine_name_find(r->m, NAMES_PARTS, name);
    }
    return STATUS_OK;
}

/* NVLink of a pair: how many lanes by the rate of one of them, which is the GPU's generation's. */
static enum status hwloc_join_gpus(struct hwloc_reader *r, uint32_t a, uint32_t b, double MBps)
{
    struct machine *m = r->m;
    enum machine_kind ka = m->part[a].kind, kb = m->part[b].kind;
    if (ka != MACHINE_GPU || (kb != MACHINE_GPU && kb != MACHINE_NVSWITCH))
        return STATUS_OK;
    const struct machine_part *p = &m->part[a];
    const struct gpu *gpu = p->type ? gpu_named(p->type) : p->model ? gpu_named(p->model) : NULL;
    double lane = !gpu                             ? 25e3
                  : !strncmp(gpu->name, "P100", 4) ? 20e3
                  : strchr(gpu->name, 'B')         ? 50e3
                                                   : 25e3;
    double count = round(MBps / lane);
    return machine_join(
        m, &(struct machine_link){.a = a, .b = b, .count = count < 1 ? 1 : (uint32_t)count});
}

static enum status read_matrix(struct hwloc_reader *r, const struct xml_element *of)
{
    char *indexes, *values, *rest;
    uint32_t *part;
    size_t n, k = 0;
    bool cpus = false;
    PASS(hwloc_gather(&r->m->arena, of, "indexes", &indexes));
    PASS(hwloc_gather(&r->m->arena, of, "u64values", &values));
    PASS(ARENA_NEW(&r->m->arena, part, OBJECTS));
    PASS(read_indexes(r, of, indexes, part, &n));
    for (char *word = strtok_r(values, " \t\r\n", &rest); word;
         word = strtok_r(NULL, " \t\r\n", &rest), k++) {
        double MBps;
        if (!text_real(word, &MBps) || MBps < 0 || MBps > 1e8)
            return error_set(STATUS_PARSE, "%s:%zu: NVLinkBandwidth: got '%.20s', expected MB/s",
                             r->path, of->line, word);
        if (k >= n * n)
            break;
        uint32_t a = part[k / n], b = part[k % n];
        if (MBps <= 0 || k / n == k % n || a == MACHINE_NONE || b == MACHINE_NONE || a == b)
            continue;
        cpus |= r->m->part[a].kind == MACHINE_CPU;
        if (r->m->part[b].kind != MACHINE_GPU || a < b)
            PASS(hwloc_join_gpus(r, a, b, MBps));
    }
    if (cpus)
        PASS(machine_warn(r->m, "ignored: NVLink between GPUs and CPUs"));
    return k == n * n
               ? STATUS_OK
               : error_set(
                     STATUS_PARSE,
                     "%s:%zu: got %zu%s numbers, expected %zu (a square matrix of %zu objects)",
                     r->path, of->line, k, k >= n * n ? " or more" : "", n * n, n);
}

/* Does any device below compute? */
static bool any_computes(const struct xml_element *above)
{
    for (const struct xml_element *e = above->first; e; e = e->next)
        if ((hwloc_is_type(e, "OSDev") && hwloc_computes(e)) || any_computes(e))
            return true;
    return false;
}

static enum status hwloc_parse(const struct machine_source *s, struct machine *m)
{
    struct xml_element *root;
    struct hwloc_reader r = {.m = m, .path = s->path};
    PASS(xml_read(s->path, s->text, s->length, &m->arena, &root));
    if (strcmp(root->name, "topology") != 0)
        return error_set(STATUS_PARSE, "%s:%zu: got <%.40s>, expected <topology>", s->path,
                         root->line, root->name);
    m->nodes = 1;
    m->no_nvlink_seen = true;
    r.computing = any_computes(root);
    PASS(read_objects(&r, root, MACHINE_NONE));
    if (r.silent > 0)
        PASS(machine_warn(m, "ignored: %u GPU%s without CUDA, NVML or OpenCL", r.silent,
                          r.silent == 1 ? "" : "s"));
    for (const struct xml_element *e = root->first; e; e = e->next) {
        const char *name = strncmp(e->name, "distances2", 10) ? NULL : xml_value(e, "name");
        if (!name || strcmp(name, "NVLinkBandwidth") != 0)
            continue;
        m->no_nvlink_seen = false;
        PASS(read_matrix(&r, e));
    }
    return STATUS_OK;
}

const struct machine_format machine_hwloc = {
    .name = "hwloc",
    .summary = "XML of lstopo and hwloc, with NVLinkBandwidth where NVML was there",
    .recognises = hwloc_recognises,
    .parse = hwloc_parse,
};
