/* uneven_cost.h - what stages whose replicas differ are estimated to take, for the search that
 * chooses replicas and cuts by it (auto_uneven.c) before any plan is made. Private to partition/.
 *
 * Of m microbatches a replica of a stage with r replicas works on n = ceil(m / r). With T(i, j)
 * seconds of a microbatch on the layers i .. j - 1, x(i) of a crossing before layer i and S(i, j,
 * r) of the sum of their gradients, the iteration lasts until the last of the stages is done,
 *     max over stages of  T(0, i) + n load(i, j) + max(0, S(i, j, r) - 2/3 T(i, j)),
 * the first term being the way to and from the stage of one microbatch, the last what the last
 * backward does not hide. load() is T(i, j) and the crossings, side by side or one after the other.
 * Source: the dynamic programs of PipeDream (Narayanan et al., SOSP 2019, section 3.1), with a term
 * for the way and, as the iteration ends with a flush, gradients that are summed once. */
#ifndef PARTITION_UNEVEN_COST_H
#define PARTITION_UNEVEN_COST_H

#include "core/base/array.h"
#include "partition/auto_search.h"

enum { UNEVEN_LAYERS = 64, UNEVEN_UNITS = 32, UNEVEN_STAGES = 8 };

/* How compute and messages of a stage go together. */
enum uneven_load { UNEVEN_OVERLAP, UNEVEN_SUM, UNEVEN_LOADS };

/* What a family of shapes has in common: shards, kind of sharding, microbatch size. */
struct uneven_family {
    const struct auto_state *s;
    struct auto_shape shape;
    double microbatches;
    size_t layers;     /* <= UNEVEN_LAYERS: where there are more, evenly many of them by work */
    size_t *begin;     /* [layers + 1] ops */
    double *until_s;   /* [types][layers + 1] T(0, i) on the type */
    double *bytes;     /* [layers + 1] of gradients of the layers before */
    double *crossing;  /* [layers + 1] bytes of a microbatch from before layer i to behind it */
    size_t slots;      /* sets of shards */
    double *near_Bps;  /* [slots] between slot i - 1 and slot i in the order of devices */
    uint32_t *type_of; /* [slots] */
    uint32_t slowest, fastest; /* types of devices */
    struct arena memory;
};

enum status uneven_open(const struct auto_state *s, const struct auto_shape *shape,
                        struct uneven_family *out) MUST_CHECK;
void uneven_free(struct uneven_family *f);

/* The cut of stages with so many replicas each, side by side in the order of devices, that is
 * estimated to take least. first [stages] ops, out; returns the estimate, INFINITY: no cut. */
double uneven_cut(const struct uneven_family *f, enum uneven_load load, size_t stages,
                  const uint32_t *replicas, size_t *first);

/* Replicas of 2 stages, 3, ..., `stages` <= UNEVEN_STAGES that are estimated to take least, with
 * all links like the slowest one: of at most f->slots slots, in multiples of slots / UNEVEN_UNITS.
 *   replicas  [s] out: of s stages, as it was (0) where there is no cut
 * O(stages * layers^2 * UNEVEN_UNITS^2). STATUS_NOMEM. */
enum status uneven_replicas(const struct uneven_family *f, enum uneven_load load, size_t stages,
                            uint32_t replicas[UNEVEN_STAGES + 1][UNEVEN_STAGES]) MUST_CHECK;

/* No cut can be faster: compute alone, shared as evenly as can be, on the fastest devices. */
double uneven_bound(const struct uneven_family *f, size_t stages, const uint32_t *replicas);

#endif
