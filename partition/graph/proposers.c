/* The proposers that need no library, and how keys become cuts. */
#include "partition/graph/proposers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/events.h"

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
                            uint32_t *order)
{
    enum status st;
    double *key = NULL;
    uint32_t *waits = NULL;
    struct events open = {0}; /* units that may come next, by key */
    TRY(ARRAY_NEW(key, u->n));
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
    free(key);
    return st;
}

/* ---- cuts */

struct order_tables {
    double *until_s; /* [types][n + 1] compute of the first units */
    double *live;    /* [n + 1] bytes that cross before a unit */
    double *best_s;  /* [stages][n + 1] the least slowest stage of the first units */
    uint32_t *start; /* [stages][n + 1] where the last of them begins */
};

static void fill_sums(const struct pipeline *x, const uint32_t *order, uint32_t *at,
                      struct order_tables *o)
{
    const struct units *u = x->u;
    for (size_t k = 0; k < u->n; k++) {
        at[order[k]] = (uint32_t)k;
        for (size_t type = 0; type < u->types; type++) {
            double *until = o->until_s + type * (u->n + 1);
            size_t i = type * u->n + order[k];
            until[k + 1] = until[k] + u->forward_s[i] + u->backward_s[i];
        }
    }
    for (size_t k = 0; k < u->tensors; k++) {
        uint32_t last = 0;
        for (size_t r = u->reader_start[k]; r < u->reader_start[k + 1]; r++)
            last = at[u->reader[r]] > last ? at[u->reader[r]] : last;
        o->live[at[u->tensor[k].from] + 1] += u->tensor[k].bytes;
        o->live[last + 1] -= u->tensor[k].bytes;
    }
    for (size_t k = 0; k < u->n; k++)
        o->live[k + 1] += o->live[k];
}

static uint32_t first_device(const struct pipeline *x, size_t stage)
{
    return x->device[x->cut.place[x->team_of[stage]] * x->width];
}

/* Stage s from every unit i to every j: what is before it has its best. */
static void fill_row(const struct pipeline *x, size_t s, struct order_tables *o)
{
    size_t n = x->u->n, width = n + 1;
    uint32_t device = first_device(x, s), before = s > 0 ? first_device(x, s - 1) : device;
    double byte_s =
        device == before ? 0 : 2 / topology_between(x->t, before, device)->bandwidth_Bps;
    const double *until = o->until_s + x->t->type_of[device] * width;
    for (size_t j = s + 1; j + (x->stages - 1 - s) <= n; j++) {
        double best_s = INFINITY;
        for (size_t i = s > 0 ? j - 1 : 0;; i--) {
            double own_s = until[j] - until[i] + byte_s * o->live[i];
            double value_s = s > 0 ? fmax(o->best_s[(s - 1) * width + i], own_s) : own_s;
            if (value_s < best_s) {
                best_s = value_s;
                o->start[s * width + j] = (uint32_t)i;
            }
            if (i <= s || until[j] - until[i] > best_s)
                break;
        }
        o->best_s[s * width + j] = best_s;
    }
}

enum status proposers_cut(const struct pipeline *x, const uint32_t *order, uint32_t *stage)
{
    enum status st;
    struct arena a = {0};
    size_t n = x->u->n, width = n + 1;
    struct order_tables o;
    uint32_t *at;
    TRY(ARENA_NEW(&a, at, n));
    TRY(ARENA_NEW(&a, o.until_s, x->u->types * width));
    TRY(ARENA_NEW(&a, o.live, width));
    TRY(ARENA_NEW(&a, o.best_s, x->stages * width));
    TRY(ARENA_NEW(&a, o.start, x->stages * width));
    fill_sums(x, order, at, &o);
    for (size_t s = 0; s < x->stages; s++)
        fill_row(x, s, &o);
    for (size_t s = x->stages, end = n; s-- > 0;) {
        size_t begin = s > 0 ? o.start[s * width + end] : 0;
        for (size_t k = begin; k < end; k++)
            stage[order[k]] = (uint32_t)s;
        end = begin;
    }
out:
    arena_free(&a);
    return st;
}
