/* chain.h - an order cut into stages, whose slowest is as fast as can be.
 *
 * Stages begin and end at places 0 .. n. A stage costs what it computes on its device, and the
 * transfer of the tensors that enter it: those that it reads from before, each once. */
#ifndef PARTITION_GRAPH_CHAIN_H
#define PARTITION_GRAPH_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* A tensor that is read between a place and the next. */
struct chain_read {
    uint32_t from; /* first place from which on a stage that begins there does not have it yet:
                    * behind its producer, and behind whoever reads it before */
    double bytes;
};

struct chain {
    size_t n, stages;       /* 1 <= stages <= n */
    const double **until_s; /* [stages] of [n + 1] seconds of all before a place, on its device */
    const double *latency_s, *byte_s; /* [stages] of what enters, and per byte */
    size_t *read_start;               /* [n + 1] by the place before the reader */
    struct chain_read *read;
};

/* The dynamic program over stages and places: with B(s, e) the least slowest of the stages 0 .. s
 * that end at place e,
 *     B(0, e) = load(0, 0, e),   B(s, e) = min over b of max(B(s - 1, b), load(s, b, e)).
 * The best cut at every fourth place, then moved by a few places, gives a limit: places
 * that the stages before cannot reach within it, or from which those behind cannot reach the end,
 * are left out.
 *   begin        [stages] out: the place where each begins; of equal cuts the leftmost
 *   objective_s  out: the slowest stage
 * Exact. O(places that are left * reads of a place) time for each of those places, at worst
 * O(stages * n^2); memory O(n + places that are left). STATUS_NOMEM.
 * Source: chains-on-chains partitioning, Pinar & Aykanat, JPDC 64 (2004) 974-996: the dynamic
 * program of section 3.2 with bounds, whose loads are sums of weights. */
enum status chain_cut(const struct chain *c, uint32_t *begin, double *objective_s) MUST_CHECK;

#endif
