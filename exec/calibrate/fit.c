/* Measured numbers become a topology.
 *
 * 1. Every figure is the median over ranks and repetitions; its spread is noted.
 * 2. Rates: for each kind of layer and phase, FLOP/s over FLOP, a point for each probe.
 * 3. Links: latency and bandwidth of the straight line through (bytes, seconds), for each pair of
 *    ranks; and, of messages and collectives together, those of the platform's only tier. Between
 *    GPUs that is of messages alone, and collectives are curves (core/cost/fabric.h).
 * 4. What the fitted platform predicts for the same messages and collectives is put beside them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/cost/cost.h"
#include "exec/calibrate/probe.h"
#include "exec/team.h"

/* ---- medians */

double sorted_middle(double *value, size_t n, double *spread)
{
    qsort(value, n, sizeof *value, by_value);
    double m = quantile_sorted(value, n, 0.5);
    *spread = m > 0 ? (value[(3 * n) / 4] - value[n / 4]) / m : 0;
    return m;
}

/* Interquartile range / median of every figure so far. */
struct spreads {
    size_t n;
    double *value;       /* room for all */
    struct arena memory; /* of this array and others for a while */
};

/* Median of value[n], which is sorted in place; notes the spread. */
static double fit_median(double *value, size_t n, struct spreads *s)
{
    return sorted_middle(value, n, &s->value[s->n++]);
}

static double figure_s(const struct bench *b, size_t figure, struct spreads *spread)
{
    return fit_median(calls_of(b, figure, 0), b->ranks * b->repeats, spread);
}

/* One of those behind the probes', which are no measure of noise. */
static double figure_of(const struct bench *b, size_t figure)
{
    double ignored;
    return sorted_middle(calls_of(b, 2 * b->task->probes + figure, 0), b->ranks * b->repeats,
                         &ignored);
}

/* ---- rates */

static void fit_add_point(struct topology_rate *r, double flop, double seconds)
{
    if (r->n > 0 && flop == r->flop[r->n - 1]) { /* same work in another shape: mean time */
        double before_s = flop / r->flops[r->n - 1];
        r->flops[r->n - 1] = flop / ((before_s + seconds) / 2);
        return;
    }
    r->flop[r->n] = flop;
    r->flops[r->n++] = flop / seconds;
}

/* All probes of one kind and phase, which are in ascending order of work. */
static enum status make_rate(const struct bench *b, const char *kind, const char *phase,
                             struct spreads *spread, struct topology_rate *r)
{
    bool backward = !strcmp(phase, "backward");
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, phase);
    PASS(text_copy(name, &r->kind));
    PASS(ARRAY_NEW(r->flop, b->task->probes));
    PASS(ARRAY_NEW(r->flops, b->task->probes));
    for (size_t k = 0; k < b->task->probes; k++)
        if (!strcmp(b->task->probe[k].kind, kind))
            fit_add_point(r, probe_flop(&b->task->probe[k], backward),
                          figure_s(b, 2 * k + backward, spread));
    return STATUS_OK;
}

/* Probes of a kind lie side by side (probe.c), so that each kind begins where its name changes.
 * An optimizer step has one phase, a layer two. */
static enum status make_rates(const struct bench *b, struct spreads *spread,
                              struct device_type *type)
{
    PASS(ARRAY_NEW(type->rate, 2 * b->task->probes));
    for (size_t k = 0; k < b->task->probes; k++) {
        const char *kind = b->task->probe[k].kind;
        if (k > 0 && !strcmp(kind, b->task->probe[k - 1].kind))
            continue;
        bool update = probe_updates(&b->task->probe[k]);
        PASS(make_rate(b, kind, update ? "update" : "forward", spread, &type->rate[type->rates++]));
        if (!update)
            PASS(make_rate(b, kind, "backward", spread, &type->rate[type->rates++]));
    }
    return STATUS_OK;
}

/* Attainable speed of dense work: the best of the linear layers. */
static double best_linear(const struct device_type *type)
{
    double best = 0;
    for (size_t k = 0; k < type->rates; k++)
        for (size_t i = 0; i < type->rate[k].n && !strcmp(type->rate[k].kind, "linear.forward");
             i++)
            best = fmax(best, type->rate[k].flops[i]);
    return best;
}

/* Memory bandwidth counts a copy as a read and a write of every byte. A device without memory of
 * its own has its share of the machine's. */
static enum status make_type(const struct bench *b, struct spreads *spread, struct topology *out)
{
    PASS(ARRAY_NEW(out->type, 1));
    out->types = 1;
    struct device_type *type = out->type;
    PASS(text_copy(b->task->gpus ? "cuda" : "cpu", &type->name));
    PASS(make_rates(b, spread, type));
    type->flops = best_linear(type);
    type->launch_s =
        fmax(figure_s(b, 2 * b->task->probes + FIGURE_LAUNCH, spread), figure_of(b, FIGURE_HOST));
    type->slowdown = figure_of(b, FIGURE_BESIDE);
    type->watts = figure_of(b, FIGURE_WATTS);
    type->memory_Bps =
        2.0 * (double)b->task->copy_bytes / figure_s(b, 2 * b->task->probes + FIGURE_COPY, spread);
    double own = figure_s(b, 2 * b->task->probes + FIGURE_MEMORY, spread);
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    type->memory_bytes = (int64_t)(own > 0 ? own : ram / (double)b->ranks);
    return STATUS_OK;
}

/* ---- links */

/* A GPU's PCIe 5.0 x16, per direction: what is faster is NVLink. */
static const double pcie_Bps = 64e9;

/* What was measured of a link: `rounds` times its latency and `bytes` over its bandwidth. */
struct fitted {
    double rounds, bytes, seconds;
    double weight; /* against other points */
};

/* Latency and bandwidth: least squares of the relative error over all points. When noise makes one
 * of them negative, or there is one size, all is bandwidth. */
static void fit_line(const struct fitted *point, size_t n, double *latency_s, double *Bps)
{
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
    for (size_t k = 0; k < n; k++) {
        double t = point[k].seconds, r = point[k].rounds, x = point[k].bytes;
        double w = point[k].weight / (t * t);
        s += w * r * r;
        sx += w * r * x;
        sxx += w * x * x;
        sy += w * r * t;
        sxy += w * x * t;
    }
    double slope = (s * sxy - sx * sy) / (s * sxx - sx * sx), start_s = (sy - slope * sx) / s;
    if (n < 2 || !(slope > 0) || start_s < 0) {
        slope = sxy / sxx;
        start_s = 0;
    }
    *latency_s = start_s;
    *Bps = 1 / slope;
}

static struct fitted fit_message_time(const struct bench *b, size_t size, double seconds)
{
    return (struct fitted){1, (double)b->task->size[size], seconds, 1};
}

/* Of each pair the straight line through the medians of all sizes. */
static enum status make_pairs(const struct bench *b, struct spreads *spread,
                              struct calibration *out)
{
    size_t n = bench_messages(b->task);
    struct fitted *way = NULL;
    PASS(ARENA_NEW(&spread->memory, way, n));
    PASS(ARRAY_NEW(out->pair, bench_pairs(b)));
    for (uint32_t i = 0; i < b->ranks; i++)
        for (uint32_t j = i + 1; j < b->ranks; j++) {
            struct calibrate_pair *pair = &out->pair[out->pairs];
            for (size_t s = 0; s < n; s++)
                way[s] = fit_message_time(
                    b, s, fit_median(ways_of(b, out->pairs, s), b->repeats, spread));
            pair->from = i;
            pair->to = j;
            fit_line(way, n, &pair->latency_s, &pair->bandwidth_Bps);
            out->pairs++;
        }
    return STATUS_OK;
}

/* Median over all pairs of one size, of ways_of() or taken_of(); `all` has room for them. */
static double over_pairs(const struct bench *b, size_t size,
                         double *(*of)(const struct bench *b, size_t pair, size_t size),
                         struct spreads *spread, double *all)
{
    size_t pairs = bench_pairs(b);
    for (size_t p = 0; p < pairs; p++)
        memcpy(all + p * b->repeats, of(b, p, size), b->repeats * sizeof *all);
    return fit_median(all, pairs * b->repeats, spread);
}

/* Messages, all pairs together, as on one machine they are alike; and what they take of the CPU. */
static enum status fit_add_messages(const struct bench *b, struct spreads *spread,
                                    struct calibration *out)
{
    size_t n = bench_messages(b->task), pairs = bench_pairs(b);
    struct device_type *type = out->topology.type;
    struct fitted *taken = NULL;
    double *all = NULL;
    PASS(ARENA_NEW(&spread->memory, taken, n));
    PASS(ARENA_NEW(&spread->memory, all, pairs * b->repeats));
    for (size_t s = 0; pairs > 0 && s < n; s++) {
        out->timing[out->timings++] = (struct calibrate_timing){
            .bytes = b->task->size[s], .seconds = over_pairs(b, s, ways_of, spread, all)};
        if (!b->task->gpus)
            taken[s] = fit_message_time(b, s, over_pairs(b, s, taken_of, spread, all));
    }
    if (pairs > 0 && !b->task->gpus)
        fit_line(taken, n, &type->message_s, &type->message_Bps);
    return STATUS_OK;
}

/* Of so many ranks each, sizes of one kind. */
static void add_series(const struct bench *b, size_t layout, size_t kind, struct spreads *spread,
                       struct calibration *out)
{
    size_t series = layout * bench_kinds(b->task) + kind;
    for (size_t s = 0; s < b->task->sizes; s++)
        out->timing[out->timings++] = (struct calibrate_timing){
            .collective = true,
            .kind = bench_sums[kind].kind,
            .members = bench_members(b, layout),
            .bytes = b->task->size[s],
            .seconds = fit_median(sums_of(b, series, s, 0), b->ranks * b->repeats, spread)};
}

static void add_collectives(const struct bench *b, struct spreads *spread, struct calibration *out)
{
    for (size_t l = 0; l < bench_layouts(b) && b->ranks > 1; l++)
        for (size_t k = 0; k < bench_kinds(b->task); k++)
            add_series(b, l, k, spread, out);
}

/* What collectives took as curves of the ranks' type: of GPUs groups within a node, as a
 * calibration is of one; of CPUs, if asked for, all ranks, each of which is a host of its own. */
static enum status make_curves(const struct bench *b, const struct calibration *c,
                               struct device_type *type)
{
    size_t sizes = b->task->sizes;
    if (!b->task->gpus && !b->curves)
        return STATUS_OK;
    PASS(ARRAY_NEW(type->curve, c->timings));
    for (size_t k = 0; k < c->timings; k += c->timing[k].collective ? sizes : 1) {
        const struct calibrate_timing *t = &c->timing[k];
        struct fabric_curve *curve = &type->curve[type->curves];
        if (!t->collective)
            continue;
        *curve = (struct fabric_curve){.kind = (enum fabric_kind)t->kind,
                                       .members = (uint32_t)t->members,
                                       .per_node = b->task->gpus ? (uint32_t)t->members : 1};
        type->curves++;
        PASS(text_copy("*", &curve->tier));
        PASS(ARRAY_NEW(curve->bytes, sizes));
        PASS(ARRAY_NEW(curve->seconds, sizes));
        for (; curve->n < sizes; curve->n++) {
            curve->bytes[curve->n] = (double)t[curve->n].bytes;
            curve->seconds[curve->n] = t[curve->n].seconds;
        }
    }
    return STATUS_OK;
}

/* One tier between all ranks, of messages and rings of collectives, which weigh as much as all
 * messages do: collectives of small buffers are faster than a message after the other, as both ways
 * overlap. (In an all-to-all every rank sends to all at once: no link's time. They are behind the
 * rings.) */
static enum status make_tier(const struct bench *b, struct spreads *spread, struct calibration *out)
{
    struct topology *t = &out->topology;
    struct fitted *point = NULL;
    double n = (double)b->ranks;
    size_t points = (b->task->gpus ? 1 : 1 + BENCH_RINGS) * bench_messages(b->task);
    PASS(ARENA_NEW(&spread->memory, point, out->timings));
    PASS(ARRAY_NEW(t->tier, 1));
    if (out->timings == 0)
        return STATUS_OK;
    for (size_t k = 0; k < points; k++) {
        const struct calibrate_timing *c = &out->timing[k];
        double rounds = c->kind == COLLECTIVE_ALLREDUCE ? 2 * (n - 1) : n - 1;
        point[k] = c->collective
                       ? (struct fitted){rounds, rounds * (double)c->bytes / n, c->seconds, 1}
                       : (struct fitted){1, (double)c->bytes, c->seconds, BENCH_RINGS};
    }
    t->tiers = 1;
    fit_line(point, points, &t->tier->latency_s, &t->tier->bandwidth_Bps);
    bool faster = t->tier->bandwidth_Bps > pcie_Bps;
    return text_copy(!b->task->gpus ? "loopback" : faster ? "nvlink" : "pcie", &t->tier->name);
}

/* ---- what the fitted platform says of what was measured */

/* The collectives of CPUs are rings, all-to-alls direct (exec/rounds.h), unless there are
 * curves. */
static enum status fit_add_model(const struct topology *topology, struct calibrate_timing *t)
{
    enum status st;
    const struct collective_options how = {.algorithm =
                                               t->kind == COLLECTIVE_ALLTOALL ? "direct" : "ring"};
    uint32_t device[TEAM_MOST];
    struct collective_group g = {0};
    struct collective_shape shape = {0};
    for (uint32_t r = 0; r < t->members; r++)
        device[r] = r;
    TRY(collective_group_make(topology, device, t->members, &g));
    TRY(collective_shape_make(&g, t->kind, t->bytes, topology->type->curves > 0 ? NULL : &how,
                              &shape));
    t->model_s = shape.seconds;
    collective_shape_free(&shape);
out:
    collective_group_free(&g);
    return st;
}

static enum status add_models(struct calibration *c)
{
    for (size_t k = 0; k < c->timings; k++) {
        struct calibrate_timing *t = &c->timing[k];
        if (t->collective)
            PASS(fit_add_model(&c->topology, t));
        else
            t->model_s = cost_transfer(&c->topology, 0, 1, (double)t->bytes);
    }
    return STATUS_OK;
}

/* ---- all of it */

static enum status fit_name_devices(size_t n, struct topology *out)
{
    PASS(ARRAY_NEW(out->device, n));
    PASS(ARRAY_NEW(out->type_of, n));
    PASS(text_copy("calibrated", &out->name));
    for (; out->n < n; out->n++) {
        char name[32];
        snprintf(name, sizeof name, "rank%zu", out->n);
        PASS(text_copy(name, &out->device[out->n]));
    }
    return STATUS_OK;
}

/* A rank had one share of a core for all its layers, so its places all say the same. */
static double least_share(const struct bench *b)
{
    double least = INFINITY;
    for (size_t r = 0; r < b->ranks; r++)
        least = fmin(least, *calls_of(b, 2 * b->task->probes + FIGURE_SHARE, r));
    return least;
}

/* Everything is measured before anything is fitted: the spread is that of all figures together. */
enum status calibrate_fit(struct bench *b, struct calibration *out)
{
    enum status st;
    struct calibration c = {0};
    struct spreads s = {0};
    size_t timings = (2 + bench_layouts(b) * bench_kinds(b->task)) * b->task->sizes;
    TRY(ARENA_NEW(&s.memory, s.value,
                  bench_figures(b) + bench_pairs(b) * b->task->sizes + timings));
    TRY(ARRAY_NEW(c.timing, timings));
    TRY(fit_name_devices(b->ranks, &c.topology));
    TRY(make_type(b, &s, &c.topology));
    TRY(fit_add_messages(b, &s, &c));
    TRY(make_pairs(b, &s, &c));
    add_collectives(b, &s, &c);
    TRY(make_tier(b, &s, &c));
    TRY(make_curves(b, &c, c.topology.type));
    TRY(add_models(&c));
    c.noise.ranks = b->ranks;
    c.noise.share = least_share(b);
    c.host_s = figure_of(b, FIGURE_HOST);
    c.clock_Hz = figure_of(b, FIGURE_CLOCK);
    c.memory_Hz = figure_of(b, FIGURE_MEMORY_CLOCK);
    c.noise.spread.median = sorted_middle(s.value, s.n, &c.noise.spread.worst);
    c.noise.spread.worst = s.value[s.n - 1];
    MOVE(out, c);
out:
    calibration_free(&c);
    arena_free(&s.memory);
    return st;
}
