/* Places for checkpoints. */
#include "campaign/storage.h"

#include <math.h>

#include "core/base/keyed.h"

struct storage_kind {
    struct keyed_name named;
    bool copied;               /* a node keeps its part, its partner a copy */
    double rate_Bps, node_Bps; /* where nothing is said */
};

/* Shared: a parallel file system of 1 TB/s, and a storage network of 200 Gb/s a node. Disk: four
 * NVMe disks. Peer: memory. Host: what its links carry. */
static const struct storage_kind shared = {{"shared"}, false, 1e12, 25e9},
                                 disk = {{"disk"}, true, INFINITY, 12e9},
                                 peer = {{"peer"}, true, INFINITY, INFINITY},
                                 host = {{"host"}, false, INFINITY, INFINITY};
static const struct storage_kind *const kinds[] = {&shared, &disk, &peer, &host};
enum { KINDS = sizeof kinds / sizeof *kinds, SHARED = 1, HOST = 8, ALL = (1 << KINDS) - 1 };

#define MOST_RATE  1e18
#define MOST_SPACE 1e21
static const struct keyed_field fields[] = {
    KEYED_QUANTITY(UNIT_RATE, "rate", SHARED | HOST, struct storage, rate_Bps, 1, MOST_RATE),
    KEYED_QUANTITY(UNIT_RATE, "node", ALL, struct storage, node_Bps, 1, MOST_RATE),
    KEYED_QUANTITY(UNIT_BYTES, "space", ALL, struct storage, space, 0, MOST_SPACE),
};

enum status storage_read(const char *text, struct storage *out)
{
    const struct keyed_name *name[KINDS];
    struct storage s = {.rate_Bps = -1, .node_Bps = -1, .space = INFINITY};
    size_t which;
    for (size_t i = 0; i < KINDS; i++)
        name[i] = &kinds[i]->named;
    PASS(keyed_read("storage", text, name, KINDS, fields, sizeof fields / sizeof *fields, &which,
                    &s));
    s.kind = kinds[which];
    s.rate_Bps = s.rate_Bps < 0 ? s.kind->rate_Bps : s.rate_Bps;
    s.node_Bps = s.node_Bps < 0 ? s.kind->node_Bps : s.node_Bps;
    *out = s;
    return STATUS_OK;
}

enum status storage_check(const char *text)
{
    struct storage s;
    return storage_read(text, &s);
}

bool storage_on_links(const struct storage *s)
{
    return s->kind == &host;
}

const char *storage_name(const struct storage *s)
{
    return s->kind->named.name;
}

enum status storage_times(const struct storage *s, const struct storage_load *l, double *save_s,
                          double *load_s)
{
    double copies = s->kind->copied ? 2 : 1, held = 2 * copies * l->total; /* the last one, too */
    if (held > s->space)
        return error_set(STATUS_INVALID,
                         "storage %s: the last checkpoint and the one being written%s take %s, "
                         "more than its capacity of %s",
                         storage_name(s), copies > 1 ? ", with their copies," : "",
                         units_of(UNIT_BYTES, held).text, units_of(UNIT_BYTES, s->space).text);
    *save_s = fmax(copies * l->most_node / s->node_Bps, l->total / s->rate_Bps);
    *load_s = fmax(l->load_most_node / s->node_Bps, l->load_total / s->rate_Bps);
    if (s->kind->copied || s->kind == &host) {
        *save_s = fmax(*save_s, l->network_s);
        /* of copies, the part of a node that is new comes back */
        *load_s = fmax(*load_s, s->kind->copied ? l->network_s : l->network_load_s);
    }
    return STATUS_OK;
}
