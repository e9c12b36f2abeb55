/* The fastest algorithm on a network by closed forms: `fastest`, and what `auto` takes on a torus
 * or a grid, which NCCL's table knows nothing about. */
#include <math.h>
#include <string.h>

#include "core/collective/shapes.h"

enum {
    LOOKED_AT = 16384, /* flows whose ways are, when they may be */
    FEW = 16           /* members whose few flows always are */
};

/* The closed form of one algorithm. Of those that do not know a grid the ways are looked at only of
 * collectives that begin or end at one member, or have few, so that there are few flows; of the
 * others it is known how much of each dimension they need at least.
 *   ways  look at them if there are not too many, and platforms say which they are */
static enum status seconds_of(const struct collective_group *g, enum collective_kind kind,
                              double bytes, const struct collective_options *options, bool ways,
                              struct collective_shape *s, double *seconds)
{
    bool grid = g->grid && !s->algorithm->neighbours;
    PASS(s->algorithm->shape(g, kind, bytes, collective_count_channels(g, options), s));
    PASS(collective_close(g, options ? options->nics : 0, NULL, s));
    ways = ways && g->topology->links > 0 && s->flows <= LOOKED_AT;
    ways = ways || (grid && (kind >= COLLECTIVE_BROADCAST || g->n <= FEW) && s->flows <= 4 * g->n);
    *seconds = 0;
    for (size_t k = 0; k < s->phases; k++) {
        const struct collective_phase *phase = &s->phase[k];
        double transfer_s = phase->transfer_s;
        if (ways && !s->algorithm->neighbours)
            PASS(collective_link_seconds(g, s, phase, &transfer_s));
        else if (grid)
            transfer_s = larger(transfer_s, collective_grid_seconds(g, s, phase));
        *seconds += phase->latency_s + transfer_s;
    }
    return STATUS_OK;
}

enum status collective_take_fastest(const struct collective_group *g, enum collective_kind kind,
                                    double bytes, const struct collective_options *options,
                                    struct collective_choice *choice)
{
    double best_s = INFINITY;
    const struct collective_algorithm *best = NULL;
    bool ways = options && options->algorithm;
    for (size_t k = collective_algorithms_n; k-- > 0;) {
        struct collective_shape s = {.algorithm = collective_algorithms[k]};
        double seconds;
        if (s.algorithm == &collective_switch || !collective_applies(s.algorithm, g, kind))
            continue;
        enum status st = seconds_of(g, kind, bytes, options, ways, &s, &seconds);
        collective_shape_free(&s);
        PASS(st);
        if (seconds < best_s * (1 - 1e-9))
            best_s = seconds, best = collective_algorithms[k];
    }
    if (best)
        *choice = (struct collective_choice){.algorithm = best};
    return STATUS_OK;
}

bool collective_wants_fastest(const struct collective_options *options)
{
    return options && options->algorithm && !strcmp(options->algorithm, collective_fastest.name);
}

const struct collective_algorithm collective_fastest = {
    .name = "fastest",
    .summary =
        "for each collective, the algorithm with the shortest predicted time on this network",
};
