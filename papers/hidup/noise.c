/* Searches with noisy numbers, scored by the true ones. */
#include "papers/hidup/noise.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"

static double noise_factor(uint64_t key, uint64_t i, double share)
{
    return 1 + share * (2 * random_unit(key, i) - 1);
}

static struct spmd_costs noisy(const struct spmd_search *q, const struct spmd_noise *noise,
                               uint64_t key, double *work)
{
    struct spmd_costs c = *q->costs;
    uint64_t i = 0;
    for (size_t n = 0; n < q->graph->nodes; n++)
        work[n] = noise_factor(key, i++, noise->share);
    c.noise = work;
    c.profile.flop_per_s *= noise_factor(key, i++, noise->share);
    for (size_t s = 0; s < STEPS; s++)
        c.profile.bandwidth_Bps[s] *= noise->bandwidth * noise_factor(key, i++, noise->share);
    if (c.compat)
        c.profile.devices *= noise_factor(key, i++, noise->share);
    return c;
}

enum status spmd_noise(const struct spmd_search *q, const struct spmd_noise *noise, double true_s,
                       struct spmd_loss *out)
{
    enum status st;
    struct spmd_loss loss = {.least = INFINITY};
    struct arena memory = {0};
    double *work, sum = 0;
    TRY(ARRAY_NEW(work, q->graph->nodes));
    while (loss.samples < noise->samples && !(q->stop && *q->stop)) {
        struct spmd_costs c = noisy(q, noise, random_key(noise->seed, loss.samples), work);
        struct spmd_search with = *q;
        struct spmd_found found;
        with.costs = &c;
        TRY(spmd_search(&with, &memory, &found));
        double relative = spmd_seconds(q->costs, q->graph, &found.strategy) / true_s;
        sum += relative;
        loss.worst = relative > loss.worst ? relative : loss.worst;
        loss.least = relative < loss.least ? relative : loss.least;
        loss.mean = sum / (double)++loss.samples;
        arena_free(&memory);
    }
    *out = loss;
    st = STATUS_OK;
out:
    arena_free(&memory);
    free(work);
    return st;
}
