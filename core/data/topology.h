/* topology.h - what a planner sees of a machine: devices and what lies between any two.
 *
 * Devices share types, pairs share tiers: what i -> j gets when nothing else uses the network. Ask
 * through topology_between() only: how the pairs are kept is topology_map.h's business. Which links
 * they share is found by topology_routes() (routes.h).
 */
#ifndef CORE_DATA_TOPOLOGY_H
#define CORE_DATA_TOPOLOGY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/data/fabric_text.h"
#include "core/data/fitted.h"
#include "core/data/grid.h"
#include "core/data/inventory.h"
#include "core/data/kernel_text.h"
#include "core/data/paths.h"
#include "core/data/route_graph.h"
#include "core/data/route_table.h"
#include "core/data/topology_map.h"

struct provenance;

enum { TOPOLOGY_MAX_DEVICES = 1048576 };

/* Attainable FLOP/s of one op kind and phase over the work of one call; measured. */
struct topology_rate {
    char *kind;    /* "linear.forward", "adam.update"; owned */
    size_t n;      /* points, >= 1 */
    double *flop;  /* [n] work of a call, increasing */
    double *flops; /* [n] FLOP/s reached at that work, > 0 */
};

struct device_type {
    char *name;              /* owned */
    double flops;            /* attainable FLOP/s of dense work, > 0: device_flops() */
    double memory_Bps;       /* memory bandwidth, > 0 */
    int64_t memory_bytes;    /* > 0 */
    int64_t framework_bytes; /* of them, what a framework takes before any plan: driver, kernels,
                              * buffers of the communication; 0: not known */
    double launch_s;         /* fixed cost of one op */
    double slowdown;         /* a pass beside a collective takes 1 + slowdown times as long, >= 0 */
    double message_s, message_Bps; /* what a message that a rank sends or receives takes from the
                              * compute beside it: message_s + bytes / message_Bps; 0: nothing */
    double nics; /* ways out of a node that its devices share: bandwidth out of the node over that
                  * of the fastest tier that leads out. Two NICs are 2; one NIC that is 1.5 times as
                  * fast as what leads to it is 1.5; 0: not known, or everything is one node */
    double idle_cores;  /* of a host that has several, of which an op computes on one */
    double busy_spread; /* of repetitions, interquartile range / median, when a busy machine was
                         * calibrated; 0: it was idle */
    size_t rates;
    struct topology_rate *rate; /* [rates] */
    double peak[DATA_TYPES];    /* nominal FLOP/s of dense products; 0: not known */
    double watts;               /* drawn at work, with its share of the machine; 0: not known */
    double price_per_hour;      /* in whatever money; 0: not known */
    double host_Bps;            /* between the device and its host's memory, per direction, and */
    double host_memory_Bps;     /* what updates there get of that memory; 0: not known */
    struct fabric_model fabric; /* what collectives attain, share 0: not known; */
    size_t curves;
    struct fabric_curve *curve;    /* [curves] and measured */
    struct device_kernels kernels; /* where a framework says which an op launches */
    struct device_fitted fitted;   /* to runs on this platform */
};

/* Where a platform does not say: PCIe 4.0 x16 as attained (topologies/catalogue.c), and a channel
 * of DDR4-3200, 25.6 GB/s, for each device. */
static inline double device_host_Bps(const struct device_type *t)
{
    return t->host_Bps > 0 ? t->host_Bps : 24e9;
}
static inline double device_host_memory_Bps(const struct device_type *t)
{
    return t->host_memory_Bps > 0 ? t->host_memory_Bps : 25.6e9;
}
/* What a plan is to leave free: what the framework takes, else 5 %. Of an 80 GB GPU these are 4 GB,
 * for the driver's context (about 0.5 GB), NCCL's buffers (1 to 2 GB) and what the allocator cannot
 * use. */
static inline int64_t device_reserve(const struct device_type *t)
{
    return t->framework_bytes > 0 ? t->framework_bytes : t->memory_bytes / 20;
}

/* Attainable FLOP/s of products of a type of numbers. Where the peaks of bf16 and of this type are
 * known, `flops` is that of bf16, and this type attains the same share of its own peak; else
 * `flops` is that of all types. */
static inline double device_flops(const struct device_type *t, enum data_type dtype)
{
    double usual = t->peak[DATA_bf16], own = t->peak[dtype];
    return usual > 0 && own > 0 ? t->flops * (own / usual) : t->flops;
}

struct topology_tier {
    char *name; /* owned: "nvlink", "rack", ... */
    double latency_s;
    double bandwidth_Bps;
};

/* One direction of a link as SimGrid counts it ("n0-nic_UP"), or both when they share ("bus"). */
struct topology_link {
    char *name; /* owned */
    double bandwidth_Bps, latency_s;
    bool fat;               /* every flow gets all of it (FATPIPE) */
    uint32_t lanes, cables; /* a bundle (paths.h) of so many lanes, cables to each of the switches
                             * above, that have the bandwidth together; 0: one link */
};
static inline uint32_t topology_lanes(const struct topology_link *l)
{
    return l->lanes > 0 ? l->lanes : 1;
}

struct topology {
    char *name;        /* owned; as given on the command line */
    size_t n;          /* devices; a device is a host of the platform file */
    char **device;     /* [n] unique names, in the file's order */
    uint32_t *type_of; /* [n] */
    size_t types;
    struct device_type *type; /* [types] */
    size_t tiers;
    struct topology_tier *tier;  /* [tiers] fastest first */
    struct topology_map between; /* index of the tier from sender to receiver */
    size_t links; /* 0: none known (made by hand, measured, too large): pairs share nothing */
    struct topology_link *link; /* [links] */
    struct route_graph graph;   /* of one flat zone, or {0} */
    struct route_table table;   /* where links are known and there is no graph */
    enum paths_policy paths;    /* what its description says */
    /* What partition/capacity.h fills in. */
    double bisection_Bps;       /* 0: not known; INFINITY: no limit */
    double *oversubscription;   /* [tiers] of the groups that a tier joins, 0: not known; or NULL */
    struct topology_grid grid;  /* {0} until topology_find_grid(), and where there is none */
    struct inventory inventory; /* {0} until study/costs.h counts */
    uint32_t *node_of; /* [n] number of a device's node, < n; NULL until topology_find_nodes() */
};

/* The tier between two different devices; a few loads, for inner loops. */
static inline const struct topology_tier *topology_between(const struct topology *t, uint32_t from,
                                                           uint32_t to)
{
    assert(from < t->n && to < t->n && from != to);
    return &t->tier[topology_map_at(&t->between, from, to)];
}
static inline const struct device_type *topology_type(const struct topology *t, uint32_t device)
{
    return &t->type[t->type_of[device]];
}
/* Does the tier's name say that it stays inside a node? Every part of it begins with "nv" or "pci"
 * ("nvlink-double", not "nvlink+rail"). */
bool topology_tier_inside(const struct topology_tier *tier);
/* Which tiers stay inside a node: those whose name says so; where none does, the fastest of
 * several.
 *   inside  [t->tiers] out
 * False when there is none: every device is a node. */
bool topology_inside(const struct topology *t, bool *inside);
/* Fill node_of: a device is in the node of the device before it when a tier inside nodes joins
 * them, else in that of the first device of an earlier node likewise, else in a new one. Where that
 * joins devices without such a tier to the first of their node, as in a torus, every device is a
 * node. O(n) where the map is regular. STATUS_NOMEM. */
enum status topology_find_nodes(struct topology *t) MUST_CHECK;
/* Index of a device, UINT32_MAX if there is none; O(n). */
uint32_t topology_find(const struct topology *t, const char *device);
/* The name of one lane of a bundle: "leaf0-up_UP" and 3 give "leaf0-up.3_UP". Into text[size];
 * returns `text`. */
const char *topology_lane_name(const char *link, uint32_t lane, char *text, size_t size);
/* Has it bundles, so that a policy of paths means something? O(links). */
bool topology_has_lanes(const struct topology *t);
/* n devices of one type, any two one tier apart: "d0", "d1", ...; type and tier are copied (a type
 * without rates). For tests and measurements. STATUS_INVALID unless 1 <= n <= 1,048,576;
 * STATUS_NOMEM.
 */
enum status topology_uniform(size_t n, const struct device_type *type,
                             const struct topology_tier *tier, struct topology *out) MUST_CHECK;
/* JSON, format "foreline-topology": what `foreline topology show --json` prints. */
enum status topology_write(const struct topology *t, const char *path,
                           const struct provenance *p) MUST_CHECK;
void topology_free(struct topology *t); /* accepts {0}; leaves {0} */

#endif
