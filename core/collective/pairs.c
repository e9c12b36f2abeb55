/* Everybody to everybody: each member reduces one n-th of the buffer, which all others send it, and
 * sends the result to all. Two latencies; on links of a pair's own, as in an NVLink mesh, all of
 * them work at once. In a broadcast every other member gets a piece of its own from the first and
 * passes it on; a reduce is the same backwards.
 * Sources: "all pairs" of Cowan et al., MSCCLang, ASPLOS 2023; broadcasts as a scatter and an
 * all-gather: Chan et al., CCPE 19 (2007) 1749-1783. */
#include "core/collective/shapes.h"

static enum status pairs_shape(const struct collective_group *g, enum collective_kind kind,
                               double bytes, size_t channels, struct collective_shape *out)
{
    bool spread = kind == COLLECTIVE_BROADCAST, collect = kind == COLLECTIVE_REDUCE;
    double part = bytes / (double)(g->n - (spread || collect ? 1 : 0));
    size_t rounds = kind == COLLECTIVE_ALLREDUCE ? 2 : 1;
    (void)channels;
    PASS(collective_shape_open(out, 3, (rounds * (g->n - 1) + 1) * g->n));
    if (spread)
        collective_end_phase(out, collective_one_to_all(g, part, false, out));
    for (size_t k = 0; k < rounds && !((spread || collect) && g->n == 2); k++)
        collective_end_phase(out, collective_every_pair(g, part, spread || collect, out));
    if (collect)
        collective_end_phase(out, collective_one_to_all(g, part, true, out));
    return STATUS_OK;
}

const struct collective_algorithm collective_pairs = {
    .name = "pairs",
    .summary = "each member exchanges 1/n of the buffer with every other member at once; up to 256 "
               "members",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true,
               [COLLECTIVE_BROADCAST] = true,
               [COLLECTIVE_REDUCE] = true},
    .chunks = collective_chunks,
    .most = COLLECTIVE_PAIRS_MAX,
    .shape = pairs_shape,
};
