/* What a file does not say of a machine, from options and the catalogue, each with a note: GPU
 * types, NVLink's lanes, PCIe, ports, cables. */
#include "topologies/machine/complete.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"

/* How many lanes of NVLink a GPU has, by the catalogue's name; what it attains over one of them
 * follows. Types that stand for a card without a switch: the rate of a lane is that of the same
 * chip elsewhere. */
static const struct {
    const char *name, *rate_of;
    unsigned lanes;
} nvlinks[] = {
    {"P100", "P100", 4},     {"V100", "V100", 6},        {"V100-FP32", "V100", 6},
    {"A100", "A100", 12},    {"A100-40", "A100", 12},    {"A100-PCIE", "A100", 12},
    {"H100", "H100", 18},    {"H100-HBM2E", "H100", 18}, {"H100-PCIE", "H100", 18},
    {"H800", "H800", 8},     {"H200", "H200", 18},       {"B200", "B200", 18},
    {"GB200", "GB200", 18},  {"B300", "B300", 18},       {"GB300", "GB300", 18},
    {"GH200", "GH200", 18},  {"MI300X", "MI300X", 7},    {"MI325X", "MI325X", 7},
    {"MI355X", "MI355X", 7}, {"MI250", "MI250", 1},
};
enum { RULES = sizeof nvlinks / sizeof *nvlinks };
static const double pcie3_attained = 12e9 / 15.7538e9; /* of nominal, NCCL's figure for 3.0 x16 */

unsigned machine_lanes(const struct gpu *gpu)
{
    for (size_t k = 0; k < RULES; k++)
        if (!strcmp(gpu->name, nvlinks[k].name))
            return nvlinks[k].lanes;
    return 0;
}

/* Attained over one lane, one direction. Without a row: of the first generations, 20 GB/s. */
static double lane_Bps(const struct gpu *gpu)
{
    for (size_t k = 0; k < RULES; k++)
        if (!strcmp(gpu->name, nvlinks[k].name)) {
            const struct gpu *of = gpu_named(nvlinks[k].rate_of);
            return of->nvlink_Bps / nvlinks[k].lanes;
        }
    return 20e9;
}

/* What the file hints at: lanes of a pair, lanes of a GPU in all, PCIe's generation. */
static const char *guess_gpu(const struct machine *m)
{
    uint32_t pair = 0, first = MACHINE_NONE, total = 0;
    double pcie = 0;
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU) {
            first = first == MACHINE_NONE ? i : first;
            pcie = m->part[i].up_Bps > pcie ? m->part[i].up_Bps : pcie;
        }
    for (size_t k = 0; k < m->links; k++)
        if (!m->link[k].net) {
            pair = m->link[k].count > pair ? m->link[k].count : pair;
            total += m->link[k].a == first || m->link[k].b == first ? m->link[k].count : 0;
        }
    if (pair == 0 && m->no_gpus_seen)
        return pcie > 40e9 ? "H100" : pcie > 20e9 ? "A100" : "V100";
    if (pair == 0)
        return "A100-PCIE";
    return pair > 12 ? "H100" : pair > 6 ? "A100" : pair == 1 && total == 4 ? "P100" : "V100";
}

/* A GPU that the catalogue has no row for is not some other one, unless somebody says which. */
static enum status refuse_gpu(const struct machine *m, const struct machine_part *p)
{
    char at[MACHINE_AT];
    return error_set(STATUS_INVALID,
                     "%s: %s%.60s%s is not in the GPU catalogue; choose a similar type with --gpu "
                     "TYPE (list: foreline topology generate list)",
                     machine_at(m, p->line, at), strncmp(p->model, "unknown", 7) ? "GPU '" : "",
                     p->model, strncmp(p->model, "unknown", 7) ? "'" : "");
}

/* The GB that a product's name ends with, "A100-PCIE-40GB"; 0: none. */
static double memory_named(const char *model)
{
    const char *end = strstr(model, "GB"), *at = end;
    while (at && at > model && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at && at < end && end - at < 5 ? strtod(at, NULL) : 0;
}

/* A row may stand for a product with other memory or without the types that it has. */
static enum status note_difference(struct machine *m, const struct machine_part *p)
{
    double named = memory_named(p->model), row = memory_named(p->gpu->type);
    if (named > 0 && row > 0 && fabs(named / row - 1) > 0.1)
        return machine_warn(m, "GPU '%.60s' is treated as %s, which has %g GB of memory, not %g GB",
                            p->model, p->gpu->name, row, named);
    if (!strcmp(p->gpu->name, "V100-FP32"))
        return machine_warn(m,
                            "GPU '%.60s' is treated as V100-FP32, which computes in fp32 only; for "
                            "fp16 and 32 GB, use --gpu V100",
                            p->model);
    return STATUS_OK;
}

/* GPUs of one model, which are many, follow each other. */
static enum status find_types(struct machine *m, const struct machine_options *o)
{
    const struct gpu *guess = gpu_named(guess_gpu(m));
    const struct machine_part *before = NULL;
    for (size_t i = 0; i < m->parts; i++) {
        struct machine_part *p = &m->part[i];
        if (p->kind != MACHINE_GPU || p->gpu)
            continue;
        const bool alike = before && (p->model && before->model ? !strcmp(p->model, before->model)
                                                                : p->model == before->model);
        const char *name = p->by_id ? p->type : p->model;
        p->gpu = alike ? before->gpu : o->gpu ? o->gpu : name ? gpu_named(name) : NULL;
        before = p;
        if (p->gpu && p->model && !alike && !o->gpu)
            PASS(note_difference(m, p));
        if (p->gpu)
            continue;
        if (p->model)
            return refuse_gpu(m, p);
        p->gpu = guess;
        PASS(machine_assume(m, "GPU type %s (the file does not name one); override with --gpu",
                            guess->name));
    }
    return STATUS_OK;
}

/* ---- NVLink */

/* A matrix shows what an NVSwitch joins as pairs: all with as many lanes as one GPU has, which
 * cannot be cables. Then the pairs become links to a switch. */
static enum status find_switch(struct machine *m)
{
    size_t n = 0, direct = 0;
    uint32_t count = 0, part;
    const struct gpu *gpu = NULL;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU) {
            gpu = m->part[i].gpu;
            n++;
        }
    for (size_t k = 0; k < m->links; k++) {
        if (m->link[k].net || m->part[m->link[k].b].kind != MACHINE_GPU ||
            (count > 0 && m->link[k].count != count))
            return STATUS_OK;
        count = m->link[k].count;
        direct++;
    }
    unsigned lanes = gpu && machine_lanes(gpu) ? machine_lanes(gpu) : 18;
    if (m->nodes != 1 || n < 3 || direct != n * (n - 1) / 2 || count * (n - 1) <= lanes)
        return STATUS_OK;
    PASS(machine_add_part(m, MACHINE_NVSWITCH, 0, MACHINE_NONE, "NVSwitch", &part));
    m->links = 0; /* capacities of ARRAY_ROOM() only grow */
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU) {
            m->link[m->links++] = (struct machine_link){.a = i, .b = part, .count = count};
        }
    return machine_assume(
        m, "an NVSwitch, because NV%u between all %zu GPUs is more than direct links allow", count,
        n);
}

/* Types whose servers have an NVSwitch: where a file cannot show NVLink, theirs is not absent. */
static enum status assume_switch(struct machine *m)
{
    size_t n = 0;
    uint32_t part;
    const struct gpu *gpu = NULL;
    if (!m->no_nvlink_seen || m->links > 0)
        return STATUS_OK;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU) {
            gpu = m->part[i].gpu;
            n++;
        }
    if (n < 4 || m->nodes != 1 || machine_lanes(gpu) < 8 || strstr(gpu->name, "PCIE") ||
        !strncmp(gpu->name, "GH", 2))
        return machine_warn(m, "the file has no NVLink: GPUs are joined by PCIe only");
    PASS(machine_add_part(m, MACHINE_NVSWITCH, 0, MACHINE_NONE, "NVSwitch", &part));
    for (uint32_t i = 0; i < part; i++)
        if (m->part[i].kind == MACHINE_GPU)
            PASS(machine_join(
                m, &(struct machine_link){.a = i, .b = part, .count = machine_lanes(gpu)}));
    return machine_assume(m,
                          "an NVSwitch with %u NVLink links to each %s, as in the vendor's server "
                          "(the file lists no NVLink)",
                          machine_lanes(gpu), gpu->name);
}

static enum status nvlink_rates(struct machine *m)
{
    const struct gpu *before = NULL; /* of a million links most are alike */
    double Bps = 0;
    for (size_t k = 0; k < m->links; k++) {
        struct machine_link *l = &m->link[k];
        if (l->net || l->Bps > 0)
            continue;
        const struct gpu *gpu = m->part[l->a].gpu;
        if (gpu != before) {
            Bps = lane_Bps(gpu);
            PASS(machine_assume(m, "NVLink at %s per lane, the bandwidth that %s GPUs attain",
                                units_of(UNIT_RATE, Bps).text, gpu->name));
        }
        l->Bps = Bps;
        before = gpu;
    }
    return STATUS_OK;
}

uint32_t machine_nvlinks(const struct machine *m, uint32_t a, uint32_t b)
{
    uint32_t direct = 0, of[2] = {0, 0};
    for (size_t k = 0; k < m->links; k++) {
        const struct machine_link *l = &m->link[k];
        if (l->net)
            continue;
        if ((l->a == a && l->b == b) || (l->a == b && l->b == a))
            direct += l->count;
        if (m->part[l->b].kind == MACHINE_NVSWITCH && (l->a == a || l->a == b))
            of[l->a == b] += l->count;
    }
    uint32_t through = m->part[a].node == m->part[b].node ? (of[0] < of[1] ? of[0] : of[1]) : 0;
    return direct + through;
}

/* ---- PCIe, ports, cables */

static enum status pcie_rates(struct machine *m)
{
    const struct gpu *gpu = NULL, *before = NULL;
    double most = 0;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU && m->part[i].gpu->pcie_Bps > most) {
            gpu = m->part[i].gpu;
            most = gpu->pcie_Bps;
        }
    for (size_t i = 0; i < m->parts; i++) {
        struct machine_part *p = &m->part[i];
        double type = p->gpu ? p->gpu->pcie_Bps : most;
        if (p->up == MACHINE_NONE)
            continue;
        if (!(p->up_Bps > 0)) {
            p->up_Bps = type;
            const struct gpu *of = p->gpu ? p->gpu : gpu;
            if (of != before)
                PASS(machine_assume(m, "PCIe at %s, the bandwidth that %s GPUs attain",
                                    units_of(UNIT_RATE, type).text, of->name));
            before = of;
            continue;
        }
        double attained = p->up_Bps * pcie3_attained;
        if (p->kind == MACHINE_GPU && attained > 1.05 * type) {
            PASS(machine_warn(m, "the file has PCIe of %s, more than %s supports; using %s",
                              units_of(UNIT_RATE, p->up_Bps).text, p->gpu->name,
                              units_of(UNIT_RATE, type).text));
            attained = type;
        } else if (p->kind == MACHINE_GPU && attained < 0.55 * type) {
            PASS(machine_warn(
                m, "the file has PCIe of %s, less than %s supports: the link may have been asleep",
                units_of(UNIT_RATE, p->up_Bps).text, p->gpu->name));
        }
        p->up_Bps = attained;
    }
    return STATUS_OK;
}

static enum status port_rates(struct machine *m, const struct machine_options *o)
{
    const struct gpu *gpu = NULL;
    bool said = false;
    for (size_t i = 0; i < m->parts && !gpu; i++)
        gpu = m->part[i].gpu;
    for (size_t i = 0; i < m->parts; i++) {
        struct machine_part *p = &m->part[i];
        if (p->kind != MACHINE_NIC)
            continue;
        if (o->nic_Bps > 0)
            p->Bps = o->nic_Bps;
        if (p->Bps > 0)
            continue;
        p->Bps = gpu->nic_Bps;
        if (p->up_Bps > 0 && p->up_Bps < p->Bps / 2) {
            p->Bps = p->up_Bps;
            PASS(machine_assume(
                m, "NIC speed of port %.40s is %s, the rate of its PCIe lanes; override with --nic",
                p->name, units_of(UNIT_RATE, p->Bps).text));
            continue;
        }
        if (!said)
            PASS(machine_assume(
                m, "NIC speed is %s, the default for a server with %s; override with --nic",
                units_of(UNIT_RATE, p->Bps).text, gpu->name));
        said = true;
    }
    return STATUS_OK;
}

/* Cables of trees run from the switch above, a, to what is below, b. Where nothing is said they
 * carry all that is below. */
struct below {
    struct machine *m;
    size_t *first; /* [parts + 1] links by their upper end */
    uint32_t *link;
    double *Bps; /* [parts] */
    unsigned char *state;
};

static enum status count_below(struct below *b, uint32_t part, int depth)
{
    struct machine *m = b->m;
    if (b->state[part] == 2)
        return STATUS_OK;
    if (b->state[part] == 1 || depth > 200)
        return error_set(STATUS_PARSE, "%s: switch %.60s is below itself in the tree of switches",
                         m->path, m->part[part].name);
    b->state[part] = 1;
    double sum = m->part[part].kind == MACHINE_NIC ? m->part[part].Bps : 0;
    for (size_t k = b->first[part]; k < b->first[part + 1]; k++) {
        struct machine_link *l = &m->link[b->link[k]];
        if (l->Bps > 0) {
            sum += l->Bps * l->count;
            continue;
        }
        PASS(count_below(b, l->b, depth + 1));
        sum += b->Bps[l->b];
        l->Bps = b->Bps[l->b] > 0 ? b->Bps[l->b] / l->count : 1;
    }
    b->Bps[part] = sum;
    b->state[part] = 2;
    return STATUS_OK;
}

static enum status cable_rates(struct machine *m)
{
    enum status st = STATUS_OK;
    struct below b = {.m = m};
    bool silent = false;
    for (size_t k = 0; k < m->links; k++)
        silent |= m->link[k].net && !(m->link[k].Bps > 0);
    if (!silent)
        return STATUS_OK;
    TRY(ARRAY_NEW(b.first, m->parts + 2));
    TRY(ARRAY_NEW(b.link, m->links));
    TRY(ARRAY_NEW(b.Bps, m->parts));
    TRY(ARRAY_NEW(b.state, m->parts));
    for (size_t k = 0; k < m->links; k++)
        b.first[m->link[k].a + 2] += m->link[k].net;
    for (size_t i = 2; i < m->parts + 2; i++)
        b.first[i] += b.first[i - 1];
    for (size_t k = 0; k < m->links; k++)
        if (m->link[k].net)
            b.link[b.first[m->link[k].a + 1]++] = (uint32_t)k;
    for (uint32_t i = 0; i < m->parts; i++)
        TRY(count_below(&b, i, 0));
    TRY(machine_assume(
        m, "the uplinks of each switch have the total bandwidth of all ports below it"));
out:
    free(b.first);
    free(b.link);
    free(b.Bps);
    free(b.state);
    return st;
}

/* Cables side by side are one of as many. */
static int compare_ends(const void *a, const void *b)
{
    const struct machine_link *x = a, *y = b;
    uint32_t xa = x->a < x->b ? x->a : x->b, ya = y->a < y->b ? y->a : y->b;
    uint32_t xb = x->a ^ x->b ^ xa, yb = y->a ^ y->b ^ ya;
    if (x->net != y->net)
        return x->net ? 1 : -1;
    return xa != ya ? (xa < ya ? -1 : 1) : xb != yb ? (xb < yb ? -1 : 1) : 0;
}

static void merge_cables(struct machine *m)
{
    size_t n = 0;
    if (m->links > 0)
        qsort(m->link, m->links, sizeof *m->link, compare_ends);
    for (size_t k = 0; k < m->links; k++) {
        struct machine_link *l = &m->link[k], *into = n > 0 ? &m->link[n - 1] : NULL;
        if (!into || !l->net || compare_ends(into, l) != 0) {
            m->link[n++] = *l;
            continue;
        }
        uint32_t count = into->count + l->count;
        into->Bps = (into->Bps * into->count + l->Bps * l->count) / count;
        into->count = count;
    }
    m->links = n;
}

/* A GPU that the file joins to nothing hangs from a CPU of its node. */
static enum status join_lonely(struct machine *m)
{
    enum status st = STATUS_OK;
    bool *joined = NULL;
    uint32_t cpu = MACHINE_NONE, node = MACHINE_NONE;
    size_t parts = m->parts;
    TRY(ARRAY_NEW(joined, parts));
    for (size_t k = 0; k < m->links; k++)
        joined[m->link[k].a] = joined[m->link[k].b] = true;
    for (size_t i = 0; i < parts; i++) {
        if (m->part[i].kind != MACHINE_GPU || joined[i] || m->part[i].up != MACHINE_NONE)
            continue;
        if (cpu == MACHINE_NONE || node != m->part[i].node) {
            node = m->part[i].node;
            TRY(machine_add_part(m, MACHINE_CPU, node, MACHINE_NONE, "CPU", &cpu));
        }
        m->part[i].up = cpu;
        TRY(machine_assume(m,
                           "GPUs without a connection in the file are connected to a CPU by PCIe"));
    }
out:
    free(joined);
    return st;
}

size_t machine_count(const struct machine *m, enum machine_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < m->parts; i++)
        n += m->part[i].kind == kind;
    return n;
}

enum status machine_inside(struct machine *m, const struct machine_options *o)
{
    PASS(machine_fabric_ports(m, o));
    PASS(join_lonely(m));
    PASS(find_types(m, o));
    PASS(find_switch(m));
    return assume_switch(m);
}

enum status machine_complete(struct machine *m, const struct machine_options *o)
{
    if (machine_count(m, MACHINE_GPU) == 0)
        return error_set(STATUS_INVALID,
                         "%s: machine has no GPUs, so there are no devices to plan for", m->path);
    PASS(machine_fabric_ports(m, o));
    merge_cables(m);
    PASS(m->nodes == 1 ? machine_inside(m, o) : join_lonely(m));
    PASS(find_types(m, o));
    PASS(nvlink_rates(m));
    PASS(pcie_rates(m));
    PASS(port_rates(m, o));
    PASS(machine_bundle_ports(m));
    PASS(machine_join_planes(m));
    merge_cables(m);
    return cable_rates(m);
}
