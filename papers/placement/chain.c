/* The dynamic program of Tarnawski et al. (NeurIPS 2020, section 5) over chains of ideals.
 *
 * best[I][k][l] is the least largest load with which k accelerators and l CPUs can take the
 * ideal I:
 *
 *     best[I][k][l] = min over I' below I of
 *                     min( max(best[I'][k - 1][l], accelerator load of I - I'),
 *                          max(best[I'][k][l - 1], CPU load of I - I') )
 *
 * For each I a depth-first walk visits every I' once, the part I - I' growing by the unit that
 * each arc adds and shrinking on the way back, so that its load changes by that unit's nets
 * alone. Latency, size and unsupported units only grow along the walk: a part that no device
 * can take ends it (`hopeless`). Ideals that no chain within the limit can pass are left out
 * (`on_the_way`). */
#include "papers/placement/chain.h"

#include <assert.h>
#include <math.h>

enum {
    CHECK_EVERY = 64,    /* ideals between two looks at the clock */
    VISIT = 4,           /* steps of a visit to an ideal */
    MAX_STATES = 1 << 25 /* 256 MiB */
};
static const double slack = 1e-9; /* relative: sums in another order may differ by so much */

/* What one device would get: the units of an ideal without those of a smaller one. */
struct part {
    double cpu, accelerator, communication, size;
    uint32_t unsupported; /* units that accelerators do not run */
};

struct chain_search {
    const struct placement_graph *g;
    const struct placement_family *f;
    size_t accelerators, cpus; /* no more than there are units */
    double limit, memory_bytes;
    size_t width; /* states per ideal: (cpus + 1) x (accelerators + 1) */
    uint64_t steps;
    double *best; /* [ideals * width] smallest largest load with so many CPUs, accelerators */
    struct part part;
    uint32_t *inside; /* [nets] readers in the part */
    bool *member;     /* [units] in the part */
    uint32_t *stamp;  /* [ideals] */
    uint32_t stamps;
    struct frame {
        size_t arc;
        uint32_t ideal, unit;
        struct part before;
    } * frame; /* [units + 1] */
    struct arena memory;
};

/* What the part pays for a net: once if it crosses the border of the part, whichever side its
 * source is on. */
static double paid(const struct chain_search *s, uint32_t net, bool source_inside)
{
    const struct placement_graph *g = s->g;
    uint32_t readers = (uint32_t)(g->net_start[net + 1] - g->net_start[net]);
    bool crosses = source_inside ? s->inside[net] < readers : s->inside[net] > 0;
    return crosses ? g->net_cost[net] : 0;
}

/* A part grows by unit v: communication changes with the nets of v alone. */
static void add_unit(struct chain_search *s, uint32_t v)
{
    const struct placement_graph *g = s->g;
    struct part *part = &s->part;
    for (size_t i = g->pin_start[v]; i < g->pin_start[v + 1]; i++) {
        uint32_t net = g->pin[i].net;
        if (g->pin[i].is_source) {
            part->communication += paid(s, net, true) - paid(s, net, false);
        } else {
            bool source = s->member[g->net_source[net]];
            double before = paid(s, net, source);
            s->inside[net]++;
            part->communication += paid(s, net, source) - before;
        }
    }
    s->member[v] = true;
    part->cpu += g->cpu[v];
    part->accelerator += g->accelerator[v];
    part->size += g->size[v];
    part->unsupported += !g->supported[v];
}

/* Sums go back to the very numbers of before, not by subtraction: the trace relies on the same
 * sums. */
static void remove_unit(struct chain_search *s, uint32_t v, const struct part *before)
{
    for (size_t i = s->g->pin_start[v]; i < s->g->pin_start[v + 1]; i++)
        if (!s->g->pin[i].is_source)
            s->inside[s->g->pin[i].net]--;
    s->member[v] = false;
    s->part = *before;
}

/* INFINITY where no accelerator may take the part. */
static double accelerator_load(const struct chain_search *s)
{
    if (s->accelerators == 0 || s->part.unsupported > 0 || s->part.size > s->memory_bytes)
        return INFINITY;
    return s->part.accelerator + s->part.communication;
}

static double placement_chain_cpu_load(const struct chain_search *s)
{
    return s->cpus > 0 ? s->part.cpu : INFINITY;
}

/* Latencies, sizes and unsupported units only grow with the part. */
static bool placement_chain_hopeless(const struct chain_search *s)
{
    bool accelerator = s->accelerators == 0 || s->part.unsupported > 0 ||
                       s->part.size > s->memory_bytes || s->part.accelerator > s->limit;
    return accelerator && (s->cpus == 0 || s->part.cpu > s->limit);
}

/* Row of an ideal: CPUs x accelerators, accelerators fastest. */
static double *states(const struct chain_search *s, size_t ideal)
{
    return s->best + ideal * s->width;
}

/* The states of `upper` when the current part follows `lower`. */
static void placement_chain_relax(const struct chain_search *s, uint32_t upper, uint32_t lower)
{
    double on_accelerator = accelerator_load(s), on_cpu = placement_chain_cpu_load(s);
    const double *from = states(s, lower);
    double *to = states(s, upper);
    size_t row = s->accelerators + 1;
    if (from[s->width - 1] > s->limit) /* not reached: more devices are never worse */
        return;
    if (on_accelerator <= s->limit)
        for (size_t c = 0; c <= s->cpus; c++)
            for (size_t k = c * row + 1; k < (c + 1) * row; k++) {
                double load = from[k - 1] > on_accelerator ? from[k - 1] : on_accelerator;
                to[k] = load < to[k] ? load : to[k];
            }
    if (on_cpu <= s->limit)
        for (size_t k = row; k < s->width; k++) {
            double load = from[k - row] > on_cpu ? from[k - row] : on_cpu;
            to[k] = load < to[k] ? load : to[k];
        }
}

/* Is `lower` what comes before `upper` in the best chain, reached with the devices of `state`?
 * The very sums of placement_chain_relax() are formed again, so that equality of doubles is meant.
 * *cpu: the part between is on a CPU. */
static bool explains(const struct chain_search *s, uint32_t upper, uint32_t lower, size_t state,
                     bool *cpu)
{
    size_t row = s->accelerators + 1;
    double value = states(s, upper)[state];
    const double *from = states(s, lower);
    if (state % row > 0 && fmax(from[state - 1], accelerator_load(s)) <= value) {
        *cpu = false;
        return true;
    }
    *cpu = true;
    return state >= row && fmax(from[state - row], placement_chain_cpu_load(s)) <= value;
}

struct visit {
    uint32_t *device; /* [units] NULL: relax; else find what explains `state` and fill it in */
    size_t state;
    uint32_t next_accelerator, next_cpu; /* devices to give to the part that is found */
    uint32_t found;                      /* the ideal below it */
    bool cpu;                            /* it goes to a CPU */
};

static void placement_chain_assign(const struct chain_search *s, struct visit *visit,
                                   uint32_t lower)
{
    visit->found = lower;
    for (size_t v = 0; v < s->g->n; v++)
        if (s->member[v])
            visit->device[v] = visit->cpu ? visit->next_cpu : visit->next_accelerator;
}

/* Visit every smaller ideal once, the part growing and shrinking along a depth-first walk. */
static bool walk_down(struct chain_search *s, uint32_t upper, struct visit *visit)
{
    const struct placement_family *f = s->f;
    size_t depth = 0;
    bool found = false;
    uint32_t stamp = ++s->stamps;
    s->frame[0] = (struct frame){.arc = f->down_start[upper], .ideal = upper};
    for (;;) {
        struct frame *top = &s->frame[depth];
        if (found || top->arc == f->down_start[top->ideal + 1]) {
            if (depth == 0)
                return found;
            remove_unit(s, top->unit, &top->before);
            depth--;
            continue;
        }
        size_t arc = top->arc++;
        uint32_t lower = f->down[arc];
        if (s->stamp[lower] == stamp)
            continue;
        s->stamp[lower] = stamp;
        s->steps += VISIT;
        struct frame *next = &s->frame[++depth];
        *next = (struct frame){f->down_start[lower], lower, f->without[arc], s->part};
        add_unit(s, next->unit);
        if (placement_chain_hopeless(s)) {
            next->arc = f->down_start[lower + 1];
        } else if (!visit->device) {
            placement_chain_relax(s, upper, lower);
        } else if (explains(s, upper, lower, visit->state, &visit->cpu)) {
            placement_chain_assign(s, visit, lower);
            found = true;
        }
    }
}

/* No more devices than units and than the table has room for; true if the latter leaves some out.
 */
static bool choose_devices(struct chain_search *s, const struct placement_problem *p)
{
    size_t n = s->g->n, room = MAX_STATES / s->f->n;
    s->accelerators = p->accelerators < n ? p->accelerators : n;
    s->cpus = p->cpus < n ? p->cpus : n;
    if ((s->accelerators + 1) * (s->cpus + 1) <= room)
        return false;
    s->cpus = s->cpus > 1 ? 1 : s->cpus;
    room = room / (s->cpus + 1);
    s->accelerators = s->accelerators + 1 > room ? room - 1 : s->accelerators;
    return true;
}

/* Nothing is on no device: the empty ideal costs 0 with any number of devices. */
static enum status placement_chain_prepare(struct chain_search *s)
{
    const struct placement_graph *g = s->g;
    s->width = (s->cpus + 1) * (s->accelerators + 1);
    PASS(ARENA_NEW(&s->memory, s->best, s->f->n * s->width));
    PASS(ARENA_NEW(&s->memory, s->inside, g->nets));
    PASS(ARENA_NEW(&s->memory, s->member, g->n));
    PASS(ARENA_NEW(&s->memory, s->stamp, s->f->n));
    PASS(ARENA_NEW(&s->memory, s->frame, g->n + 2));
    for (size_t k = 0; k < s->f->n * s->width; k++)
        s->best[k] = k < s->width ? 0 : INFINITY;
    return STATUS_OK;
}

/* One device more is never worse: it may stay empty. */
static void placement_chain_spread(const struct chain_search *s, uint32_t ideal)
{
    double *best = states(s, ideal);
    size_t row = s->accelerators + 1;
    for (size_t k = 0; k < s->width; k++) {
        if (k % row > 0)
            best[k] = fmin(best[k], best[k - 1]);
        if (k >= row)
            best[k] = fmin(best[k], best[k - row]);
    }
}

/* Walk back from everything to nothing: device of every unit, and the order of the devices. */
static void placement_chain_trace(struct chain_search *s, const struct placement_problem *p,
                                  struct placement_chain *out)
{
    size_t row = s->accelerators + 1, state = s->width - 1, used = 0;
    uint32_t at = (uint32_t)(s->f->n - 1);
    struct visit visit = {
        .device = out->device, .next_accelerator = 0, .next_cpu = (uint32_t)p->accelerators};
    while (at > 0) {
        const double *best = states(s, at);
        visit.state = state;
        if (state % row > 0 && best[state - 1] <= best[state]) {
            state--;
        } else if (state >= row && best[state - row] <= best[state]) {
            state -= row;
        } else {
            bool found = walk_down(s, at, &visit);
            assert(found); /* placement_chain_relax() has seen the same sums, in the same order */
            (void)found;
            state -= visit.cpu ? row : 1;
            out->order[used++] = visit.cpu ? visit.next_cpu++ : visit.next_accelerator++;
            at = visit.found;
        }
    }
    for (size_t i = 0; i < used / 2; i++) {
        uint32_t last = out->order[used - 1 - i];
        out->order[used - 1 - i] = out->order[i];
        out->order[i] = last;
    }
    while (visit.next_accelerator < p->accelerators)
        out->order[used++] = visit.next_accelerator++;
    while (visit.next_cpu < p->accelerators + p->cpus)
        out->order[used++] = visit.next_cpu++;
}

/* Latency on accelerators that one second of a CPU can save at most. */
static double cpu_ratio(const struct chain_search *s)
{
    double ratio = 0;
    for (size_t v = 0; v < s->g->n; v++)
        if (s->g->accelerator[v] > 0)
            ratio = fmax(ratio, s->g->accelerator[v] / s->g->cpu[v]);
    return ratio;
}

/* Can an ideal of so much latency lie on a chain within the limit? Some number of devices has to
 * suffice for what it holds, and the others for the rest. */
static bool on_the_way(const struct chain_search *s, double inside, double total, double ratio)
{
    double most = s->limit * (1 + slack);
    if (!isfinite(most) || !isfinite(ratio))
        return true;
    for (size_t c = 0; c <= s->cpus; c++) {
        double first = ceil(fmax(0, inside / most - ratio * (double)c) - slack);
        double left = (double)s->accelerators - first + ratio * (double)(s->cpus - c);
        if (first <= (double)s->accelerators && total - inside <= left * most * (1 + slack))
            return true;
    }
    return false;
}

/* Ideals in ascending order, so that all below are final; false when the work is spent. */
static bool placement_chain_fill(struct chain_search *s, const double *inside,
                                 struct placement_work *w)
{
    double ratio = cpu_ratio(s);
    for (uint32_t i = 1; i < s->f->n; i++) {
        struct visit visit = {.device = NULL};
        w->spent += s->steps;
        s->steps = 0;
        if (w->spent >= w->most || (i % CHECK_EVERY == 0 && placement_work_over(w)))
            return false;
        if (!on_the_way(s, inside[i], inside[s->f->n - 1], ratio))
            continue;
        walk_down(s, i, &visit);
        placement_chain_spread(s, i);
    }
    return true;
}

/* `inside` follows from any ideal one unit below. */
enum status placement_chain_solve(const struct placement_problem *p,
                                  const struct placement_graph *g, const struct placement_family *f,
                                  double limit, struct placement_work *w, struct placement_chain *c)
{
    enum status st;
    struct chain_search s = {.g = g, .f = f, .limit = limit * (1 + slack)};
    s.memory_bytes = p->memory_bytes;
    *c = (struct placement_chain){.value = INFINITY, .reduced = choose_devices(&s, p)};
    double *inside; /* [ideals] accelerator latency of what it holds */
    TRY(ARENA_NEW(&s.memory, inside, f->n));
    TRY(ARENA_NEW(&c->memory, c->device, g->n));
    TRY(ARENA_NEW(&c->memory, c->order, p->accelerators + p->cpus));
    TRY(placement_chain_prepare(&s));
    for (size_t i = 1; i < f->n; i++)
        inside[i] =
            inside[f->down[f->down_start[i]]] + g->accelerator[f->without[f->down_start[i]]];
    c->interrupted = !placement_chain_fill(&s, inside, w);
    double value = states(&s, f->n - 1)[s.width - 1];
    if (!c->interrupted && isfinite(value)) {
        c->value = value;
        placement_chain_trace(&s, p, c);
    }
out:
    arena_free(&s.memory);
    return st;
}

void placement_chain_free(struct placement_chain *c)
{
    arena_free(&c->memory);
    *c = (struct placement_chain){0};
}
