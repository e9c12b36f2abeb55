/* fabric.h - what collectives attain between devices of a type: measured curves of time over bytes,
 * and a model of NCCL's attained bandwidth for what has not been measured.
 *
 *   curve   of one kind of collective, for a number of members and of members per node.
 *           log(seconds) is linear in log(bytes) between the points. Below the first point the
 *           seconds are those of the first; above the last one the slope is that of the last
 *           doubling
 *   model   T = latency + (seconds at the links' bandwidth) * lost
 *           inside a node  latency = start, lost = (1 + (half / bytes)^exponent) / share; an
 *                          all-reduce that the switch sums (NVLS): bytes * (n + 1) / n /
 *                          (reduce * bandwidth) instead, where that is faster
 *           across nodes   lost = 1 / share inside and 1 / fabric_across() across: nic between two
 *                          nodes, times `doubling` at each doubling of their number; latency =
 *                          1.5 start + hop * (n - 1), of an all-reduce 1.5 start + 8 hop *
 *                          log2(nodes)
 *
 * "bytes" is nccl-tests' size. Constants' sources and errors: docs/reference/collectives.md. */
#ifndef CORE_COST_FABRIC_H
#define CORE_COST_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/fabric_text.h"

struct device_type;

/* Seconds of so many bytes by a curve; increasing where its points are. O(log n). */
double fabric_curve_seconds(const struct fabric_curve *c, double bytes);
/* Seconds of a collective by the type's curves: the curve of as many members on as many nodes, else
 * between the curves of the next fewer and the next more members with equally many per node,
 * log(seconds) linear in log(members); on more nodes than any, along the line of the last two.
 * False: no curve of the kind, or none on both sides and none exact. `tier` is that of the slowest
 * link; *latency_s: what of it small buffers take as well. */
bool fabric_seconds(const struct device_type *type, enum fabric_kind kind, uint32_t members,
                    uint32_t per_node, const char *tier, double bytes, double *seconds,
                    double *latency_s);

/* What to take for types whose platform says nothing, fitted to A100, H100, H200 and B200 systems
 * (docs/reference/collectives.md); sums in the switch from Hopper on. Nothing for types without a
 * 16-bit peak. */
struct fabric_model fabric_derive(const struct device_type *type);

/* The model's closed form on nodes of equal links and as many ways out as members: what a
 * collective alone takes on a generated platform. `switched`: may an all-reduce be summed in the
 * switch? */
struct fabric_where {
    uint32_t members, per_node;
    double link_Bps, nic_Bps; /* of a member: inside its node, and out of it */
    bool switched;
};
/* Share of the bandwidth between nodes that a collective over so many of them (>= 1) attains. */
double fabric_across(const struct fabric_model *m, double nodes);
double fabric_model_seconds(const struct fabric_model *m, enum fabric_kind kind,
                            const struct fabric_where *where, double bytes);

#endif
