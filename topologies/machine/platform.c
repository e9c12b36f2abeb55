/* A machine as a platform of SimGrid: one zone whose routing takes the fewest links, as generated
 * platforms have it.
 *
 *   NVLink     a link of the pair, or one to the router of the node's NVSwitches
 *   PCIe       GPUs that NVLink does not join: lanes up, the narrowest shared lanes above, what
 *              joins both, and down; with at least three links it never ties with two of NVLink,
 *              and with up to five it is shorter than out of the node and back in
 *   network    lanes of the GPU and of its port, then the port: three links and more
 *
 * Each GPU sends through the port that machine_choose_ports() gives it. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "core/data/topology.h"
#include "topologies/family.h"
#include "topologies/machine/complete.h"
#include "topologies/write.h"

/* PCIe's latency of one ring step of large messages is 5.7 us (NCCL's src/graph/tuning.cc). Between
 * CPUs: assumed, between NCCL's 10 GB/s of UPI and 22 of later ones. */
static const double pcie_latency_s = 5.7e-6, smp_Bps = 16e9;

struct writer {
    const struct machine *m;
    FILE *to;
    const char *lanes, *hub; /* names of what NVLink and NVSwitches are here */
    uint32_t *host;          /* [parts] of GPUs: which of its node */
    uint32_t *plane;         /* [parts] of GPUs: its NVSwitch's part; MACHINE_NONE: none */
    double *plane_Bps;       /* [parts] */
    size_t *users;           /* [parts] GPUs of a port or of a plane; cables of a switch */
    uint32_t *children;      /* [parts] what is right below a part */
    size_t *first;           /* [nodes + 1] GPUs and ports of a node in `member` */
    uint32_t *member;
    size_t *cable_first; /* [parts + 2] cables of a port in `cable` */
    uint32_t *cable;
    uint32_t *port; /* [parts] of GPUs: its port; MACHINE_NONE: none */
    bool *meshed;   /* [nodes] GPUs that NVLink does not join reach each other by PCIe */
};

static void free_writer(struct writer *w)
{
    free(w->host), free(w->plane), free(w->plane_Bps), free(w->users), free(w->children);
    free(w->first), free(w->member), free(w->cable_first), free(w->cable), free(w->port);
    free(w->meshed);
}

static bool machine_platform_is_kind(const struct writer *w, uint32_t part, enum machine_kind kind)
{
    return w->m->part[part].kind == kind;
}

/* ---- what is where */

static enum status make_lists(struct writer *w)
{
    const struct machine *m = w->m;
    PASS(ARRAY_NEW(w->host, m->parts));
    PASS(ARRAY_NEW(w->plane, m->parts));
    PASS(ARRAY_NEW(w->plane_Bps, m->parts));
    PASS(ARRAY_NEW(w->users, m->parts));
    PASS(ARRAY_NEW(w->children, m->parts));
    PASS(ARRAY_NEW(w->port, m->parts));
    PASS(ARRAY_NEW(w->member, m->parts));
    PASS(ARRAY_NEW(w->first, m->nodes + 2));
    PASS(ARRAY_NEW(w->cable_first, m->parts + 2));
    PASS(ARRAY_NEW(w->cable, m->links));
    PASS(ARRAY_NEW(w->meshed, m->nodes));
    for (size_t i = 0; i < m->parts; i++) {
        const struct machine_part *p = &m->part[i];
        w->plane[i] = MACHINE_NONE;
        if (p->up != MACHINE_NONE && p->kind != MACHINE_LEFT_OUT)
            w->children[p->up]++;
        if (p->kind == MACHINE_GPU || p->kind == MACHINE_NIC)
            w->first[p->node + 2]++;
    }
    for (size_t i = 2; i < m->nodes + 2; i++)
        w->first[i] += w->first[i - 1];
    for (uint32_t i = 0; i < m->parts; i++)
        if (machine_platform_is_kind(w, i, MACHINE_GPU) ||
            machine_platform_is_kind(w, i, MACHINE_NIC))
            w->member[w->first[m->part[i].node + 1]++] = i;
    for (size_t k = 0; k < m->links; k++)
        w->cable_first[m->link[k].b + 2] +=
            m->link[k].net && machine_platform_is_kind(w, m->link[k].b, MACHINE_NIC);
    for (size_t i = 2; i < m->parts + 2; i++)
        w->cable_first[i] += w->cable_first[i - 1];
    for (uint32_t k = 0; k < m->links; k++)
        if (m->link[k].net && machine_platform_is_kind(w, m->link[k].b, MACHINE_NIC))
            w->cable[w->cable_first[m->link[k].b + 1]++] = k;
    return STATUS_OK;
}

/* Numbers of GPUs in their nodes, and the NVSwitch plane that each is on: one of a node's switches
 * stands for them all. */
static enum status number_hosts(struct writer *w)
{
    const struct machine *m = w->m;
    enum status st;
    uint32_t *of = NULL;
    TRY(ARRAY_NEW(of, m->nodes));
    for (size_t n = 0; n < m->nodes; n++) {
        uint32_t gpu = 0;
        of[n] = MACHINE_NONE;
        for (size_t k = w->first[n]; k < w->first[n + 1]; k++)
            if (machine_platform_is_kind(w, w->member[k], MACHINE_GPU))
                w->host[w->member[k]] = gpu++;
    }
    for (size_t k = 0; k < m->links; k++) {
        const struct machine_link *l = &m->link[k];
        if (l->net)
            w->users[l->a]++, w->users[l->b] += machine_platform_is_kind(w, l->b, MACHINE_SWITCH);
        if (l->net || !machine_platform_is_kind(w, l->b, MACHINE_NVSWITCH))
            continue;
        uint32_t node = m->part[l->b].node, plane = l->b;
        if (node != MACHINE_NONE) {
            of[node] = of[node] == MACHINE_NONE ? l->b : of[node];
            plane = of[node];
        }
        w->plane[l->a] = plane;
        w->users[plane]++;
        w->plane_Bps[l->a] += l->Bps * l->count;
    }
out:
    free(of);
    return st;
}

/* ---- PCIe */

/* Below a part's meeting point: its lanes, the bridges that only it uses included, and the
 * narrowest bridge that it shares; MACHINE_NONE: none. */
static uint32_t shared_bridge(const struct writer *w, uint32_t part, size_t steps)
{
    const struct machine *m = w->m;
    uint32_t found = MACHINE_NONE, at = m->part[part].up;
    bool shared = false;
    for (size_t k = 1;
         k < steps && at != MACHINE_NONE && machine_platform_is_kind(w, at, MACHINE_BRIDGE); k++) {
        shared |= w->children[at] > 1;
        if (shared && (found == MACHINE_NONE || m->part[at].up_Bps < m->part[found].up_Bps))
            found = at;
        at = m->part[at].up;
    }
    return found;
}

static double machine_platform_lanes_Bps(const struct writer *w, uint32_t part)
{
    const struct machine *m = w->m;
    double Bps = m->part[part].up_Bps;
    uint32_t at = m->part[part].up;
    while (at != MACHINE_NONE && machine_platform_is_kind(w, at, MACHINE_BRIDGE) &&
           w->children[at] == 1) {
        Bps = m->part[at].up_Bps < Bps ? m->part[at].up_Bps : Bps;
        at = m->part[at].up;
    }
    return Bps;
}

static void machine_platform_put_step(const struct writer *w, const char *what, uint32_t part,
                                      bool up)
{
    fprintf(w->to, "<link_ctn id=\"%s%u\" direction=\"%s\"/>", what, part, up ? "UP" : "DOWN");
}

/* The links from x to y; `meet`: what joins them counts as a link too. */
static void put_pcie(const struct writer *w, uint32_t x, uint32_t y, bool meet)
{
    const struct machine *m = w->m;
    size_t a, b;
    bool far = machine_distance(m, x, y, &a, &b) >= 1000;
    uint32_t ux = shared_bridge(w, x, a), uy = shared_bridge(w, y, b);
    machine_platform_put_step(w, "pcie", x, true);
    if (ux != MACHINE_NONE)
        machine_platform_put_step(w, "bridge", ux, true);
    if (far || meet)
        machine_platform_put_step(w, far ? "smp" : "root", m->part[x].node, x < y);
    if (uy != MACHINE_NONE)
        machine_platform_put_step(w, "bridge", uy, false);
    machine_platform_put_step(w, "pcie", y, false);
}

static bool pairs_by_pcie(const struct writer *w, uint32_t x, uint32_t y)
{
    const struct machine *m = w->m;
    return (w->plane[x] == MACHINE_NONE || w->plane[x] != w->plane[y]) &&
           m->part[x].up != MACHINE_NONE && m->part[y].up != MACHINE_NONE;
}

/* ---- hosts, routers, links */

static void put_hosts(const struct writer *w)
{
    const struct machine *m = w->m;
    const struct gpu *all = NULL;
    bool same = true;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].gpu) {
            same &= !all || all == m->part[i].gpu;
            all = m->part[i].gpu;
        }
    if (same)
        put_gpu_properties(w->to, all);
    for (size_t i = 0; i < w->first[m->nodes]; i++) {
        uint32_t part = w->member[i];
        const struct gpu *gpu = m->part[part].gpu;
        const char *numa = m->part[part].numa;
        if (!machine_platform_is_kind(w, part, MACHINE_GPU))
            continue;
        fprintf(w->to, "    <host id=\"n%ug%u\" speed=\"%.12gf\"%s\n", m->part[part].node,
                w->host[part], gpu->flops, same && !numa ? "/>" : ">");
        if (!same)
            put_gpu_properties(w->to, gpu);
        if (numa)
            fprintf(w->to, "      <prop id=\"numa\" value=\"%s\"/>\n", numa);
        if (!same || numa)
            fputs("    </host>\n", w->to);
    }
    for (uint32_t i = 0; i < m->parts; i++)
        if ((machine_platform_is_kind(w, i, MACHINE_SWITCH) ||
             machine_platform_is_kind(w, i, MACHINE_NVSWITCH)) &&
            w->users[i] > 0)
            fprintf(w->to, "    <router id=\"%s%u\"/>\n",
                    machine_platform_is_kind(w, i, MACHINE_SWITCH) ? "switch" : w->hub, i);
}

static void put_tier(const struct writer *w, const char *tier, double Bps, double latency_s,
                     const char *id, uint32_t index)
{
    const struct cable c = {tier, Bps, latency_s};
    put_cable(w->to, &c, "%s%u", id, index);
}

static void put_links(const struct writer *w)
{
    const struct machine *m = w->m;
    for (uint32_t i = 0; i < m->parts; i++) {
        const struct machine_part *p = &m->part[i];
        bool lanes = p->up != MACHINE_NONE &&
                     (p->kind == MACHINE_GPU ? w->meshed[p->node] || w->port[i] != MACHINE_NONE
                                             : p->kind == MACHINE_NIC && w->users[i] > 0);
        if (lanes)
            put_tier(w, NULL, machine_platform_lanes_Bps(w, i), 0, "pcie", i);
        if (p->kind == MACHINE_BRIDGE && p->up_Bps > 0)
            put_tier(w, NULL, p->up_Bps, 0, "bridge", i);
        if (p->kind == MACHINE_GPU && w->plane[i] != MACHINE_NONE)
            put_tier(w, w->lanes, w->plane_Bps[i], nvlink_latency_s, w->lanes, i);
    }
    for (uint32_t n = 0; n < m->nodes; n++)
        for (size_t k = w->first[n]; k < w->first[n + 1]; k++)
            if (machine_platform_is_kind(
                    w, w->member[k],
                    MACHINE_GPU)) { /* what joins PCIe never limits it, but CPUs do */
                double lanes = m->part[w->member[k]].up_Bps;
                double all = lanes * (double)(w->first[n + 1] - w->first[n]);
                if (w->meshed[n])
                    put_tier(w, "pcie", all, pcie_latency_s, "root", n);
                if (lanes > 0)
                    put_tier(w, "pcie", smp_Bps, w->meshed[n] ? pcie_latency_s : 0, "smp", n);
                break;
            }
    for (uint32_t k = 0; k < m->links; k++) {
        const struct machine_link *l = &m->link[k];
        double s = l->latency_s;
        if (!l->net && machine_platform_is_kind(w, l->b, MACHINE_GPU))
            put_tier(w, "nvlink", l->Bps * l->count, s > 0 ? s : 2 * nvlink_latency_s, "pair", k);
        else if (l->net && machine_platform_is_kind(w, l->b, MACHINE_NIC) && w->users[l->b] > 0)
            put_tier(w, "nic", l->Bps * l->count, s > 0 ? s : nic_latency_s, "port", k);
        else if (l->net && machine_platform_is_kind(w, l->a, MACHINE_SWITCH) &&
                 machine_platform_is_kind(w, l->b, MACHINE_SWITCH))
            put_tier(w, "network", l->Bps * l->count, s > 0 ? s : switch_latency_s, "cable", k);
        else if (l->net && machine_platform_is_kind(w, l->b, MACHINE_GPU) &&
                 machine_platform_is_kind(w, l->a, MACHINE_GPU))
            put_tier(w, "network", l->Bps * l->count, s, "cable", k);
        else if (l->net &&
                 machine_platform_is_kind(
                     w, l->b, MACHINE_GPU)) { /* two halves: NVLink's two links are fewer */
            put_tier(w, "nic", l->Bps * l->count, s / 2, "cable", k);
            put_tier(w, NULL, l->Bps * l->count, s / 2, "wire", k);
        }
    }
}

/* ---- routes */

static void open_route(const struct writer *w, uint32_t from, const char *to, uint32_t index)
{
    fprintf(w->to, "    <route src=\"n%ug%u\" dst=\"", w->m->part[from].node, w->host[from]);
    if (to)
        fprintf(w->to, "%s%u\">", to, index);
    else
        fprintf(w->to, "n%ug%u\">", w->m->part[index].node, w->host[index]);
}

static void put_gpu_routes(const struct writer *w, uint32_t gpu)
{
    const struct machine *m = w->m;
    uint32_t port = w->port[gpu];
    if (w->plane[gpu] != MACHINE_NONE) {
        open_route(w, gpu, w->hub, w->plane[gpu]);
        machine_platform_put_step(w, w->lanes, gpu, true);
        fputs("</route>\n", w->to);
    }
    if (port == MACHINE_NONE)
        return;
    for (size_t k = w->cable_first[port]; k < w->cable_first[port + 1]; k++) {
        open_route(w, gpu, "switch", m->link[w->cable[k]].a);
        if (m->part[gpu].up != MACHINE_NONE && m->part[port].up != MACHINE_NONE)
            put_pcie(w, gpu, port, false);
        machine_platform_put_step(w, "port", w->cable[k], true);
        fputs("</route>\n", w->to);
    }
}

/* Direct NVLinks of a node's GPUs, [count]^2, are `joined`: PCIe is for the others. */
static void put_node_pairs(const struct writer *w, size_t n, size_t count,
                           const unsigned char *joined)
{
    for (size_t i = w->first[n]; i < w->first[n + 1]; i++)
        for (size_t j = i + 1; j < w->first[n + 1]; j++) {
            uint32_t x = w->member[i], y = w->member[j];
            if (!machine_platform_is_kind(w, x, MACHINE_GPU) ||
                !machine_platform_is_kind(w, y, MACHINE_GPU) || !pairs_by_pcie(w, x, y) ||
                joined[w->host[x] * count + w->host[y]])
                continue;
            open_route(w, x, NULL, y);
            put_pcie(w, x, y, true);
            fputs("</route>\n", w->to);
        }
}

static void put_link_route(const struct writer *w, uint32_t k)
{
    const struct machine_link *l = &w->m->link[k];
    bool gpus_only = machine_platform_is_kind(w, l->a, MACHINE_GPU) &&
                     machine_platform_is_kind(w, l->b, MACHINE_GPU);
    if (gpus_only) {
        open_route(w, l->a, NULL, l->b);
        machine_platform_put_step(w, l->net ? "cable" : "pair", k, true);
    } else if (l->net && machine_platform_is_kind(w, l->b, MACHINE_GPU)) {
        open_route(w, l->b, "switch", l->a);
        machine_platform_put_step(w, "cable", k, true);
        machine_platform_put_step(w, "wire", k, true);
    } else if (l->net && machine_platform_is_kind(w, l->b, MACHINE_SWITCH)) {
        fprintf(w->to, "    <route src=\"switch%u\" dst=\"switch%u\">", l->b, l->a);
        machine_platform_put_step(w, "cable", k, true);
    } else {
        return;
    }
    fputs("</route>\n", w->to);
}

/* Which GPUs of a node NVLink joins directly; [gpus of the node]^2, one node at a time. */
static enum status machine_platform_put_pairs(struct writer *w, bool only_mark)
{
    enum status st = STATUS_OK;
    const struct machine *m = w->m;
    unsigned char *joined = NULL;
    size_t *of = NULL; /* [nodes + 2] direct links by node */
    uint32_t *link = NULL;
    TRY(ARRAY_NEW(of, m->nodes + 2));
    TRY(ARRAY_NEW(link, m->links));
    TRY(ARRAY_NEW(joined, NODE_GPUS * NODE_GPUS));
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < m->links; k++) {
            const struct machine_link *l = &m->link[k];
            if (!machine_platform_is_kind(w, l->a, MACHINE_GPU) ||
                !machine_platform_is_kind(w, l->b, MACHINE_GPU) ||
                m->part[l->a].node != m->part[l->b].node)
                continue;
            if (pass == 0)
                of[m->part[l->a].node + 2]++;
            else
                link[of[m->part[l->a].node + 1]++] = k;
        }
        for (size_t i = 2; pass == 0 && i < m->nodes + 2; i++)
            of[i] += of[i - 1];
    }
    for (size_t n = 0; n < m->nodes; n++) {
        size_t count = 0;
        for (size_t i = w->first[n]; i < w->first[n + 1]; i++)
            count += machine_platform_is_kind(w, w->member[i], MACHINE_GPU);
        memset(joined, 0, count * count);
        for (size_t i = of[n]; i < of[n + 1]; i++) {
            const struct machine_link *l = &m->link[link[i]];
            uint32_t x = w->host[l->a], y = w->host[l->b];
            joined[x * count + y] = joined[y * count + x] = 1;
        }
        for (size_t i = w->first[n]; only_mark && i < w->first[n + 1] && !w->meshed[n]; i++)
            for (size_t j = i + 1; j < w->first[n + 1] && !w->meshed[n]; j++) {
                uint32_t x = w->member[i], y = w->member[j];
                w->meshed[n] = machine_platform_is_kind(w, x, MACHINE_GPU) &&
                               machine_platform_is_kind(w, y, MACHINE_GPU) &&
                               pairs_by_pcie(w, x, y) && !joined[w->host[x] * count + w->host[y]];
            }
        if (!only_mark && w->meshed[n])
            put_node_pairs(w, n, count, joined);
    }
out:
    free(joined);
    free(of);
    free(link);
    return st;
}

/* A small description can stand for very many hosts and routes. */
static enum status check_lines(const struct writer *w, size_t devices)
{
    char more[LIMIT_MORE];
    double lines = (double)devices * 2 + (double)w->m->links, most = limit_platform(MOST_LINES);
    for (size_t n = 0; n < w->m->nodes; n++) {
        double members = (double)(w->first[n + 1] - w->first[n]);
        lines += w->meshed[n] ? members * members / 2 : 0;
    }
    return lines <= most
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "%s: platform of %zu GPUs needs %.0f hosts and routes, expected up to "
                           "%.0f; take fewer nodes with --nodes%s",
                           w->m->path, devices, lines, most, limit_more(LIMIT_platform, more));
}

enum status machine_write(const struct machine *m, const struct provenance *by, const char *path)
{
    enum status st;
    struct file_out f = {0};
    struct writer w = {
        .m = m, .lanes = m->cores ? "memory" : "nvlink", .hub = m->cores ? "memory" : "nvswitch"};
    size_t n = machine_count(m, MACHINE_GPU);
    if (n > TOPOLOGY_MAX_DEVICES)
        return error_set(STATUS_INVALID,
                         "%s: got %zu GPUs, expected up to %d; take fewer nodes with --nodes",
                         m->path, n, TOPOLOGY_MAX_DEVICES);
    TRY(make_lists(&w));
    TRY(number_hosts(&w));
    TRY(machine_choose_ports(m, w.port));
    for (size_t i = 0; i < m->parts; i++)
        if (w.port[i] != MACHINE_NONE)
            w.users[w.port[i]]++;
    TRY(machine_platform_put_pairs(&w, true));
    TRY(check_lines(&w, n));
    TRY(file_create(path, &f));
    w.to = f.stream;
    machine_put_head(m, by, f.stream);
    put_hosts(&w);
    put_links(&w);
    for (uint32_t i = 0; i < m->parts; i++)
        if (machine_platform_is_kind(&w, i, MACHINE_GPU))
            put_gpu_routes(&w, i);
    TRY(machine_platform_put_pairs(&w, false));
    for (uint32_t k = 0; k < m->links; k++)
        put_link_route(&w, k);
    fputs("  </zone>\n</platform>\n", f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free_writer(&w);
    return st;
}
