/* First splits for local search: an order of the ops cut into consecutive parts by dynamic
 * programming, or a random split.
 *
 * The orders are that of the model, and depth-first and breadth-first ones from an op far from
 * the first: neighbours stand close to each other, so consecutive parts cut few edges. */
#include "papers/cpsc526/start.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"

/* xorshift64*: Vigna, ACM TOMS 42 (2016). */
static size_t random_below(struct cpsc526_search *s, size_t n)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return (size_t)((s->random * 0x2545f4914f6cdd1du) >> 33) % n;
}

/* ---- orders */

/* Append the component of `root` to order [n] from `begin` on, depth or breadth first; returns its
 * end. seen [n] is marked; stack [n + degrees] is scratch. */
static size_t cpsc526_start_walk(const struct cpsc526_problem *p, uint32_t root, bool depth_first,
                                 bool *seen, uint32_t *order, size_t begin, uint32_t *stack)
{
    size_t end = begin, head = 0, tail = 0;
    stack[tail++] = root;
    while (head < tail) {
        uint32_t v = depth_first ? stack[--tail] : stack[head++];
        if (seen[v])
            continue;
        seen[v] = true;
        order[end++] = v;
        for (size_t e = p->start[v]; e < p->start[v + 1]; e++)
            if (!seen[p->peer[e]])
                stack[tail++] = p->peer[e];
    }
    return end;
}

/* All components, each from an op far away from its first one (from a random one if so asked). */
static enum status order_ops(const struct cpsc526_problem *p, struct cpsc526_search *s,
                             size_t index, uint32_t *order)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    bool *seen, depth_first = index % 2 == 1;
    uint32_t *stack;
    size_t begin = 0;
    TRY(ARENA_NEW(&scratch, seen, p->n));
    TRY(ARENA_NEW(&scratch, stack, p->start[p->n] + p->n + 1));
    size_t first = index > 3 ? random_below(s, p->n) : 0;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t root = (uint32_t)((first + i) % p->n);
        if (seen[root])
            continue;
        if (index <= 8) { /* to the far end: breadth first, and forget that we were there */
            size_t end = cpsc526_start_walk(p, root, false, seen, order, begin, stack);
            root = order[end - 1];
            for (size_t k = begin; k < end; k++)
                seen[order[k]] = false;
        }
        begin = cpsc526_start_walk(p, root, depth_first, seen, order, begin, stack);
    }
out:
    arena_free(&scratch);
    return st;
}

/* ---- cutting an order */

struct cutter {
    const struct cpsc526_problem *p;
    double *sum;   /* [n + 1] weight of the first i ops of the order */
    double *cross; /* [n + 1] edges between the first i ops and the others */
    double *best;  /* [2][n + 1] parts so far end at i: previous part, this part */
    uint32_t *cut; /* [k][n + 1] where the part that ends at i begins */
    struct arena memory;
};

/* Prefix sums of the weights, and for every cut point the edges across it: +1 for an edge that
 * begins there, -1 for one that ends. */
static enum status cutter_begin(const struct cpsc526_problem *p, const uint32_t *order,
                                struct cutter *c)
{
    uint32_t *position;
    *c = (struct cutter){.p = p};
    PASS(ARENA_NEW(&c->memory, position, p->n));
    PASS(ARENA_NEW(&c->memory, c->sum, p->n + 1));
    PASS(ARENA_NEW(&c->memory, c->cross, p->n + 2));
    PASS(ARENA_NEW(&c->memory, c->best, 2 * (p->n + 1)));
    PASS(ARENA_NEW(&c->memory, c->cut, p->k * (p->n + 1)));
    for (size_t i = 0; i < p->n; i++)
        position[order[i]] = (uint32_t)i;
    for (size_t i = 0; i < p->n; i++) {
        c->sum[i + 1] = c->sum[i] + p->weight[order[i]];
        c->cross[i + 1] += c->cross[i];
        for (size_t e = p->start[order[i]]; e < p->start[order[i] + 1]; e++)
            c->cross[i + 1] += position[p->peer[e]] > i ? 1 : -1;
    }
    return STATUS_OK;
}

/* The part that ends at `end`: the best begin. Going backwards its weight only grows, so that one
 * which is too heavy by itself ends the search. */
static void cut_part(struct cutter *c, size_t part, size_t end)
{
    const struct cpsc526_problem *p = c->p;
    const double *before = c->best + (part + 1) % 2 * (p->n + 1);
    double *best = &c->best[part % 2 * (p->n + 1) + end];
    double boundary = part > 0 ? p->cost[(part - 1) * p->k + part] : 0;
    *best = INFINITY;
    for (size_t begin = end - p->minimum + 1; begin-- > part * p->minimum;) {
        double over = c->sum[end] - c->sum[begin] - p->mean;
        double value = before[begin] + over * over + boundary * c->cross[begin];
        if (value < *best) {
            *best = value;
            c->cut[part * (p->n + 1) + end] = (uint32_t)begin;
        }
        if (over > 0 && over * over >= *best)
            break;
    }
}

/* Consecutive parts with least variance plus cost of the edges over each cut, as if they all went
 * to the next part. */
static enum status cut_order(const struct cpsc526_problem *p, const uint32_t *order,
                             uint32_t *label)
{
    enum status st = STATUS_OK;
    struct cutter c = {0};
    TRY(cutter_begin(p, order, &c));
    for (size_t i = 0; i <= p->n; i++)
        c.best[(p->n + 1) + i] = i == 0 ? 0 : INFINITY; /* before part 0 */
    for (size_t part = 0; part < p->k; part++) {
        for (size_t end = 0; end < (part + 1) * p->minimum; end++)
            c.best[part % 2 * (p->n + 1) + end] = INFINITY;
        for (size_t end = (part + 1) * p->minimum; end <= p->n; end++)
            cut_part(&c, part, end);
    }
    for (size_t part = p->k, end = p->n; part-- > 0;) {
        size_t begin = c.cut[part * (p->n + 1) + end];
        for (size_t i = begin; i < end; i++)
            label[order[i]] = (uint32_t)part;
        end = begin;
    }
out:
    arena_free(&c.memory);
    return st;
}

/* Every part gets its minimum at random, the rest anywhere. */
static void cpsc526_start_scatter(const struct cpsc526_problem *p, struct cpsc526_search *s,
                                  uint32_t *order, uint32_t *label)
{
    for (size_t i = p->n; i > 1; i--) {
        size_t k = random_below(s, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < p->n; i++)
        label[order[i]] =
            (uint32_t)(i < p->k * p->minimum ? i / p->minimum : random_below(s, p->k));
}

enum status cpsc526_scatter(const struct cpsc526_problem *p, struct cpsc526_search *s,
                            uint32_t *label)
{
    uint32_t *order;
    PASS(ARRAY_NEW(order, p->n));
    for (size_t i = 0; i < p->n; i++)
        order[i] = (uint32_t)i;
    cpsc526_start_scatter(p, s, order, label);
    free(order);
    return STATUS_OK;
}

/* Start 0 takes the model's order, every fourth is random, the others walk the graph. */
enum status cpsc526_start(const struct cpsc526_problem *p, struct cpsc526_search *s, size_t index,
                          uint32_t *label)
{
    enum status st = STATUS_OK;
    uint32_t *order = NULL;
    if (index % 4 == 3)
        return cpsc526_scatter(p, s, label);
    TRY(ARRAY_NEW(order, p->n));
    for (size_t i = 0; i < p->n; i++)
        order[i] = (uint32_t)i;
    if (index > 0)
        TRY(order_ops(p, s, index, order));
    TRY(cut_order(p, order, label));
out:
    free(order);
    return st;
}
