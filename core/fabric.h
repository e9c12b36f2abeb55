/* fabric.h - what collectives attain between devices of a type: measured curves of time over bytes, and
 * a model of NCCL's attained bandwidth for what has not been measured.
 *
 *   curve   of one kind, between so many members of which so many share a node; log(seconds) is
 *           linear in log(bytes) between the points, below the first one as long as there, above the
 *           last one with the slope of the last doubling
 *   model   T = latency + (seconds at the links' bandwidth) * lost
 *           inside a node  latency = start, lost = (1 + (half / bytes)^exponent) / share; an
 *                          all-reduce that the switch sums (NVLS): bytes * (n + 1) / n /
 *                          (reduce * bandwidth) instead, where that is faster
 *           across nodes   lost = 1 / share inside and 1 / nic across, latency = 1.5 start + hop * (n - 1),
 *                          of an all-reduce 1.5 start + 8 hop * log2(nodes)
 *
 * "bytes" is nccl-tests' size. Constants' sources and errors: docs/simulation.md. */
#ifndef CORE_FABRIC_H
#define CORE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"

struct device_type;

/* In the order of enum collective_kind (core/collective.h); then messages. */
enum fabric_kind {
    FABRIC_ALLREDUCE,
    FABRIC_ALLGATHER,
    FABRIC_REDUCESCATTER,
    FABRIC_ALLTOALL,
    FABRIC_BROADCAST,
    FABRIC_SEND,
    FABRIC_KINDS
};
extern const char *const fabric_kind_name[FABRIC_KINDS]; /* "all-reduce", ..., "send" */

enum { FABRIC_POINTS = 2048, FABRIC_CURVES = 256, FABRIC_MEMBERS = 1 << 20, FABRIC_TIER = 64 };

struct fabric_curve {
    enum fabric_kind kind;
    uint32_t members, per_node; /* >= 2; >= 1, of every node */
    char *tier;                 /* the slowest between them, owned; "*": any */
    size_t n;                   /* points, 1 .. FABRIC_POINTS */
    double *bytes, *seconds;    /* [n] increasing, > 0; > 0 */
};

/* All zero: not known. */
struct fabric_model {
    double start_s;    /* until the first bytes move */
    double share;      /* of the links' bandwidth inside a node; 0: nothing is known */
    double half_bytes; /* of a buffer that gets half of it inside a node, */
    double exponent;   /* and how fast larger ones get more */
    double nic;        /* share of the bandwidth between nodes */
    double hop_s;      /* from node to node */
    double reduce; /* share of the links' bandwidth that sums in the switch attain; 0: it cannot */
};

/* Seconds of so many bytes by a curve; increasing where its points are. O(log n). */
double fabric_curve_seconds(const struct fabric_curve *c, double bytes);
/* Seconds of a collective by the type's curves: that of as many members on as many nodes, else the two
 * of the next fewer and next more members on nodes as full, log(seconds) linear in log(members). False: no
 * curve of the kind, or none on both sides and none exact. `tier` is that of the slowest link; *latency_s:
 * what of it small buffers take as well. */
bool fabric_seconds(const struct device_type *type, enum fabric_kind kind, uint32_t members,
                    uint32_t per_node, const char *tier, double bytes, double *seconds,
                    double *latency_s);

/* What to take for types whose platform says nothing, fitted to A100, H100, H200 and B200 systems
 * (docs/simulation.md); sums in the switch from Hopper on. Nothing for types without a 16-bit peak. */
struct fabric_model fabric_derive(const struct device_type *type);

/* The model's closed form on nodes of equal links and as many ways out as members: what a collective alone
 * takes on a generated platform. `switched`: may an all-reduce be summed in the switch? */
struct fabric_where {
    uint32_t members, per_node;
    double link_Bps, nic_Bps; /* of a member: inside its node, and out of it */
    bool switched;
};
double fabric_model_seconds(const struct fabric_model *m, enum fabric_kind kind,
                            const struct fabric_where *where, double bytes);

/* ---- as properties of a platform

 * A curve is <prop id="curve:all-reduce:8x8" value="1MiB@30us 4MiB@52us"/>, kind, members x members of
 * a node and perhaps ":tier"; the model <prop id="collectives" value="start=25us share=0.98 ..."/>.
 * STATUS_PARSE: one line. */
enum status fabric_curve_parse(const char *id, const char *value,
                               struct fabric_curve *out) MUST_CHECK;
enum status fabric_model_parse(const char *text, struct fabric_model *out) MUST_CHECK;
/* The id's part behind "curve:", "all-reduce:8x8", and the value. */
void fabric_curve_put_name(FILE *to, const struct fabric_curve *c);
void fabric_curve_put(FILE *to, const struct fabric_curve *c);
void fabric_model_put(FILE *to, const struct fabric_model *m);
bool fabric_curve_same(const struct fabric_curve *a, const struct fabric_curve *b);

void fabric_curve_free(struct fabric_curve *c); /* accepts {0}; leaves {0} */

#endif
