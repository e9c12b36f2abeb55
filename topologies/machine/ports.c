/* Which port a GPU sends through. Each takes the nearest one, and ports as near are shared out
 * evenly. Ports that no GPU takes stand beside the port of the GPU that is nearest to them: what
 * they can carry is added to it. */
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/complete.h"

enum { STEP = 4096 }; /* a step of distance counts as more than any number of users */

/* GPUs and ports by node, and which ports have a cable. */
struct port_choice {
    const struct machine *m;
    size_t *first;    /* [nodes + 2] members of a node in `member` */
    uint32_t *member; /* [parts] */
    size_t *users;    /* [parts] GPUs of a port; ports of a GPU beside its first */
    bool *cabled;     /* [parts] */
};

static void free_ports(struct port_choice *p)
{
    free(p->first), free(p->member), free(p->users), free(p->cabled);
}

static enum status make_ports(const struct machine *m, struct port_choice *p)
{
    p->m = m;
    PASS(ARRAY_NEW(p->first, m->nodes + 2));
    PASS(ARRAY_NEW(p->member, m->parts));
    PASS(ARRAY_NEW(p->users, m->parts));
    PASS(ARRAY_NEW(p->cabled, m->parts));
    for (size_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU || m->part[i].kind == MACHINE_NIC)
            p->first[m->part[i].node + 2]++;
    for (size_t i = 2; i < m->nodes + 2; i++)
        p->first[i] += p->first[i - 1];
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU || m->part[i].kind == MACHINE_NIC)
            p->member[p->first[m->part[i].node + 1]++] = i;
    for (size_t k = 0; k < m->links; k++)
        p->cabled[m->link[k].b] |= m->link[k].net && m->part[m->link[k].b].kind == MACHINE_NIC;
    return STATUS_OK;
}

/* The nearest member of a node to `from` of those that may be: how far it is; SIZE_MAX: there is
 * none. */
static size_t nearest(const struct port_choice *p, uint32_t from, enum machine_kind kind,
                      uint32_t *out)
{
    const struct machine *m = p->m;
    size_t n = m->part[from].node, best = SIZE_MAX, a, b;
    for (size_t k = p->first[n]; k < p->first[n + 1]; k++) {
        uint32_t to = p->member[k];
        if (m->part[to].kind != kind || (kind == MACHINE_NIC && !p->cabled[to]))
            continue;
        size_t cost = machine_distance(m, from, to, &a, &b) * STEP + p->users[to];
        if (cost < best)
            best = cost, *out = to;
    }
    return best == SIZE_MAX ? best : best / STEP;
}

/* GPUs that are near to a port choose before those that are as far from several. */
static void machine_ports_choose(struct port_choice *p, size_t n, uint32_t *port)
{
    for (size_t far = 0, next; far < SIZE_MAX; far = next) {
        next = SIZE_MAX;
        for (size_t k = p->first[n]; k < p->first[n + 1]; k++) {
            uint32_t gpu = p->member[k], found = MACHINE_NONE;
            size_t at = p->m->part[gpu].kind == MACHINE_GPU ? nearest(p, gpu, MACHINE_NIC, &found)
                                                            : SIZE_MAX;
            next = at > far && at < next ? at : next;
            if (at == far)
                p->users[port[gpu] = found]++;
        }
    }
}

enum status machine_choose_ports(const struct machine *m, uint32_t *port)
{
    enum status st;
    struct port_choice p = {0};
    TRY(make_ports(m, &p));
    for (size_t i = 0; i < m->parts; i++)
        port[i] = MACHINE_NONE;
    for (size_t n = 0; n < m->nodes; n++)
        machine_ports_choose(&p, n, port);
out:
    free_ports(&p);
    return st;
}

enum status machine_bundle_ports(struct machine *m)
{
    enum status st;
    struct port_choice p = {0};
    uint32_t *port = NULL, *lead = NULL, gpu = 0;
    bool any = false;
    TRY(make_ports(m, &p));
    TRY(ARRAY_NEW(port, m->parts));
    TRY(ARRAY_NEW(lead, m->parts));
    TRY(machine_choose_ports(m, port));
    for (uint32_t i = 0; i < m->parts; i++) {
        lead[i] = i;
        if (port[i] != MACHINE_NONE)
            p.cabled[port[i]] = false; /* taken */
    }
    for (uint32_t i = 0; i < m->parts; i++) {
        if (!p.cabled[i] || nearest(&p, i, MACHINE_GPU, &gpu) == SIZE_MAX ||
            port[gpu] == MACHINE_NONE)
            continue;
        p.users[gpu]++;
        lead[i] = port[gpu];
        m->part[lead[i]].up_Bps += m->part[i].up_Bps;
        any = true;
    }
    for (size_t k = 0; k < m->links; k++) {
        struct machine_link *l = &m->link[k];
        if (l->net && m->part[l->b].kind == MACHINE_NIC && !(l->Bps > 0))
            l->Bps = m->part[l->b].Bps;
        l->b = lead[l->b];
    }
    if (any)
        TRY(machine_assume(m, "a GPU with several ports sends through all of them at once"));
out:
    free_ports(&p);
    free(port);
    free(lead);
    return st;
}
