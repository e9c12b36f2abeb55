/* Simulated annealing (Kirkpatrick, Gelatt & Vecchi, Science 220, 1983) of devices of units.
 *
 * A move changes the loads of few devices: readers[net][device] counts readers, so that a move
 * knows at once which devices begin or cease to pay for a net. The energy is the sum over
 * devices of load^16, on the scale of the value at the start: close to the largest load, but
 * with a slope everywhere. A move is made, the energy compared, and unmade if it is rejected. */
#include "papers/placement/anneal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

enum {
    CHECK_EVERY = 4096,
    QUENCH = 16 /* one part in so many more goes into the descent at the end */
};
static const double least_gain = 1e-12; /* relative; less is rounding */

struct annealing {
    const struct placement_problem *p;
    const struct placement_graph *g;
    size_t devices;
    uint32_t *device;             /* [units] */
    uint32_t *readers;            /* [nets * devices] on each device */
    uint32_t *reached;            /* [nets] devices other than the source's that read it */
    double *load, *size, *energy; /* [devices] */
    double scale;                 /* load that counts 1 */
    uint64_t steps;
    struct placement_work *work;
    /* what the move under way has changed */
    uint32_t *touched; /* [devices] */
    bool *is_touched;
    size_t touches;
    double *before; /* [devices] load */
    struct arena memory;
};

static double uniform(struct annealing *s)
{
    return placement_uniform(&s->work->random);
}

static size_t anneal_below(struct annealing *s, size_t n)
{
    return placement_below(&s->work->random, n);
}

static bool anneal_on_cpu(const struct annealing *s, size_t device)
{
    return device >= s->p->accelerators;
}

/* Loads change through here: the first change of a device by a move remembers what it was. */
static void charge(struct annealing *s, uint32_t device, double amount)
{
    if (!s->is_touched[device]) {
        s->is_touched[device] = true;
        s->before[device] = s->load[device];
        s->touched[s->touches++] = device;
    }
    s->load[device] += amount;
}

/* CPUs pay latencies only. */
static void anneal_add_cost(struct annealing *s, uint32_t device, double cost)
{
    if (!anneal_on_cpu(s, device))
        charge(s, device, cost);
}

/* Reader of net t goes from device a to b. */
static void move_reader(struct annealing *s, uint32_t t, uint32_t a, uint32_t b)
{
    uint32_t *readers = s->readers + (size_t)t * s->devices,
             source = s->device[s->g->net_source[t]];
    double cost = s->g->net_cost[t];
    uint32_t reached = s->reached[t];
    if (--readers[a] == 0 && a != source) {
        anneal_add_cost(s, a, -cost);
        s->reached[t]--;
    }
    if (readers[b]++ == 0 && b != source) {
        anneal_add_cost(s, b, cost);
        s->reached[t]++;
    }
    if ((reached > 0) != (s->reached[t] > 0))
        anneal_add_cost(s, source, reached > 0 ? -cost : cost);
}

/* The source of net t goes from a to b: a becomes a reading device if readers stay there, b
 * ceases to be one. */
static void move_source(struct annealing *s, uint32_t t, uint32_t a, uint32_t b)
{
    const uint32_t *readers = s->readers + (size_t)t * s->devices;
    double cost = s->g->net_cost[t];
    if (s->reached[t] > 0)
        anneal_add_cost(s, a, -cost);
    if (readers[a] > 0) {
        anneal_add_cost(s, a, cost);
        s->reached[t]++;
    }
    if (readers[b] > 0) {
        anneal_add_cost(s, b, -cost);
        s->reached[t]--;
    }
    if (s->reached[t] > 0)
        anneal_add_cost(s, b, cost);
}

static double latency(const struct annealing *s, uint32_t unit, uint32_t device)
{
    return anneal_on_cpu(s, device) ? s->g->cpu[unit] : s->g->accelerator[unit];
}

static void move_unit(struct annealing *s, uint32_t unit, uint32_t b)
{
    const struct placement_graph *g = s->g;
    uint32_t a = s->device[unit];
    for (size_t i = g->pin_start[unit]; i < g->pin_start[unit + 1]; i++)
        if (g->pin[i].is_source)
            move_source(s, g->pin[i].net, a, b);
        else
            move_reader(s, g->pin[i].net, a, b);
    s->device[unit] = b;
    charge(s, a, -latency(s, unit, a));
    charge(s, b, latency(s, unit, b));
    s->size[a] -= g->size[unit];
    s->size[b] += g->size[unit];
    s->steps += 4 + g->pin_start[unit + 1] - g->pin_start[unit];
}

static bool anneal_fits(const struct annealing *s, uint32_t unit, uint32_t device)
{
    return anneal_on_cpu(s, device) ||
           (s->g->supported[unit] && s->size[device] + s->g->size[unit] <= s->p->memory_bytes);
}

/* A steep power of the load: the sum over devices follows the largest, but still tells apart two
 * splits with the same largest load. */
static double energy_of(const struct annealing *s, double load)
{
    double x = load / s->scale;
    x *= x;
    x *= x;
    x *= x;
    return x * x;
}

/* Change of the total energy by the charges so far. */
static double energy_change(const struct annealing *s)
{
    double change = 0;
    for (size_t i = 0; i < s->touches; i++)
        change += energy_of(s, s->load[s->touched[i]]) - s->energy[s->touched[i]];
    return change;
}

/* End of a move: energies follow the loads, or the loads go back to what they were. */
static void anneal_settle(struct annealing *s, bool keep)
{
    for (size_t i = 0; i < s->touches; i++) {
        uint32_t d = s->touched[i];
        s->is_touched[d] = false;
        if (keep)
            s->energy[d] = energy_of(s, s->load[d]);
        else
            s->load[d] = s->before[d]; /* exactly: undoing adds would drift */
    }
    s->touches = 0;
}

static double anneal_largest(const struct annealing *s)
{
    double most = 0;
    for (size_t d = 0; d < s->devices; d++)
        most = s->load[d] > most ? s->load[d] : most;
    return most;
}

/* Compute everything that follows from device[]. */
static void rebuild(struct annealing *s)
{
    const struct placement_graph *g = s->g;
    memset(s->readers, 0, g->nets * s->devices * sizeof *s->readers);
    memset(s->load, 0, s->devices * sizeof *s->load);
    memset(s->size, 0, s->devices * sizeof *s->size);
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t d = s->device[v];
        s->load[d] += latency(s, v, d);
        s->size[d] += g->size[v];
    }
    for (uint32_t t = 0; t < g->nets; t++) {
        uint32_t source = s->device[g->net_source[t]];
        uint32_t *readers = s->readers + (size_t)t * s->devices;
        s->reached[t] = 0;
        for (size_t i = g->net_start[t]; i < g->net_start[t + 1]; i++) {
            uint32_t d = s->device[g->net_dest[i]];
            if (readers[d]++ > 0 || d == source)
                continue;
            s->load[d] += anneal_on_cpu(s, d) ? 0 : g->net_cost[t];
            s->reached[t]++;
        }
        s->load[source] += s->reached[t] > 0 && !anneal_on_cpu(s, source) ? g->net_cost[t] : 0;
    }
    for (size_t d = 0; d < s->devices; d++)
        s->energy[d] = energy_of(s, s->load[d]);
}

static enum status anneal_allocate(struct annealing *s)
{
    size_t k = s->devices, nets = s->g->nets;
    PASS(ARENA_NEW(&s->memory, s->device, s->g->n));
    PASS(ARENA_NEW(&s->memory, s->readers, nets * k + 1));
    PASS(ARENA_NEW(&s->memory, s->reached, nets + 1));
    PASS(ARENA_NEW(&s->memory, s->load, k));
    PASS(ARENA_NEW(&s->memory, s->size, k));
    PASS(ARENA_NEW(&s->memory, s->energy, k));
    PASS(ARENA_NEW(&s->memory, s->touched, k));
    PASS(ARENA_NEW(&s->memory, s->is_touched, k));
    PASS(ARENA_NEW(&s->memory, s->before, k));
    return STATUS_OK;
}

/* Random devices; a unit that does not fit there tries the next ones, and stays where it fell if
 * none of them has room. */
static void anneal_scatter(struct annealing *s)
{
    memset(s->size, 0, s->devices * sizeof *s->size);
    for (uint32_t v = 0; v < s->g->n; v++) {
        uint32_t d = (uint32_t)anneal_below(s, s->devices);
        for (size_t i = 0; i < s->devices && !anneal_fits(s, v, d); i++)
            d = (uint32_t)((d + 1) % s->devices);
        s->device[v] = d;
        s->size[d] += s->g->size[v];
    }
}

/* Does every accelerator have room and the units it supports? */
static bool feasible(const struct annealing *s)
{
    for (size_t d = 0; d < s->p->accelerators; d++)
        if (s->size[d] > s->p->memory_bytes)
            return false;
    for (size_t v = 0; v < s->g->n; v++)
        if (!s->g->supported[v] && !anneal_on_cpu(s, s->device[v]))
            return false;
    return true;
}

/* A unit that exchanges a tensor with v, or v. */
static uint32_t anneal_neighbour(struct annealing *s, uint32_t v)
{
    const struct placement_graph *g = s->g;
    size_t pins = g->pin_start[v + 1] - g->pin_start[v];
    if (pins == 0)
        return v;
    struct placement_pin pin = g->pin[g->pin_start[v] + anneal_below(s, pins)];
    if (!pin.is_source)
        return g->net_source[pin.net];
    size_t readers = g->net_start[pin.net + 1] - g->net_start[pin.net];
    return g->net_dest[g->net_start[pin.net] + anneal_below(s, readers)];
}

/* One or two units and where they go. */
struct anneal_move {
    size_t n;
    uint32_t unit[2], from[2], to[2];
};

/* Of the moves 60 % take one unit to a neighbour's device or a random one, 20 % swap two, 20 %
 * move two neighbours together. */
static struct anneal_move propose(struct annealing *s)
{
    uint32_t v = (uint32_t)anneal_below(s, s->g->n), near = anneal_neighbour(s, v),
             a = s->device[v];
    uint32_t b = s->device[near];
    struct anneal_move m = {.n = 1, .unit = {v}};
    double kind = uniform(s);
    if (b == a || kind < 0.3)
        b = (uint32_t)anneal_below(s, s->devices);
    m.to[0] = b;
    if (kind > 0.6 && kind <= 0.8) { /* v goes, and a unit from there comes here */
        uint32_t other = (uint32_t)anneal_below(s, s->g->n);
        m.to[0] = s->device[other];
        m = (struct anneal_move){2, {v, other}, {0}, {m.to[0], a}};
    } else if (kind > 0.8 && near != v && s->device[near] == a) {
        m = (struct anneal_move){2, {v, near}, {0}, {b, b}};
    }
    for (size_t i = 0; i < m.n; i++)
        m.from[i] = s->device[m.unit[i]];
    return m;
}

/* Make the move as far as memory allows; false, and nothing done, if it does not. */
static bool anneal_make_state(struct annealing *s, const struct anneal_move *m)
{
    if (m->from[0] == m->to[0] || (m->n == 2 && m->from[1] == m->to[1]))
        return false;
    if (m->n == 2 && m->from[1] == m->to[0]) { /* room for a swap is made by the swap */
        const struct placement_graph *g = s->g;
        double more = g->size[m->unit[0]] - g->size[m->unit[1]];
        for (int i = 0; i < 2; i++, more = -more)
            if (!anneal_on_cpu(s, m->to[i]) &&
                (!g->supported[m->unit[i]] || s->size[m->to[i]] + more > s->p->memory_bytes))
                return false;
    } else if (m->n == 2) {
        double both = s->g->size[m->unit[0]] + s->g->size[m->unit[1]];
        if (!anneal_fits(s, m->unit[0], m->to[0]) || !anneal_fits(s, m->unit[1], m->to[1]) ||
            (!anneal_on_cpu(s, m->to[0]) && s->size[m->to[0]] + both > s->p->memory_bytes))
            return false;
    } else if (!anneal_fits(s, m->unit[0], m->to[0])) {
        return false;
    }
    for (size_t i = 0; i < m->n; i++)
        move_unit(s, m->unit[i], m->to[i]);
    return true;
}

static void unmake(struct annealing *s, const struct anneal_move *m)
{
    for (size_t i = m->n; i-- > 0;)
        move_unit(s, m->unit[i], m->from[i]);
    anneal_settle(s, false);
}

/* One proposal; true if it was accepted and lowered the energy. */
static bool anneal_step(struct annealing *s, double temperature)
{
    struct anneal_move m = propose(s);
    s->steps++;
    if (!anneal_make_state(s, &m))
        return false;
    double change = energy_change(s);
    if (change > 0 && (temperature <= 0 || uniform(s) >= exp(-change / temperature))) {
        unmake(s, &m);
        return false;
    }
    anneal_settle(s, true);
    return change < 0;
}

/* Cool down from hot to cold until s->steps reaches `end`; hot 0: accept no loss at all. */
static void cool(struct annealing *s, const struct placement_anneal *o, double hot, uint64_t end,
                 uint32_t *device, double *value)
{
    uint64_t begin = s->steps;
    double temperature = hot, rate = hot > 0 ? log(o->cold / hot) / (double)(end - begin) : 0;
    for (uint64_t i = 0; s->steps < end; i++) {
        if (i % CHECK_EVERY == 0) {
            temperature = hot * exp(rate * (double)(s->steps - begin));
            if (placement_work_over(s->work))
                break;
        }
        if (!anneal_step(s, temperature))
            continue;
        double now = anneal_largest(s);
        if (now < *value * (1 - least_gain)) {
            *value = now;
            memcpy(device, s->device, s->g->n * sizeof *device);
        }
    }
}

/* Cool from hot to cold, then a descent without losses; the best split ever seen is the
 * answer, not the last. */
enum status placement_anneal(const struct placement_problem *p, const struct placement_graph *g,
                             const struct placement_anneal *o, struct placement_work *w,
                             uint32_t *device, double *value)
{
    enum status st;
    struct annealing s = {.p = p, .g = g, .devices = p->accelerators + p->cpus, .work = w};
    s.scale = o->scale > 0 ? o->scale : 1;
    TRY(anneal_allocate(&s));
    memcpy(s.device, device, g->n * sizeof *device);
    if (o->scatter)
        anneal_scatter(&s);
    rebuild(&s);
    if (!feasible(&s)) { /* merging has put too much together where it was */
        anneal_scatter(&s);
        rebuild(&s);
    }
    if (feasible(&s)) {
        if (anneal_largest(&s) < *value * (1 - least_gain)) {
            *value = anneal_largest(&s);
            memcpy(device, s.device, g->n * sizeof *device);
        }
        cool(&s, o, o->hot, o->steps, device, value);
        cool(&s, o, 0, o->steps + o->steps / QUENCH, device, value);
    }
    w->spent += s.steps;
out:
    arena_free(&s.memory);
    return st;
}
