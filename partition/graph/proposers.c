/* The proposers that need no library, and how keys become cuts. */
#include "partition/graph/proposers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/events.h"
#include "partition/graph/chain.h"

#define PROPOSER(name, word, summary) {word, summary, proposer_##name},
const struct graph_proposer graph_proposers[] = {
#include "partition/graph/proposers.def"
};
#undef PROPOSER
const size_t graph_proposers_n = sizeof graph_proposers / sizeof *graph_proposers;

/* ---- keys */

enum status proposer_file(const struct units *u, size_t parts, double *key)
{
    (void)parts;
    for (size_t k = 0; k < u->n; k++)
        key[k] = (double)k;
    return STATUS_OK;
}

enum status proposer_levels(const struct units *u, size_t parts, double *key)
{
    (void)parts;
    for (size_t k = 0; k < u->n; k++) {
        key[k] = 0;
        for (size_t i = u->read_start[k]; i < u->read_start[k + 1]; i++)
            key[k] = fmax(key[k], key[u->tensor[u->read[i]].from] + 1);
    }
    return STATUS_OK;
}

enum status proposer_late(const struct units *u, size_t parts, double *key)
{
    (void)parts;
    for (size_t k = u->n; k-- > 0;) {
        key[k] = 0;
        for (size_t r = u->reader_start[u->made_start[k]];
             r < u->reader_start[u->made_start[k + 1]]; r++)
            key[k] = fmin(key[k], key[u->reader[r]] - 1);
    }
    return STATUS_OK;
}

/* Bytes that are alive behind a unit, more than before it: what it makes, less what it is the last
 * to read. */
static double alive(const struct units *u, uint32_t unit, const uint32_t *unread)
{
    double bytes = 0;
    for (size_t k = u->made_start[unit]; k < u->made_start[unit + 1]; k++)
        bytes += u->tensor[k].bytes;
    for (size_t k = u->read_start[unit]; k < u->read_start[unit + 1]; k++)
        bytes -= unread[u->read[k]] == 1 ? u->tensor[u->read[k]].bytes : 0;
    return bytes;
}

/* Greedy; ties go to the model's order. O(units * width). */
enum status proposer_narrow(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct arena a = {0};
    uint32_t *unread, *open, *waits;
    size_t n = 0;
    (void)parts;
    TRY(ARENA_NEW(&a, unread, u->tensors));
    TRY(ARENA_NEW(&a, waits, u->n));
    TRY(ARENA_NEW(&a, open, u->n));
    for (uint32_t k = 0; k < u->tensors; k++)
        unread[k] = (uint32_t)(u->reader_start[k + 1] - u->reader_start[k]);
    for (uint32_t k = 0; k < u->n; k++) {
        waits[k] = (uint32_t)(u->read_start[k + 1] - u->read_start[k]);
        if (waits[k] == 0)
            open[n++] = k;
    }
    for (size_t done = 0; done < u->n; done++) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++) {
            double more = alive(u, open[i], unread) - alive(u, open[best], unread);
            if (more < 0 || (more == 0 && open[i] < open[best]))
                best = i;
        }
        uint32_t unit = open[best];
        open[best] = open[--n];
        key[unit] = (double)done;
        for (size_t k = u->read_start[unit]; k < u->read_start[unit + 1]; k++)
            unread[u->read[k]]--;
        for (size_t r = u->reader_start[u->made_start[unit]];
             r < u->reader_start[u->made_start[unit + 1]]; r++)
            if (--waits[u->reader[r]] == 0)
                open[n++] = u->reader[r];
    }
out:
    arena_free(&a);
    return st;
}

/* ---- orders */

enum status proposers_order(const struct graph_proposer *by, const struct units *u, size_t parts,
                            uint32_t *order, double *key)
{
    enum status st;
    double *own = NULL;
    uint32_t *waits = NULL;
    struct events open = {0}; /* units that may come next, by key */
    if (!key) {
        TRY(ARRAY_NEW(own, u->n));
        key = own;
    }
    TRY(by->keys(u, parts, key));
    TRY(ARRAY_NEW(waits, u->n));
    TRY(events_init(&open, u->n));
    for (uint32_t k = 0; k < u->n; k++) {
        waits[k] = (uint32_t)(u->read_start[k + 1] - u->read_start[k]);
        if (waits[k] == 0)
            events_put(&open, key[k], k);
    }
    for (size_t done = 0; open.n > 0; done++) {
        uint32_t unit = order[done] = events_take(&open);
        for (size_t r = u->reader_start[u->made_start[unit]];
             r < u->reader_start[u->made_start[unit + 1]]; r++)
            if (--waits[u->reader[r]] == 0)
                events_put(&open, key[u->reader[r]], u->reader[r]);
    }
out:
    events_free(&open);
    free(waits);
    free(own);
    return st;
}

bool proposers_stages(const struct units *u, size_t parts, const double *key, uint32_t *stage)
{
    size_t seen = 0;
    for (size_t k = 0; k < u->n; k++) {
        if (!(key[k] >= 0 && key[k] < (double)parts))
            return false;
        stage[k] = (uint32_t)key[k];
    }
    for (size_t t = 0; t < u->tensors; t++)
        for (size_t r = u->reader_start[t]; r < u->reader_start[t + 1]; r++)
            if (stage[u->tensor[t].from] > stage[u->reader[r]])
                return false;
    for (size_t s = 0, k = 0; s < parts; s++, seen += k < u->n)
        for (k = 0; k < u->n && stage[k] != s; k++)
            continue;
    return seen == parts;
}

/* ---- cuts */

static uint32_t first_device(const struct pipeline *x, size_t stage)
{
    return x->device[x->cut.place[x->team_of[stage]] * x->width];
}

/* Compute of the first units on a device of every type, and links between stages. */
static enum status find_seconds(const struct pipeline *x, const uint32_t *order, struct arena *a,
                                struct chain *c)
{
    const struct units *u = x->u;
    double **until_s, *byte_s, *latency_s;
    PASS(ARENA_NEW(a, until_s, u->types));
    PASS(ARENA_NEW(a, c->until_s, x->stages));
    PASS(ARENA_NEW(a, byte_s, x->stages));
    PASS(ARENA_NEW(a, latency_s, x->stages));
    for (size_t type = 0; type < u->types; type++) {
        PASS(ARENA_NEW(a, until_s[type], u->n + 1));
        for (size_t k = 0; k < u->n; k++) {
            size_t i = type * u->n + order[k];
            until_s[type][k + 1] = until_s[type][k] + u->forward_s[i] + u->backward_s[i];
        }
    }
    for (size_t s = 0; s < x->stages; s++) {
        uint32_t device = first_device(x, s), before = s > 0 ? first_device(x, s - 1) : device;
        c->until_s[s] = until_s[x->t->type_of[device]];
        if (device == before)
            continue;
        const struct topology_tier *tier = topology_between(x->t, before, device);
        byte_s[s] = 2 / tier->bandwidth_Bps;
        latency_s[s] = 2 * tier->latency_s;
    }
    c->byte_s = byte_s;
    c->latency_s = latency_s;
    return STATUS_OK;
}

/* Who reads what, by place in the order. */
static enum status find_reads(const struct units *u, const uint32_t *order, struct arena *a,
                              struct chain *c)
{
    uint32_t *behind; /* [tensors] its producer and those who read it so far */
    size_t reads = 0;
    PASS(ARENA_NEW(a, behind, u->tensors));
    PASS(ARENA_NEW(a, c->read_start, u->n + 1));
    PASS(ARENA_NEW(a, c->read, u->reader_start[u->tensors]));
    for (uint32_t k = 0; k < u->n; k++) {
        uint32_t unit = order[k];
        for (size_t i = u->read_start[unit]; i < u->read_start[unit + 1]; i++) {
            uint32_t tensor = u->read[i];
            c->read[reads++] = (struct chain_read){behind[tensor], u->tensor[tensor].bytes};
            behind[tensor] = k + 1;
        }
        for (size_t i = u->made_start[unit]; i < u->made_start[unit + 1]; i++)
            behind[i] = k + 1;
        c->read_start[k + 1] = reads;
    }
    return STATUS_OK;
}

enum status proposers_cut(const struct pipeline *x, const uint32_t *order, uint32_t *stage)
{
    enum status st;
    struct arena a = {0};
    struct chain c = {.n = x->u->n, .stages = x->stages};
    uint32_t *begin;
    double slowest_s;
    TRY(find_seconds(x, order, &a, &c));
    TRY(find_reads(x->u, order, &a, &c));
    TRY(ARENA_NEW(&a, begin, x->stages));
    TRY(chain_cut(&c, begin, &slowest_s));
    for (size_t s = 0; s < x->stages; s++)
        for (size_t k = begin[s], end = s + 1 < x->stages ? begin[s + 1] : c.n; k < end; k++)
            stage[order[k]] = (uint32_t)s;
out:
    arena_free(&a);
    return st;
}
