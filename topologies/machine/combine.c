/* Nodes of a network that only have names get insides: those of a file about one node, or of the
 * vendor's server of a GPU type. Copies of one node get a switch. */
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/complete.h"

enum { NODES = 1 << 20 };

/* GPUs on an NVSwitch where their type has one, a port each, below one CPU. */
static enum status vendors_node(const struct machine_options *o, struct machine *out)
{
    char name[32];
    uint32_t cpu, nvswitch = MACHINE_NONE, part;
    const struct gpu *gpu = o->gpu ? o->gpu : gpu_named("H100");
    bool grace = strchr(gpu->name, 'G') == gpu->name;
    size_t n = o->gpus > 0 ? o->gpus : grace ? 4 : 8;
    out->path = "node";
    out->format = "catalogue";
    out->nodes = 1;
    PASS(machine_add_part(out, MACHINE_CPU, 0, MACHINE_NONE, "CPU", &cpu));
    if (machine_lanes(gpu) > 0 && n > 1)
        PASS(machine_add_part(out, MACHINE_NVSWITCH, 0, MACHINE_NONE, "NVSwitch", &nvswitch));
    for (size_t g = 0; g < n; g++) {
        snprintf(name, sizeof name, "GPU%zu", g);
        PASS(machine_add_part(out, MACHINE_GPU, 0, cpu, name, &part));
        out->part[part].gpu = gpu;
        if (nvswitch != MACHINE_NONE)
            PASS(machine_join(out, &(struct machine_link){
                                       .a = part, .b = nvswitch, .count = machine_lanes(gpu)}));
        snprintf(name, sizeof name, "NIC%zu", g);
        PASS(machine_add_part(out, MACHINE_NIC, 0, cpu, name, NULL));
    }
    return machine_assume(out,
                          "nodes of %zu %s each%s, with a network port per GPU; override with "
                          "--node FILE, --gpu and --gpus",
                          n, gpu->name, nvswitch != MACHINE_NONE ? " on an NVSwitch" : "");
}

/* Where a copy of a node goes. */
struct copy {
    struct machine *out;
    const struct machine *node;
    uint32_t *map;   /* [node's parts] to the copy's */
    uint32_t index;  /* of the node */
    uint32_t shared; /* NVSwitch of the node's domain; MACHINE_NONE: each copy has its own */
};

static enum status copy_node(const struct copy *c)
{
    const struct machine *node = c->node;
    for (size_t i = 0; i < node->parts; i++) {
        struct machine_part p = node->part[i];
        if (p.kind == MACHINE_NVSWITCH && c->shared != MACHINE_NONE) {
            c->map[i] = c->shared;
            continue;
        }
        PASS(machine_add_part(c->out, p.kind, c->index, MACHINE_NONE, p.name, &c->map[i]));
        const char *name = c->out->part[c->map[i]].name;
        p.name = name;
        p.node = c->index;
        p.up = p.up == MACHINE_NONE ? MACHINE_NONE : c->map[p.up]; /* what is above stands before */
        c->out->part[c->map[i]] = p;
        PASS(machine_set_numa(c->out, c->map[i], p.numa)); /* the node's texts end before */
    }
    for (size_t k = 0; k < node->links; k++) {
        struct machine_link l = node->link[k];
        l.a = c->map[l.a];
        l.b = c->map[l.b];
        PASS(machine_join(c->out, &l));
    }
    return STATUS_OK;
}

/* Ports of a copy take the node's cables in turn; the longer list decides how many there are. */
static enum status plug(struct machine *out, const struct machine_link *cable, size_t cables,
                        const uint32_t *nic, size_t nics)
{
    for (size_t k = 0; k < (cables > nics ? cables : nics) && cables > 0 && nics > 0; k++) {
        struct machine_link l = cable[k % cables];
        struct machine_part *p = &out->part[nic[k % nics]];
        l.b = nic[k % nics];
        if (l.Bps > 0 && !(p->Bps > 0))
            p->Bps = l.Bps;
        if (cables <= nics)
            l.count = 1;
        PASS(machine_join(out, &l));
    }
    return STATUS_OK;
}

struct combine {
    const struct machine *fabric, *node;
    const struct machine_options *o;
    struct machine *out;
    uint32_t *map, *copied, *nic; /* of the fabric's parts; of the node's; ports of a copy */
    size_t *first;                /* [fabric's parts + 1] cables of a part */
    struct machine_link *cable;   /* the fabric's end renamed, `a` being the switch */
};

/* The fabric's cables by node, their switches as they are called in the result. */
static enum status sort_cables(struct combine *c)
{
    const struct machine *f = c->fabric;
    PASS(ARRAY_NEW(c->first, f->parts + 2));
    PASS(ARRAY_NEW(c->cable, f->links));
    for (size_t k = 0; k < f->links; k++)
        c->first[f->link[k].b + 2] += f->part[f->link[k].b].kind == MACHINE_NODE;
    for (size_t i = 2; i < f->parts + 2; i++)
        c->first[i] += c->first[i - 1];
    for (size_t k = 0; k < f->links; k++) {
        struct machine_link l = f->link[k];
        l.a = c->map[l.a];
        if (f->part[l.b].kind == MACHINE_NODE)
            c->cable[c->first[l.b + 1]++] = l;
        else {
            l.b = c->map[l.b];
            PASS(machine_join(c->out, &l));
        }
    }
    return STATUS_OK;
}

/* Racks of GB200 and its kin share one NVSwitch plane. */
static enum status domain_switch(struct combine *c, const char *domain, uint32_t *out)
{
    const struct gpu *gpu = c->o->gpu;
    for (size_t i = 0; i < c->node->parts && !gpu; i++)
        gpu = c->node->part[i].gpu     ? c->node->part[i].gpu
              : c->node->part[i].model ? gpu_named(c->node->part[i].model)
                                       : NULL;
    *out = MACHINE_NONE;
    if (!domain || !gpu || strncmp(gpu->name, "GB", 2) != 0)
        return STATUS_OK;
    *out = machine_name_find(c->out, NAMES_DOMAINS, domain);
    if (*out != MACHINE_NONE)
        return STATUS_OK;
    PASS(machine_add_part(c->out, MACHINE_NVSWITCH, MACHINE_NONE, MACHINE_NONE, domain, out));
    return machine_name_put(c->out, NAMES_DOMAINS, domain, *out);
}

static enum status fill_nodes(struct combine *c)
{
    size_t most = c->o->nodes;
    for (uint32_t i = 0; i < c->fabric->parts; i++) {
        const struct machine_part *p = &c->fabric->part[i];
        size_t nics = 0;
        if (p->kind != MACHINE_NODE || (most > 0 && c->out->nodes == most))
            continue;
        struct copy copy = {c->out, c->node, c->copied, (uint32_t)c->out->nodes++, MACHINE_NONE};
        PASS(domain_switch(c, p->domain, &copy.shared));
        PASS(copy_node(&copy));
        for (size_t k = 0; k < c->node->parts; k++)
            if (c->node->part[k].kind == MACHINE_NIC)
                c->nic[nics++] = c->copied[k];
        PASS(plug(c->out, c->cable + c->first[i], c->first[i + 1] - c->first[i], c->nic, nics));
    }
    if (most > 0 && c->out->nodes < most)
        return error_set(STATUS_INVALID, "%s: file has %zu nodes, expected at least %zu (--nodes)",
                         c->fabric->path, c->out->nodes, most);
    return STATUS_OK;
}

static enum status take_notes(struct machine *to, const struct machine *from)
{
    for (size_t k = 0; k < from->assumed.n; k++)
        PASS(machine_assume(to, "%s", from->assumed.text[k]));
    for (size_t k = 0; k < from->warnings.n; k++)
        PASS(machine_warn(to, "%s", from->warnings.text[k]));
    return STATUS_OK;
}

static uint32_t combine_root(uint32_t *of, uint32_t i)
{
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

/* A network in several pieces, as trees of several roots: a switch above all is assumed. */
static enum status join_pieces(struct machine *m)
{
    enum status st;
    uint32_t *of = NULL, core = MACHINE_NONE, first = MACHINE_NONE;
    bool *below = NULL;
    size_t parts = m->parts;
    TRY(ARRAY_NEW(of, parts));
    TRY(ARRAY_NEW(below, parts));
    for (uint32_t i = 0; i < parts; i++)
        of[i] = i;
    for (size_t k = 0; k < m->links; k++)
        if (m->link[k].net) {
            of[combine_root(of, m->link[k].a)] = combine_root(of, m->link[k].b);
            below[m->link[k].b] = true;
        }
    for (int round = 0; round < 2; round++) /* roots of trees first, then what stands in circles */
        for (uint32_t i = 0; i < parts; i++) {
            if (m->part[i].kind != MACHINE_SWITCH || (round == 0 && below[i]))
                continue;
            if (first == MACHINE_NONE)
                first = i;
            if (combine_root(of, i) == combine_root(of, first))
                continue;
            if (core == MACHINE_NONE) {
                TRY(machine_add_part(m, MACHINE_SWITCH, MACHINE_NONE, MACHINE_NONE, "core", &core));
                TRY(machine_join(
                    m, &(struct machine_link){.net = true, .a = core, .b = first, .count = 1}));
                TRY(machine_assume(
                    m, "one root switch (the file describes several unconnected networks)"));
            }
            TRY(machine_join(m,
                             &(struct machine_link){.net = true, .a = core, .b = i, .count = 1}));
            of[combine_root(of, i)] = combine_root(of, first);
        }
    st = STATUS_OK;
out:
    free(of);
    free(below);
    return st;
}

static enum status combine_files(struct combine *c)
{
    const struct machine *f = c->fabric;
    c->out->format = f->format;
    if (!(c->out->path = arena_text(&c->out->arena, f->path)))
        return STATUS_NOMEM;
    c->out->no_nvlink_seen = c->node->no_nvlink_seen;
    PASS(take_notes(c->out, f));
    if (c->node != f)
        PASS(take_notes(c->out, c->node));
    PASS(ARRAY_NEW(c->map, f->parts));
    PASS(ARRAY_NEW(c->copied, c->node->parts));
    PASS(ARRAY_NEW(c->nic, c->node->parts));
    for (uint32_t i = 0; i < f->parts; i++)
        if (f->part[i].kind != MACHINE_NODE)
            PASS(machine_add_part(c->out, f->part[i].kind, MACHINE_NONE, MACHINE_NONE,
                                  f->part[i].name, &c->map[i]));
    PASS(sort_cables(c));
    PASS(fill_nodes(c));
    return join_pieces(c->out);
}

/* --nodes of a machine without network: one switch. */
static enum status star(const struct machine *of, size_t nodes, struct machine *out)
{
    uint32_t hub, part;
    char name[32];
    if (nodes > NODES)
        return error_set(STATUS_INVALID, "got --nodes %zu, expected up to %d", nodes, NODES);
    out->path = arena_text(&out->arena, of->path);
    out->format = of->format;
    if (!out->path)
        return STATUS_NOMEM;
    PASS(machine_add_part(out, MACHINE_SWITCH, MACHINE_NONE, MACHINE_NONE, "network", &hub));
    for (size_t i = 0; i < nodes; i++) {
        snprintf(name, sizeof name, "node%zu", i);
        PASS(machine_add_part(out, MACHINE_NODE, MACHINE_NONE, MACHINE_NONE, name, &part));
        PASS(machine_join(out,
                          &(struct machine_link){.net = true, .a = hub, .b = part, .count = 1}));
    }
    return machine_assume(
        out, "one switch that joins the ports of all nodes; override with --fabric FILE");
}

/* A node without ports cannot be one of several: each GPU gets one. */
static enum status give_ports(struct machine *node)
{
    size_t parts = node->parts;
    char name[32];
    uint32_t part;
    if (machine_count(node, MACHINE_NIC) > 0)
        return STATUS_OK;
    for (uint32_t i = 0, k = 0; i < parts; i++)
        if (node->part[i].kind == MACHINE_GPU) {
            snprintf(name, sizeof name, "NIC%u", k++);
            PASS(machine_add_part(node, MACHINE_NIC, 0, node->part[i].up, name, &part));
        }
    return machine_assume(node, "one network port for each GPU (the file lists no network ports)");
}

enum status machine_combine(struct machine *m, struct machine *node,
                            const struct machine_options *o)
{
    enum status st = STATUS_OK;
    struct machine vendor = {0}, hub = {0}, out = {0}, own = {0};
    struct combine c = {.o = o, .out = &out};
    bool fabric = machine_count(m, MACHINE_NODE) > 0;
    if (!fabric && node)
        FAIL(STATUS_INVALID, "%s: no nodes, expected a network such as Slurm's topology.conf",
             m->path);
    if (!fabric && (o->nodes <= 1 || m->nodes > 1)) {
        if (o->nodes > 0 && o->nodes != m->nodes)
            FAIL(STATUS_INVALID,
                 "%s: the file has %zu nodes and their network, so --nodes %zu has no effect; drop "
                 "it",
                 m->path, m->nodes, o->nodes);
        return STATUS_OK;
    }
    node = node ? node : m->inside;
    if (node && node->nodes != 1)
        FAIL(STATUS_INVALID, "%s: file has %zu nodes, expected one", node->path, node->nodes);
    if (!fabric) {
        MOVE(&own, *m);
        TRY(give_ports(&own));
        TRY(star(&own, o->nodes, &hub));
        MOVE(m, hub);
        node = &own;
    } else if (!node) {
        TRY(vendors_node(o, &vendor));
        node = &vendor;
    } else {
        TRY(give_ports(node));
    }
    TRY(machine_inside(node, o));
    c.fabric = m;
    c.node = node;
    TRY(combine_files(&c));
    machine_free(m);
    MOVE(m, out);
out:
    free(c.map);
    free(c.copied);
    free(c.nic);
    free(c.first);
    free(c.cable);
    machine_free(&vendor);
    machine_free(&hub);
    machine_free(&own);
    machine_free(&out);
    return st;
}
