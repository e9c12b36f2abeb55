/* Builds the problem of the course project from a model and a machine: weights, undirected
 * edges, a cost for every pair of labels, and a lower bound of the metric.
 *
 * The bound has two terms, since the metric is a sum of two. Balance: part weights are
 * multiples of the weights' common divisor g, so they cannot be more equal than floor and
 * ceiling of the mean in units of g; and the heaviest op is somewhere. Cut: a connected graph
 * that touches c groups of a level needs c - 1 edges between them, at the least cost of
 * leaving a group. */
#include "papers/cpsc526/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "papers/cpsc526/speeds.h"
#include "partition/tiers.h"

/* ---- graph */

static enum status cpsc526_problem_allocate(size_t n, size_t k, size_t edges,
                                            struct cpsc526_problem *p)
{
    *p = (struct cpsc526_problem){.n = n, .k = k, .minimum = 1};
    PASS(ARENA_NEW(&p->memory, p->weight, n + 1));
    PASS(ARENA_NEW(&p->memory, p->start, n + 2));
    PASS(ARENA_NEW(&p->memory, p->peer, 2 * edges + 1));
    PASS(ARENA_NEW(&p->memory, p->cost, k * k));
    return STATUS_OK;
}

/* Weights are parameters, not bytes. An edge is listed at both of its ends. */
static void cpsc526_problem_read_graph(const struct model *m, struct cpsc526_problem *p)
{
    size_t edges = 0;
    double sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        p->weight[i] = (double)m->op[i].parameter_bytes / (double)m->element_bytes;
        sum += p->weight[i];
        p->start[i] = edges;
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            p->peer[edges++] = m->in[k];
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            p->peer[edges++] = m->out[k];
    }
    p->start[m->n] = edges;
    p->mean = sum / (double)p->k;
}

/* ---- bounds */

/* Connected components of the undirected graph. */
static enum status count_components(struct cpsc526_problem *p, size_t *components)
{
    bool *seen;
    uint32_t *stack;
    *components = 0;
    PASS(ARENA_NEW(&p->memory, seen, p->n));
    PASS(ARENA_NEW(&p->memory, stack, p->n));
    for (size_t i = 0; i < p->n; i++) {
        size_t depth = 0;
        if (seen[i])
            continue;
        seen[i] = true;
        stack[depth++] = (uint32_t)i;
        ++*components;
        while (depth > 0) {
            uint32_t v = stack[--depth];
            for (size_t e = p->start[v]; e < p->start[v + 1]; e++)
                if (!seen[p->peer[e]]) {
                    seen[p->peer[e]] = true;
                    stack[depth++] = p->peer[e];
                }
        }
    }
    return STATUS_OK;
}

/* Largest g that divides all weights; 0 when there is none (not whole, or too large). */
static double common_divisor(const struct cpsc526_problem *p)
{
    double g = 0;
    for (size_t i = 0; i < p->n; i++) {
        double a = p->weight[i];
        if (a != floor(a) || a > 9e15)
            return 0;
        while (a > 0) {
            double rest = fmod(g, a);
            g = a;
            a = rest;
        }
    }
    return g;
}

/* Weights that are multiples of g make sums that are: the most equal ones are floor and ceiling of
 * the mean in units of g. And the part of the heaviest op is at least as heavy as that. */
static double variance_bound(const struct cpsc526_problem *p)
{
    double bound = 0, heaviest = 0, k = (double)p->k, g = common_divisor(p);
    if (g > 0) {
        double units = p->mean * k / g, low = floor(units / k), more = units - low * k;
        bound = g * g * (more * pow(low + 1 - units / k, 2) + (k - more) * pow(units / k - low, 2));
    }
    for (size_t i = 0; i < p->n; i++)
        heaviest = fmax(heaviest, p->weight[i]);
    if (heaviest > p->mean && p->k > 1)
        bound = fmax(bound, pow(heaviest - p->mean, 2) * k / (k - 1));
    return bound;
}

/* Every class of a level has an op, and a graph of C components that touches all classes has at
 * least classes - C edges between different ones. */
static double level_bound(size_t classes, double step, size_t components)
{
    return classes > components ? step * (double)(classes - components) : 0;
}

/* Sum of both terms, and the argument in words for the note. */
static void finish_bound(struct cpsc526_problem *p, size_t components)
{
    double variance = variance_bound(p);
    p->bound = variance + p->cut_bound;
    snprintf(p->argument, sizeof p->argument,
             "lower bound: weights balanced in multiples of %g (%.10g) + every group of every "
             "level connected, in %zu component%s (%.10g)",
             common_divisor(p), variance, components, components == 1 ? "" : "s", p->cut_bound);
}

/* ---- levels */

/* Labels of different classes pay `step` for this level; the cut bound counts the classes. */
static void add_level(struct cpsc526_problem *p, const uint32_t *class_of, double step,
                      size_t components)
{
    size_t classes = 0;
    for (size_t i = 0; i < p->k; i++) {
        bool first = true;
        for (size_t j = 0; j < p->k; j++) {
            p->cost[i * p->k + j] += class_of[i] != class_of[j] ? step : 0;
            first = first && (j >= i || class_of[j] != class_of[i]);
        }
        classes += first;
    }
    p->cut_bound += level_bound(classes, step, components);
}

static enum status keep_groups(size_t levels, const size_t *groups, struct cpsc526_problem *p)
{
    PASS(ARENA_NEW(&p->memory, p->groups, levels + 1));
    PASS(ARENA_NEW(&p->memory, p->order, p->k));
    p->levels = levels;
    for (size_t l = 0; l < levels; l++)
        p->groups[l] = groups[l];
    for (size_t i = 0; i < p->k; i++)
        p->order[i] = (uint32_t)i;
    return STATUS_OK;
}

/* Groups given by numbers (--hierarchy). Without groups all pairs of labels cost 1. The
 * project's own classes (r->compat) divide what is left of the label by each level's number
 * instead of the block size. */
static enum status add_levels(const struct objective_request *r, size_t components,
                              struct cpsc526_problem *p)
{
    size_t below = p->k;
    uint32_t *class_of, *rest;
    PASS(ARENA_NEW(&p->memory, class_of, p->k));
    PASS(ARENA_NEW(&p->memory, rest, p->k));
    PASS(keep_groups(r->hierarchy_levels, r->hierarchy, p));
    for (size_t i = 0; i < p->k; i++)
        class_of[i] = rest[i] = (uint32_t)i;
    if (!r->hierarchy_levels)
        add_level(p, class_of, 1, components);
    for (size_t level = 0; level < r->hierarchy_levels; level++) {
        below /= r->hierarchy[level];
        for (size_t i = 0; i < p->k; i++) {
            class_of[i] =
                r->said.compat ? rest[i] / (uint32_t)r->hierarchy[level] : (uint32_t)(i / below);
            rest[i] %= (uint32_t)r->hierarchy[level];
        }
        add_level(p, class_of, 0.5, components);
    }
    return STATUS_OK;
}

/* ---- platforms */

/* Cost 0 for the fastest pair, towards 1 for slow ones. A pair is as fast as its slower
 * direction. */
static void platform_costs(const struct topology *t, struct cpsc526_problem *p)
{
    double most = 0;
    for (uint32_t i = 0; i < p->k; i++)
        for (uint32_t j = 0; j < i; j++) {
            double bandwidth_Bps = fmin(topology_between(t, i, j)->bandwidth_Bps,
                                        topology_between(t, j, i)->bandwidth_Bps);
            p->cost[i * p->k + j] = p->cost[j * p->k + i] = bandwidth_Bps;
            most = fmax(most, bandwidth_Bps);
        }
    for (size_t i = 0; i < p->k; i++)
        for (size_t j = 0; j < p->k; j++)
            p->cost[i * p->k + j] = i == j ? 0 : 1 - p->cost[i * p->k + j] / most;
}

/* What an edge costs at least when it leaves a group of level `level` (SIZE_MAX: its device). */
static double least_cost(const struct cpsc526_problem *p, const struct tiers *x, size_t level)
{
    double least = INFINITY;
    for (size_t i = 0; i < p->k; i++)
        for (size_t j = 0; j < i; j++)
            if (level == SIZE_MAX || x->level[level].group_of[i] != x->level[level].group_of[j])
                least = fmin(least, p->cost[i * p->k + j]);
    return least;
}

/* Labels by their groups, outermost first, by stable sorting from the innermost on. */
static enum status order_labels(const struct tiers *x, struct cpsc526_problem *p)
{
    uint32_t *sorted;
    size_t *end; /* of a group in the order */
    PASS(ARENA_NEW(&p->memory, sorted, p->k));
    PASS(ARENA_NEW(&p->memory, end, p->k + 1));
    for (size_t l = 0; l < x->levels; l++) {
        const uint32_t *group_of = x->level[l].group_of;
        memset(end, 0, (p->k + 1) * sizeof *end);
        for (size_t i = 0; i < p->k; i++)
            end[group_of[i] + 1]++;
        for (size_t g = 0; g < p->k; g++)
            end[g + 1] += end[g];
        for (size_t i = 0; i < p->k; i++)
            sorted[end[group_of[p->order[i]]]++] = p->order[i];
        memcpy(p->order, sorted, p->k * sizeof *sorted);
    }
    return STATUS_OK;
}

/* Groups of a platform are those that partition/tiers.h finds. Every level's cut bound counts
 * only what its least cost adds to that of the level inside it: an edge that leaves a site has
 * been counted as leaving its rack. */
static enum status add_platform(const struct topology *t, size_t components,
                                struct cpsc526_problem *p)
{
    enum status st;
    struct tiers x = {0};
    double below = 0;
    TRY(tiers_find(t, &x));
    platform_costs(t, p);
    for (size_t l = 0; l < x.levels; l++) { /* groups of the level before: devices at first */
        double least = least_cost(p, &x, l > 0 ? l - 1 : SIZE_MAX);
        p->cut_bound +=
            level_bound(l > 0 ? x.level[l - 1].groups : p->k, least - below, components);
        below = least;
    }
    TRY(keep_groups(x.k_values ? x.levels : 0, x.k_values, p));
    TRY(order_labels(&x, p));
out:
    tiers_free(&x);
    return st;
}

/* ---- measured speeds */

/* A pair is as fast as its slower direction, and costs what it lacks to the fastest. */
static enum status add_speeds(const struct cpsc526_speeds *s, size_t components,
                              struct cpsc526_problem *p)
{
    double most = 0, least = INFINITY;
    for (size_t i = 0; i < p->k; i++)
        for (size_t j = 0; j < p->k; j++)
            most = fmax(most, s->speed[i * p->k + j]);
    for (size_t i = 0; i < p->k; i++)
        for (size_t j = 0; j < i; j++) {
            double cost = most - fmin(s->speed[i * p->k + j], s->speed[j * p->k + i]);
            p->cost[i * p->k + j] = p->cost[j * p->k + i] = cost;
            least = fmin(least, cost);
        }
    if (p->k > 1)
        p->cut_bound = level_bound(p->k, least, components);
    return keep_groups(0, NULL, p);
}

/* ---- */

/* One way of saying the devices, and at least one op for each of them. */
static enum status cpsc526_problem_count_parts(const struct objective_request *r, size_t speeds,
                                               size_t *k)
{
    if (!r->model)
        return error_set(STATUS_INVALID, "--objective cpsc526 needs a model");
    int ways = (r->devices > 0) + (r->hierarchy_levels > 0) + (r->topology != NULL) + (speeds > 0);
    if (ways != 1)
        return error_set(
            STATUS_USAGE,
            "--objective cpsc526 needs --devices, --hierarchy, --platform or --speeds%s",
            ways > 1 ? ", exactly one of them" : "");
    *k = r->topology ? r->topology->n : r->hierarchy_levels ? 1 : speeds ? speeds : r->devices;
    for (size_t i = 0; i < r->hierarchy_levels; i++) {
        if (r->hierarchy[i] < 1 || r->hierarchy[i] > CPSC526_MAX_PARTS)
            return error_set(STATUS_INVALID, "--hierarchy: level %zu must have 1 to %d groups",
                             i + 1, CPSC526_MAX_PARTS);
        *k = *k <= CPSC526_MAX_PARTS ? *k * r->hierarchy[i] : *k;
    }
    if (*k > CPSC526_MAX_PARTS)
        return error_set(STATUS_UNSUPPORTED, "--objective cpsc526 supports at most %d devices",
                         CPSC526_MAX_PARTS);
    if (*k > r->model->n)
        return error_set(STATUS_INFEASIBLE,
                         "got %zu devices for %zu ops, expected at least one op per device", *k,
                         r->model->n);
    return STATUS_OK;
}

enum status cpsc526_problem_build(const struct objective_request *r, struct cpsc526_problem *p)
{
    enum status st;
    struct cpsc526_speeds speeds = {0};
    size_t k = 0, components = 0;
    if (r->said.speeds)
        TRY(cpsc526_speeds_read(r->said.speeds, &speeds));
    TRY(cpsc526_problem_count_parts(r, speeds.k, &k));
    TRY(cpsc526_problem_allocate(r->model->n, k, r->model->edges, p));
    cpsc526_problem_read_graph(r->model, p);
    TRY(count_components(p, &components));
    TRY(r->topology    ? add_platform(r->topology, components, p)
        : speeds.k > 0 ? add_speeds(&speeds, components, p)
                       : add_levels(r, components, p));
    finish_bound(p, components);
out:
    free(speeds.speed);
    return st;
}

/* Edges that leave the members are dropped: their ends are decided at the level above. */
enum status cpsc526_problem_induce(const struct cpsc526_problem *p, const uint32_t *member,
                                   size_t n, size_t k, size_t minimum, const double *cost,
                                   struct cpsc526_problem *sub)
{
    size_t edges = 0;
    double sum = 0;
    uint32_t *position; /* + 1 */
    PASS(cpsc526_problem_allocate(n, k, p->start[p->n] / 2, sub));
    PASS(ARENA_NEW(&sub->memory, position, p->n));
    sub->minimum = minimum;
    memcpy(sub->cost, cost, k * k * sizeof *cost);
    for (size_t i = 0; i < n; i++)
        position[member[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < n; i++) {
        sub->start[i] = edges;
        sub->weight[i] = p->weight[member[i]];
        sum += sub->weight[i];
        for (size_t e = p->start[member[i]]; e < p->start[member[i] + 1]; e++)
            if (position[p->peer[e]])
                sub->peer[edges++] = position[p->peer[e]] - 1;
    }
    sub->start[n] = edges;
    sub->mean = sum / (double)k;
    return STATUS_OK;
}

void cpsc526_problem_free(struct cpsc526_problem *p)
{
    arena_free(&p->memory);
    *p = (struct cpsc526_problem){0};
}

/* ---- value */

/* NAN marks a part without ops, which makes the metric infinite; a part of weightless ops is
 * none. */
double cpsc526_metric(const struct cpsc526_problem *p, const uint32_t *label, double *weight)
{
    double variance = 0, twice_cut = 0;
    for (size_t c = 0; c < p->k; c++)
        weight[c] = NAN;
    for (size_t i = 0; i < p->n; i++) {
        double *w = &weight[label[i]];
        *w = isnan(*w) ? p->weight[i] : *w + p->weight[i];
        for (size_t e = p->start[i]; e < p->start[i + 1]; e++)
            twice_cut += p->cost[label[i] * p->k + label[p->peer[e]]];
    }
    for (size_t c = 0; c < p->k; c++)
        variance += isnan(weight[c]) ? INFINITY : (weight[c] - p->mean) * (weight[c] - p->mean);
    return variance + twice_cut / 2;
}

bool cpsc526_is_optimal(const struct cpsc526_problem *p, double value)
{
    return value <= p->bound + 1e-9 * fmax(1, p->bound);
}

enum status cpsc526_report(const struct objective_request *r, const struct cpsc526_problem *p,
                           const uint32_t *label, const char *how, struct objective_result *out)
{
    const struct objective_ops ops = {p->n, .model = r->model};
    double *weight;
    PASS(ARENA_NEW(&out->memory, weight, p->k));
    out->value = cpsc526_metric(p, label, weight);
    out->lower_bound = p->bound;
    out->proved_optimal = cpsc526_is_optimal(p, out->value);
    for (uint32_t c = 0; c < p->k; c++)
        PASS(objective_add_part(out, &ops, label, c, r->topology ? r->topology->device[c] : NULL));
    return objective_set_note(out, "%s; %s", how, p->argument);
}
