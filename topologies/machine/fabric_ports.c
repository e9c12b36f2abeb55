/* Which ports of a node are of its fabric. Files list all: of management, of storage, too. By
 * --nic, else by a rule that looks at each node alone and leaves out, as long as others stay:
 *
 *   slow   less than an eighth of the fastest port's rate; where a file has no rate, of its PCIe
 *          lanes'
 *   far    no PCIe switch in common with any GPU, where each GPU has one with another port: servers
 *          put the fabric's ports beside the GPUs, storage's below a CPU
 *   plain  no RDMA device, where other ports have one (files that tell them apart) */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/complete.h"

enum { LISTED = 200, PATTERNS = 1024, HOPS = 64 };

static double fabric_ports_rate_of(const struct machine_part *p)
{
    return p->Bps > 0 ? p->Bps : p->up_Bps;
}

/* Which GPUs and ports of a node, `member`, [n], are below a switch that one of the other kind is
 * below, too; `above` is [parts], zeros for the node's. True: every GPU is. */
static bool find_near(const struct machine *m, const uint32_t *member, size_t n,
                      unsigned char *above, bool *near)
{
    enum { GPU_BELOW = 1, PORT_BELOW = 2 };
    size_t far = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            const struct machine_part *p = &m->part[member[i]];
            bool gpu = p->kind == MACHINE_GPU;
            uint32_t at = p->up;
            if (!gpu && p->kind != MACHINE_NIC)
                continue;
            for (int k = 0; k < HOPS && at != MACHINE_NONE && m->part[at].kind == MACHINE_BRIDGE;
                 k++, at = m->part[at].up) {
                above[at] |= gpu ? GPU_BELOW : PORT_BELOW;
                near[i] |= pass == 1 && above[at] & (gpu ? PORT_BELOW : GPU_BELOW);
            }
            far += pass == 1 && gpu && !near[i];
        }
    return far == 0;
}

/* Out with these ports of a node, unless none stays; one warning names them. */
static enum status fabric_ports_leave_out(struct machine *m, const uint32_t *member, size_t n,
                                          const bool *out, const char *why)
{
    char names[LISTED] = "";
    size_t ports = 0, left = 0, length = 0, line = 0, listed = 0;
    for (size_t i = 0; i < n; i++) {
        ports += m->part[member[i]].kind == MACHINE_NIC;
        left += out[i];
    }
    if (left == 0 || left == ports)
        return STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        struct machine_part *p = &m->part[member[i]];
        if (!out[i])
            continue;
        p->kind = MACHINE_LEFT_OUT;
        line = line > 0 ? line : p->line;
        if (strlen(p->name) + length + 3 < sizeof names) {
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length > 0 ? ", " : "", p->name);
            listed++;
        }
    }
    char at[MACHINE_AT];
    return machine_warn(m, "%s: ignored %zu of %zu ports, %s: %s%s; keep them with --nic all",
                        machine_at(m, line, at), left, ports, why, names,
                        listed < left ? ", ..." : "");
}

static enum status apply_rule(struct machine *m, const uint32_t *member, size_t n,
                              unsigned char *above, bool *out)
{
    double fastest = 0;
    size_t rdma = 0;
    for (size_t i = 0; i < n; i++) {
        const struct machine_part *p = &m->part[member[i]];
        bool port = p->kind == MACHINE_NIC;
        fastest = port && fabric_ports_rate_of(p) > fastest ? fabric_ports_rate_of(p) : fastest;
        rdma += port && p->rdma == MACHINE_RDMA;
    }
    for (size_t i = 0; i < n; i++) {
        const struct machine_part *p = &m->part[member[i]];
        out[i] = p->kind == MACHINE_NIC && fabric_ports_rate_of(p) > 0 &&
                 fabric_ports_rate_of(p) < fastest / 8;
    }
    PASS(fabric_ports_leave_out(m, member, n, out,
                                "slower than an eighth of the fastest (management)"));
    for (size_t i = 0; i < n; i++) {
        const struct machine_part *p = &m->part[member[i]];
        out[i] = p->kind == MACHINE_NIC && p->rdma == MACHINE_PLAIN && rdma > 0;
    }
    PASS(fabric_ports_leave_out(m, member, n, out, "no RDMA device, while others have one"));
    memset(out, 0, n * sizeof *out);
    bool all = find_near(m, member, n, above, out);
    for (size_t i = 0; i < n; i++)
        out[i] = all && m->part[member[i]].kind == MACHINE_NIC && !out[i];
    return fabric_ports_leave_out(
        m, member, n, out,
        "no PCIe switch in common with a GPU, and each GPU has one with another port "
        "(storage, management)");
}

/* Is a name one of a list such as "mlx5_[0-3],ib0"? Marks which of its patterns were of use. */
static bool fabric_ports_is_listed(const char *name, const char *list, bool *used)
{
    char pattern[64];
    bool found = false;
    for (size_t k = 0; *list && *list != '@' && k < PATTERNS; k++) {
        size_t n = strcspn(list, ",@");
        snprintf(pattern, sizeof pattern, "%.*s", (int)(n < 63 ? n : 63), list);
        if (fnmatch(pattern, name, 0) == 0)
            used[k] = found = true;
        list += n + (list[n] == ',');
    }
    return found;
}

/* No port has the name: those that there are. */
static enum status refuse_name(const struct machine *m, const char *name, size_t n)
{
    char names[LISTED] = "";
    size_t length = 0;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_NIC && strlen(m->part[i].name) + length + 3 < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length > 0 ? ", " : "", m->part[i].name);
    return error_set(
        STATUS_INVALID,
        "%s: --nic: unknown port '%.*s', expected a rate, 'all', or names of ports; known: %s",
        m->path, (int)(n < 60 ? n : 60), name, length > 0 ? names : "none");
}

static enum status apply_list(struct machine *m, const char *list)
{
    bool used[PATTERNS] = {false};
    size_t k = 0;
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_NIC)
            fabric_ports_is_listed(m->part[i].name, list, used);
    for (const char *at = list; *at && *at != '@'; k++) {
        size_t n = strcspn(at, ",@");
        if (k >= PATTERNS || !used[k])
            return refuse_name(m, at, n);
        at += n + (at[n] == ',');
    }
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_NIC && !fabric_ports_is_listed(m->part[i].name, list, used))
            m->part[i].kind = MACHINE_LEFT_OUT;
    return STATUS_OK;
}

/* All that follows compares GPUs with ports of their node. */
static enum status fabric_ports_check_size(const struct machine *m, const uint32_t *member,
                                           size_t n)
{
    size_t devices = 0, ports = 0;
    for (size_t i = 0; i < n; i++) {
        devices += m->part[member[i]].kind == MACHINE_GPU;
        ports += m->part[member[i]].kind == MACHINE_NIC;
    }
    if (devices <= NODE_GPUS && ports <= NODE_GPUS)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "%s: node has %zu GPUs and %zu ports, expected up to %d of each", m->path,
                     devices, ports, NODE_GPUS);
}

enum status machine_fabric_ports(struct machine *m, const struct machine_options *o)
{
    enum status st;
    size_t *first = NULL;
    uint32_t *member = NULL;
    bool *out = NULL;
    unsigned char *above = NULL;
    TRY(ARRAY_NEW(first, m->nodes + 2));
    TRY(ARRAY_NEW(member, m->parts));
    TRY(ARRAY_NEW(out, m->parts));
    TRY(ARRAY_NEW(above, m->parts));
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].node != MACHINE_NONE)
            first[m->part[i].node + 2]++;
    for (size_t i = 2; i < m->nodes + 2; i++)
        first[i] += first[i - 1];
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].node != MACHINE_NONE)
            member[first[m->part[i].node + 1]++] = i;
    for (size_t n = 0; n < m->nodes; n++) {
        TRY(fabric_ports_check_size(m, member + first[n], first[n + 1] - first[n]));
        if (!o->nics)
            TRY(apply_rule(m, member + first[n], first[n + 1] - first[n], above, out));
    }
    if (o->nics && (strncmp(o->nics, "all", 3) != 0 || (o->nics[3] && o->nics[3] != '@')))
        TRY(apply_list(m, o->nics));
out:
    free(above);
    free(first);
    free(member);
    free(out);
    return st;
}
