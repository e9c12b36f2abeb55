/* Chooses one option for every item so that the sizes fit and the costs are least.
 *
 * Steps: the cheapest options, if they fit, are the answer. Else minimise cost + price x size
 * for the price at which the bound on the cost is highest (find_price), fill up what is left
 * of the capacity (refill), and only if bound and solution still differ, enumerate partial
 * solutions, without those that another one dominates or that the bound rules out (enumerate). */
#include "papers/piper/knapsack.h"

#include <math.h>
#include <stdlib.h>

enum { SECANTS = 64 };

void knapsack_free(struct knapsack *k)
{
    free(k->state);
    arena_free(&k->memory);
    *k = (struct knapsack){0};
}

enum status knapsack_reserve(struct knapsack *k, size_t items, size_t options)
{
    struct arena *a = &k->memory;
    if (k->item_room >= items && k->option_room >= options && k->start)
        return STATUS_OK;
    arena_free(a);
    k->start = NULL;
    k->item_room = items;
    k->option_room = options;
    PASS(ARENA_NEW(a, k->cost, options));
    PASS(ARENA_NEW(a, k->size, options));
    PASS(ARENA_NEW(a, k->option, items));
    PASS(ARENA_NEW(a, k->trial, items));
    PASS(ARENA_NEW(a, k->rest_reduced, items + 1));
    PASS(ARENA_NEW(a, k->rest_cost, items + 1));
    PASS(ARENA_NEW(a, k->rest_size, items + 1));
    PASS(ARENA_NEW(a, k->level, items + 2));
    return ARENA_NEW(a, k->start, items + 1);
}

/* ---- the relaxation: minimise cost + price * size, without the capacity */

struct knapsack_point {
    double cost, size;
};

/* The choice that minimises weight * cost + price * size; ties by the other of the two. */
static struct knapsack_point knapsack_relax(const struct knapsack *k, double weight, double price,
                                            uint32_t *option)
{
    struct knapsack_point sum = {0, 0};
    for (size_t i = 0; i < k->items; i++) {
        size_t best = k->start[i];
        double least = weight * k->cost[best] + price * k->size[best];
        for (size_t o = best + 1; o < k->start[i + 1]; o++) {
            double x = weight * k->cost[o] + price * k->size[o];
            bool smaller = price > 0 ? k->cost[o] < k->cost[best] : k->size[o] < k->size[best];
            if (x < least || (x == least && smaller)) {
                least = x;
                best = o;
            }
        }
        option[i] = (uint32_t)best;
        sum.cost += k->cost[best];
        sum.size += k->size[best];
    }
    return sum;
}

/* Spend what is left of the capacity on dearer but cheaper-to-run options, item by item. */
static struct knapsack_point refill(const struct knapsack *k, double capacity,
                                    struct knapsack_point at, uint32_t *option)
{
    for (size_t i = 0; i < k->items; i++) {
        size_t now = option[i], best = now;
        for (size_t o = k->start[i]; o < k->start[i + 1]; o++)
            if (k->cost[o] < k->cost[best] && at.size - k->size[now] + k->size[o] <= capacity)
                best = o;
        at.size += k->size[best] - k->size[now];
        at.cost += k->cost[best] - k->cost[now];
        option[i] = (uint32_t)best;
    }
    return at;
}

/* The price at which the relaxation is tightest, between a choice that is too large and one that
 * fits: each step takes the price at which the two cost the same. k->option fits throughout. */
static double find_price(struct knapsack *k, double capacity, struct knapsack_point large,
                         struct knapsack_point *fits, double *bound)
{
    double price = 0;
    for (int i = 0; i < SECANTS; i++) {
        price = (fits->cost - large.cost) / (large.size - fits->size);
        struct knapsack_point p = knapsack_relax(k, 1, price, k->trial);
        double least = p.cost + price * p.size, known = fits->cost + price * fits->size;
        *bound = fmax(*bound, least - price * capacity);
        if (least >= known - 1e-13 * fabs(known) || price <= 0)
            break;
        if (p.size <= capacity) {
            *fits = p;
            for (size_t o = 0; o < k->items; o++)
                k->option[o] = k->trial[o];
        } else {
            large = p;
        }
    }
    return price;
}

/* ---- the list of partial solutions */

/* What the items from i on cost and need at least: reduced costs at the price, and costs and
 * sizes each for itself. */
static void sum_rest(struct knapsack *k, double price)
{
    k->rest_reduced[k->items] = k->rest_cost[k->items] = k->rest_size[k->items] = 0;
    for (size_t i = k->items; i-- > 0;) {
        double reduced = INFINITY, cost = INFINITY, size = INFINITY;
        for (size_t o = k->start[i]; o < k->start[i + 1]; o++) {
            reduced = fmin(reduced, k->cost[o] + price * k->size[o]);
            cost = fmin(cost, k->cost[o]);
            size = fmin(size, k->size[o]);
        }
        k->rest_reduced[i] = k->rest_reduced[i + 1] + reduced;
        k->rest_cost[i] = k->rest_cost[i + 1] + cost;
        k->rest_size[i] = k->rest_size[i + 1] + size;
    }
}

/* By size, then by cost: going up, a state that does not cost less than the last one kept is
 * dominated. */
static int compare_states(const void *a, const void *b)
{
    const struct knapsack_state *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

static enum status knapsack_push(struct knapsack *k, struct knapsack_state s)
{
    if (k->states == k->state_room) { /* lists shrink: ARRAY_ROOM() would not know the capacity */
        PASS(array_grow(k->state, k->state_room, sizeof *k->state, (void *)&k->state));
        k->state_room = k->state_room ? 2 * k->state_room : 1;
    }
    k->state[k->states++] = s;
    return STATUS_OK;
}

/* Extend every partial solution by item i; keep what is neither dominated nor hopeless: too large,
 * or dearer than `limit` even with the relaxation's cheapest rest. */
static enum status knapsack_extend(struct knapsack *k, size_t i, double capacity, double price,
                                   double limit)
{
    size_t first = k->level[i], end = k->level[i + 1];
    for (size_t s = first; s < end; s++)
        for (size_t o = k->start[i]; o < k->start[i + 1]; o++) {
            struct knapsack_state x = {k->state[s].cost + k->cost[o], k->state[s].size + k->size[o],
                                       (uint32_t)s, (uint32_t)o};
            double least = x.cost + price * (x.size - capacity) + k->rest_reduced[i + 1];
            least = fmax(least, x.cost + k->rest_cost[i + 1]);
            if (x.size + k->rest_size[i + 1] <= capacity && least <= limit)
                PASS(knapsack_push(k, x));
        }
    qsort(k->state + end, k->states - end, sizeof *k->state, compare_states);
    size_t kept = end;
    for (size_t s = end; s < k->states; s++)
        if (kept == end || k->state[s].cost < k->state[kept - 1].cost)
            k->state[kept++] = k->state[s];
    k->states = kept;
    k->level[i + 2] = kept;
    return STATUS_OK;
}

/* The cheapest solution not dearer than `limit` into k->option; *found false if there is none,
 * *whole false if the list grew too long to say. */
static enum status enumerate(struct knapsack *k, double capacity, double price, double limit,
                             bool *found, bool *whole, double *value)
{
    *found = *whole = true;
    sum_rest(k, price);
    k->states = 0;
    k->level[0] = 0;
    PASS(knapsack_push(k, (struct knapsack_state){0, 0, 0, 0}));
    k->level[1] = 1;
    for (size_t i = 0; i < k->items; i++) {
        PASS(knapsack_extend(k, i, capacity, price, limit));
        if (k->level[i + 2] - k->level[i + 1] > k->state_limit)
            *whole = *found = false;
        if (!*whole)
            return STATUS_OK;
    }
    *found = k->level[k->items + 1] > k->level[k->items];
    if (*found) { /* the largest of the last list is the cheapest */
        size_t s = k->states - 1;
        *value = k->state[s].cost;
        for (size_t i = k->items; i-- > 0; s = k->state[s].parent)
            k->option[i] = k->state[s].option;
    }
    return STATUS_OK;
}

/* Rounding of the bound may not refute a limit that is met exactly, hence the slack. */
enum status knapsack_solve(struct knapsack *k, double capacity, double limit, bool cheapest,
                           enum knapsack_verdict *verdict, double *value)
{
    struct knapsack_point large = knapsack_relax(k, 1, 0, k->option);
    double bound = large.cost, slack = 1e-12 * fabs(limit);
    *value = large.cost;
    *verdict = large.cost <= limit ? KNAPSACK_FITS : KNAPSACK_TOO_DEAR;
    if (large.size <= capacity || *verdict == KNAPSACK_TOO_DEAR)
        return STATUS_OK;
    struct knapsack_point fits = knapsack_relax(k, 0, 1, k->option);
    if (fits.size > capacity) {
        *verdict = KNAPSACK_TOO_LARGE;
        return STATUS_OK;
    }
    double price = find_price(k, capacity, large, &fits, &bound);
    fits = refill(k, capacity, fits, k->option);
    *value = bound;
    *verdict = KNAPSACK_TOO_DEAR;
    if (bound > limit + (limit < INFINITY ? slack : 0))
        return STATUS_OK;
    if (fits.cost <= limit && !cheapest) {
        *value = fits.cost;
        *verdict = KNAPSACK_FITS;
        return STATUS_OK;
    }
    bool found, whole;
    for (size_t i = 0; i < k->items; i++)
        k->trial[i] = k->option[i];
    double best = fits.cost;
    PASS(enumerate(k, capacity, price, fmin(limit, fits.cost), &found, &whole, &best));
    if (!found && fits.cost <= limit) { /* rounding, or the list too long: what fits stays */
        for (size_t i = 0; i < k->items; i++)
            k->option[i] = k->trial[i];
        best = fits.cost;
        found = true;
    }
    *verdict = found ? KNAPSACK_FITS : whole ? KNAPSACK_TOO_DEAR : KNAPSACK_UNDECIDED;
    *value = found ? best : whole ? fmax(bound, nextafter(limit, INFINITY)) : bound;
    return STATUS_OK;
}
