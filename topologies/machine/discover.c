/* This machine: PCI and CPUs from hwloc, GPUs' names and NVLinks from NVML where there is one,
 * rates of ports from /sys. */
#include "topologies/machine/discover.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/module.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "topologies/machine/hwloc_module.h"
#include "topologies/machine/pci.h"

/* NVML's own declarations, of its ABI of version 11 and later: no header is needed to build. */
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
enum { NVML_LINKS = 36, NVML_NAME = 96 };

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*by_index)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*pci)(void *device, struct nvml_pci *pci);
    int (*link_state)(void *device, unsigned link, unsigned *active);
    int (*link_remote)(void *device, unsigned link, struct nvml_pci *pci);
};

/* POSIX lets dlsym()'s pointer be one to a function; C has no conversion for it. */
static bool discover_find_part(const struct nvml *n, const char *symbol, void *function)
{
    void *at = dlsym(n->library, symbol);
    memcpy(function, &at, sizeof at);
    return at;
}

static bool nvml_open(struct nvml *n)
{
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    return n->library && discover_find_part(n, "nvmlInit_v2", &n->init) &&
           discover_find_part(n, "nvmlShutdown", &n->shutdown) &&
           discover_find_part(n, "nvmlDeviceGetCount_v2", &n->count) &&
           discover_find_part(n, "nvmlDeviceGetHandleByIndex_v2", &n->by_index) &&
           discover_find_part(n, "nvmlDeviceGetName", &n->name) &&
           discover_find_part(n, "nvmlDeviceGetPciInfo_v3", &n->pci) &&
           discover_find_part(n, "nvmlDeviceGetNvLinkState", &n->link_state) &&
           discover_find_part(n, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->link_remote) &&
           n->init() == 0;
}

/* NVML writes domains of 8 digits, PCI ones of 4: what counts ends equal. */
static bool same_bus(const char *a, const char *b)
{
    size_t n = strlen(a), k = strlen(b);
    size_t shorter = n < k ? n : k;
    for (size_t i = 1; i <= shorter; i++)
        if ((a[n - i] | 32) != (b[k - i] | 32))
            return false;
    return shorter >= 7;
}

static uint32_t discover_part_at(const struct machine *m, const char *bus)
{
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].bus && same_bus(m->part[i].bus, bus))
            return i;
    return MACHINE_NONE;
}

/* One lane: to a GPU, counted from its lower end, or to an NVSwitch. */
static enum status add_lane(struct machine *m, uint32_t gpu, const char *bus, uint32_t *nvswitch)
{
    uint32_t other = discover_part_at(m, bus);
    if (other != MACHINE_NONE && (m->part[other].kind != MACHINE_GPU || other < gpu))
        return STATUS_OK;
    if (other == MACHINE_NONE) {
        if (*nvswitch == MACHINE_NONE)
            PASS(machine_add_part(m, MACHINE_NVSWITCH, 0, MACHINE_NONE, "NVSwitch", nvswitch));
        other = *nvswitch;
    }
    for (size_t k = 0; k < m->links; k++)
        if (m->link[k].a == gpu && m->link[k].b == other) {
            m->link[k].count++;
            return STATUS_OK;
        }
    return machine_join(m, &(struct machine_link){.a = gpu, .b = other, .count = 1});
}

static enum status ask_gpu(struct machine *m, const struct nvml *n, void *device,
                           uint32_t *nvswitch)
{
    struct nvml_pci pci;
    char name[NVML_NAME], vendor[16], id[16];
    uint32_t part;
    if (n->pci(device, &pci) != 0 || n->name(device, name, sizeof name) != 0)
        return STATUS_OK;
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    if ((part = discover_part_at(m, pci.bus_id)) == MACHINE_NONE) {
        /* A container may hide PCI devices from hwloc. */
        PASS(machine_add_part(m, MACHINE_GPU, 0, 0, "GPU", &part));
        m->part[part].bus = arena_text(&m->arena, pci.bus_id);
    }
    snprintf(vendor, sizeof vendor, "%x", pci.id & 0xffff);
    snprintf(id, sizeof id, "%x", pci.id >> 16);
    PASS(pci_identify(m, part, vendor, id));
    if (!m->part[part].type)
        m->part[part].model = arena_text(&m->arena, name);
    for (unsigned link = 0; link < NVML_LINKS; link++) {
        unsigned active = 0;
        struct nvml_pci remote = {.bus_id = ""};
        if (n->link_state(device, link, &active) != 0 || !active ||
            n->link_remote(device, link, &remote) != 0)
            continue;
        remote.bus_id[sizeof remote.bus_id - 1] = '\0';
        PASS(add_lane(m, part, remote.bus_id, nvswitch));
    }
    return STATUS_OK;
}

/* What hwloc's own plugin for NVML found already is not asked again. */
static enum status ask_nvml(struct machine *m)
{
    enum status st = STATUS_OK;
    struct nvml n = {0};
    unsigned count = 0;
    void *device;
    uint32_t nvswitch = MACHINE_NONE;
    bool open = m->links == 0 && nvml_open(&n);
    for (unsigned i = 0; open && n.count(&count) == 0 && i < count && st == STATUS_OK; i++)
        if (n.by_index(i, &device) == 0)
            st = ask_gpu(m, &n, device, &nvswitch);
    if (open)
        n.shutdown();
    if (n.library)
        dlclose(n.library);
    return st;
}

/* The number that a file of /sys begins with; 0: none. */
static double sys_number(const char *format, const char *name)
{
    char path[256];
    double value = 0;
    snprintf(path, sizeof path, format, name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &value) != 1)
        value = 0;
    if (f)
        fclose(f);
    return value > 0 ? value : 0;
}

/* InfiniBand's files say Gb/s, Ethernet's Mb/s. */
static void ask_ports(struct machine *m)
{
    for (size_t i = 0; i < m->parts; i++) {
        struct machine_part *p = &m->part[i];
        if (p->kind != MACHINE_NIC || strchr(p->name, '/') || *p->name == '.')
            continue;
        p->Bps = sys_number("/sys/class/infiniband/%.64s/ports/1/rate", p->name) * 1e9 / 8;
        if (!(p->Bps > 0))
            p->Bps = sys_number("/sys/class/net/%.64s/speed", p->name) * 1e6 / 8;
    }
}

/* Cores through their memory, at what the catalogue says of a core's loopback; nothing else of the
 * machine joins them. */
static enum status use_cores(struct machine *m, size_t cores)
{
    char name[32];
    uint32_t memory, part;
    const struct gpu *cpu = gpu_named("CPU");
    m->parts = m->links = 0;
    m->cores = true;
    PASS(machine_add_part(m, MACHINE_NVSWITCH, 0, MACHINE_NONE, "memory", &memory));
    for (size_t i = 0; i < cores; i++) {
        snprintf(name, sizeof name, "core%zu", i);
        PASS(machine_add_part(m, MACHINE_GPU, 0, MACHINE_NONE, name, &part));
        m->part[part].gpu = cpu;
        PASS(machine_join(
            m, &(struct machine_link){.a = part, .b = memory, .count = 1, .Bps = cpu->nvlink_Bps}));
    }
    return machine_assume(
        m,
        "no GPU found, so each of the %zu core%s is a device: it computes %s, has %s of memory at "
        "%s and sends %s to other cores. To measure these values: foreline calibrate -o here.xml",
        cores, cores == 1 ? "" : "s", units_of(UNIT_FLOPS, cpu->flops).text,
        units_of(UNIT_BYTES, (double)cpu->memory_bytes).text,
        units_of(UNIT_RATE, cpu->memory_Bps).text, units_of(UNIT_RATE, cpu->nvlink_Bps).text);
}

enum status machine_discover(struct machine *out)
{
    enum status st;
    const void *loaded;
    char *xml = NULL;
    size_t length = 0, cores = 0;
    struct machine m = {0};
    TRY(module_load(HWLOC_MODULE, "hwloc_module", &loaded));
    const struct hwloc_module *hwloc = loaded;
    if (hwloc->discover(&xml, &length, &cores) != 0)
        FAIL(STATUS_EXTERNAL, "hwloc cannot read this machine's topology");
    TRY(machine_parse("this machine", xml, length, &m));
    m.format = "discovery";
    TRY(ask_nvml(&m));
    ask_ports(&m);
    if (machine_count(&m, MACHINE_GPU) == 0)
        TRY(use_cores(&m, cores));
    MOVE(out, m);
out:
    free(xml);
    machine_free(&m);
    return st;
}
