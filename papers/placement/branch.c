/* Branch and bound over the devices of some units, the others staying (branch.h).
 *
 * A split in which units have no device yet has loads that only grow when they get one: latencies
 * of the units that have one, and of each net what is certain, its source's device paying when a
 * reader is elsewhere, every device that reads from elsewhere paying once. A net without a source's
 * device costs nothing yet. */
#include "papers/placement/branch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_EVERY = 1 << 18 };         /* steps between two looks at the clock */
static const double least_gain = 1e-10; /* relative; a split must be better by that much */
static const double rounding = 1e-12;
static const uint32_t nowhere = UINT32_MAX;

struct placement_branch {
    const struct placement_problem *p;
    const struct placement_graph *g;
    size_t devices;
    uint32_t *device;                    /* [units] or nowhere */
    uint32_t *readers;                   /* [nets * devices] on each device */
    uint32_t *assigned, *paying, *total; /* [nets] readers with a device, accelerators that have
                                            readers, all readers */
    uint32_t *units;                     /* [devices] units there */
    bool *is_free;                       /* [units] of free[] */
    double *load, *size;                 /* [devices] */
    /* the search under way */
    uint32_t *free; /* [n] those not yet placed first */
    size_t n;
    double target; /* loads must be below */
    uint32_t *best;
    bool found, stopped;
    uint64_t steps, most, look;
    struct placement_work *work;
};

enum status placement_branch_new(const struct placement_problem *p, struct placement_graph *g,
                                 struct placement_branch **out)
{
    struct placement_branch *b;
    size_t k = p->accelerators + p->cpus;
    PASS(ARENA_NEW(&g->memory, b, 1));
    *b = (struct placement_branch){.p = p, .g = g, .devices = k};
    PASS(ARENA_NEW(&g->memory, b->device, g->n));
    PASS(ARENA_NEW(&g->memory, b->readers, g->nets * k + 1));
    PASS(ARENA_NEW(&g->memory, b->assigned, g->nets + 1));
    PASS(ARENA_NEW(&g->memory, b->paying, g->nets + 1));
    PASS(ARENA_NEW(&g->memory, b->total, g->nets + 1));
    PASS(ARENA_NEW(&g->memory, b->units, k));
    PASS(ARENA_NEW(&g->memory, b->load, k));
    PASS(ARENA_NEW(&g->memory, b->size, k));
    PASS(ARENA_NEW(&g->memory, b->is_free, g->n));
    PASS(ARENA_NEW(&g->memory, b->free, g->n));
    PASS(ARENA_NEW(&g->memory, b->best, g->n));
    for (size_t t = 0; t < g->nets; t++)
        b->total[t] = (uint32_t)(g->net_start[t + 1] - g->net_start[t]);
    *out = b;
    return STATUS_OK;
}

static bool placement_branch_on_cpu(const struct placement_branch *b, size_t device)
{
    return device >= b->p->accelerators;
}

static void placement_branch_add_cost(struct placement_branch *b, size_t device, double cost)
{
    b->load[device] += placement_branch_on_cpu(b, device) ? 0 : cost;
}

/* Readers of net t with a device that is not d. */
static uint32_t elsewhere(const struct placement_branch *b, uint32_t t, uint32_t d)
{
    return b->assigned[t] - b->readers[(size_t)t * b->devices + d];
}

/* Add (sign 1) or take back (sign -1) what net t costs with its source on d. */
static void pay_net(struct placement_branch *b, uint32_t t, uint32_t d, double sign)
{
    const uint32_t *readers = b->readers + (size_t)t * b->devices;
    double cost = sign * b->g->net_cost[t];
    if (elsewhere(b, t, d) == 0)
        return;
    placement_branch_add_cost(b, d, cost);
    for (size_t e = 0; e < b->p->accelerators; e++)
        if (readers[e] > 0 && e != d)
            placement_branch_add_cost(b, e, cost);
}

/* Reader of net t on d: one more (sign 1) or one less. */
static void count_reader(struct placement_branch *b, uint32_t t, uint32_t d, int sign)
{
    uint32_t *readers = b->readers + (size_t)t * b->devices, s = b->device[b->g->net_source[t]];
    if (sign < 0) {
        readers[d]--;
        b->assigned[t]--;
    }
    bool first = readers[d] == 0;
    if (s != nowhere && s != d) {
        if (elsewhere(b, t, s) == 0)
            placement_branch_add_cost(b, s, sign * b->g->net_cost[t]);
        if (first)
            placement_branch_add_cost(b, d, sign * b->g->net_cost[t]);
    }
    if (first && !placement_branch_on_cpu(b, d))
        b->paying[t] += (uint32_t)sign;
    if (sign > 0) {
        readers[d]++;
        b->assigned[t]++;
    }
}

static void placement_branch_put(struct placement_branch *b, uint32_t v, uint32_t d, int sign)
{
    const struct placement_graph *g = b->g;
    for (size_t i = g->pin_start[v]; i < g->pin_start[v + 1]; i++)
        if (g->pin[i].is_source)
            pay_net(b, g->pin[i].net, d, sign);
        else
            count_reader(b, g->pin[i].net, d, sign);
    b->device[v] = sign > 0 ? d : nowhere;
    b->load[d] += sign * (placement_branch_on_cpu(b, d) ? g->cpu[v] : g->accelerator[v]);
    b->size[d] += sign * g->size[v];
    b->units[d] += (uint32_t)sign;
    b->steps += 2 + g->pin_start[v + 1] - g->pin_start[v];
}

/* What unit v would add to device d, and at least to all accelerators together if it went there.
 * A transfer that any of k free readers would cause counts 1 / k for each of them. */
static double own_load(const struct placement_branch *b, uint32_t v, uint32_t d, double *share)
{
    const struct placement_graph *g = b->g;
    double own = g->accelerator[v], least = g->accelerator[v];
    for (size_t i = g->pin_start[v]; i < g->pin_start[v + 1]; i++) {
        uint32_t t = g->pin[i].net, s = b->device[g->net_source[t]];
        double cost = g->net_cost[t];
        bool here = b->readers[(size_t)t * b->devices + d] > 0;
        if (g->pin[i].is_source && elsewhere(b, t, d) > 0) {
            own += cost;
            least += cost * (1 + b->paying[t] - (here ? 1 : 0));
        } else if (!g->pin[i].is_source && s != nowhere && s != d) {
            double part = cost / (b->total[t] - b->assigned[t]);
            own += here ? 0 : cost;
            least += here ? 0 : part;
            least += elsewhere(b, t, s) == 0 && !placement_branch_on_cpu(b, s) ? part : 0;
        }
    }
    *share = least;
    return own;
}

/* Where unit v may go: how many devices, and the least that it adds to accelerators there; INFINITY
 * when only CPUs are left. Of the accelerators that have no unit yet one will do. */
static size_t candidates(struct placement_branch *b, uint32_t v, uint32_t *list, double *key,
                         double *least)
{
    const struct placement_graph *g = b->g;
    size_t n = 0;
    bool was_empty = false;
    *least = INFINITY;
    for (uint32_t d = 0; d < b->devices; d++) {
        double share, own = g->cpu[v];
        if (!placement_branch_on_cpu(b, d)) {
            if ((b->units[d] == 0 && was_empty) || !g->supported[v] ||
                b->size[d] + g->size[v] > b->p->memory_bytes)
                continue;
            was_empty = was_empty || b->units[d] == 0;
            own = own_load(b, v, d, &share);
            b->steps += g->pin_start[v + 1] - g->pin_start[v];
            *least = b->load[d] + own < b->target ? fmin(*least, share) : *least;
        }
        b->steps++;
        if (b->load[d] + own >= b->target)
            continue;
        if (list) {
            /* Least communication first, then the least loaded. */
            key[n] =
                own - (placement_branch_on_cpu(b, d) ? 0 : g->accelerator[v]) + 1e-3 * b->load[d];
            list[n] = d;
        }
        n++;
    }
    return n;
}

/* What is left on devices, and what free units need of it at least. */
struct room {
    double accelerators, cpus; /* left */
    double need;               /* of accelerators, */
    double relief, best_ratio; /* of which CPUs could take so much, so much per CPU time at best */
};

/* The next unit to place, position in free[]; false: this branch holds nothing. */
static bool select_unit(struct placement_branch *b, size_t depth, size_t *next)
{
    const struct placement_graph *g = b->g;
    struct room r = {0};
    size_t fewest = SIZE_MAX;
    double longest = -1;
    for (size_t d = 0; d < b->devices; d++)
        *(placement_branch_on_cpu(b, d) ? &r.cpus : &r.accelerators) += b->target - b->load[d];
    for (size_t i = depth; i < b->n; i++) {
        uint32_t v = b->free[i];
        double least, length = g->accelerator[v];
        size_t n = candidates(b, v, NULL, NULL, &least);
        if (n == 0)
            return false;
        if (isinf(least)) {
            r.cpus -= g->cpu[v];
        } else {
            r.need += least;
            if (b->p->cpus > 0 && g->cpu[v] < b->target) {
                r.relief += least;
                r.best_ratio = fmax(r.best_ratio, g->cpu[v] > 0 ? least / g->cpu[v] : INFINITY);
            }
        }
        if (n < fewest || (n == fewest && length > longest)) {
            fewest = n;
            longest = length;
            *next = i;
        }
    }
    double relief = r.relief > 0 ? fmin(r.relief, fmax(r.cpus, 0) * r.best_ratio) : 0;
    return r.cpus >= -rounding * b->target &&
           r.need - relief <= r.accelerators + rounding * b->target * (double)b->devices;
}

static bool below_target(const struct placement_branch *b)
{
    for (size_t d = 0; d < b->devices; d++)
        if (b->load[d] >= b->target)
            return false;
    return true;
}

static void note_found(struct placement_branch *b)
{
    double value = 0;
    for (size_t d = 0; d < b->devices; d++)
        value = fmax(value, b->load[d]);
    memcpy(b->best, b->device, b->g->n * sizeof *b->best);
    b->found = true;
    b->target = value * (1 - least_gain);
}

static bool must_stop(struct placement_branch *b)
{
    if (b->steps >= b->look) {
        b->look = b->steps + CLOCK_EVERY;
        b->work->late = b->work->late ||
                        objective_must_stop(b->work->r, b->work->begin_s, b->work->default_limit_s);
    }
    return b->stopped = b->stopped || b->steps >= b->most || b->work->late;
}

/* Units free[depth ..] in all ways that may be better than what is known. */
static void placement_branch_descend(struct placement_branch *b, size_t depth)
{
    uint32_t list[PLACEMENT_BRANCH_DEVICES];
    double key[PLACEMENT_BRANCH_DEVICES], least;
    size_t next = depth, n;
    if (depth == b->n) {
        note_found(b);
        return;
    }
    if (must_stop(b) || !select_unit(b, depth, &next))
        return;
    uint32_t v = b->free[next];
    b->free[next] = b->free[depth];
    b->free[depth] = v;
    n = candidates(b, v, list, key, &least);
    for (size_t i = 0; i < n && !b->stopped; i++) {
        size_t first = i;
        for (size_t k = i + 1; k < n; k++)
            first = key[k] < key[first] ? k : first;
        uint32_t d = list[first];
        list[first] = list[i];
        key[first] = key[i];
        /* The target may have come down since the list was made. */
        placement_branch_put(b, v, d, 1);
        if (below_target(b))
            placement_branch_descend(b, depth + 1);
        placement_branch_put(b, v, d, -1);
    }
}

/* Place the units that stay, from nothing, so that rounding does not add up over searches. */
static void placement_branch_prepare(struct placement_branch *b, const uint32_t *unit, size_t n,
                                     const uint32_t *device)
{
    const struct placement_graph *g = b->g;
    memset(b->readers, 0, g->nets * b->devices * sizeof *b->readers);
    memset(b->assigned, 0, g->nets * sizeof *b->assigned);
    memset(b->paying, 0, g->nets * sizeof *b->paying);
    memset(b->units, 0, b->devices * sizeof *b->units);
    memset(b->load, 0, b->devices * sizeof *b->load);
    memset(b->size, 0, b->devices * sizeof *b->size);
    memset(b->is_free, 0, g->n * sizeof *b->is_free);
    for (size_t i = 0; i < n; i++)
        b->is_free[unit[i]] = true;
    for (size_t v = 0; v < g->n; v++)
        b->device[v] = nowhere;
    for (uint32_t v = 0; v < g->n; v++)
        if (!b->is_free[v])
            placement_branch_put(b, v, device[v], 1);
    memcpy(b->free, unit, n * sizeof *unit);
    b->n = n;
}

void placement_branch_solve(struct placement_branch *b, const uint32_t *unit, size_t n,
                            uint64_t most, struct placement_work *w, uint32_t *device,
                            double *value, bool *complete)
{
    b->steps = 0;
    b->look = CLOCK_EVERY;
    b->work = w;
    b->found = b->stopped = false;
    b->target = *value * (1 - least_gain);
    placement_branch_prepare(b, unit, n, device);
    /* A search is worth what its beginning has cost. */
    b->most = most > 2 * b->steps ? most : 2 * b->steps;
    if (below_target(b))
        placement_branch_descend(b, 0);
    w->spent += b->steps;
    *complete = !b->stopped;
    if (b->found) {
        memcpy(device, b->best, b->g->n * sizeof *device);
        *value = b->target / (1 - least_gain);
    }
}
