/* collective.h - collective operations as data: which algorithm moves which bytes between which
 * members, for engines that let the bytes contend and for engines that take the closed form.
 *
 * A shape is what an algorithm makes of one collective: phases that follow one another, and in each
 * of them flows that run at the same time. `bytes` is nccl-tests' size: all-reduce, broadcast,
 * reduce: the buffer of each member; all-gather, gather: the gathered result; reduce-scatter,
 * all-to-all: the input buffer of each member (in an all-to-all each ordered pair exchanges bytes /
 * n); scatter: what is scattered. Broadcasts and scatters start at member 0, reduces and gathers
 * end there. Members are positions in the list of devices a group was made of. A group is made
 * once, shapes of it as often as sizes differ; both are deterministic. Equations, sources and
 * limits: docs/reference/collectives.md. */
#ifndef CORE_COLLECTIVE_COLLECTIVE_H
#define CORE_COLLECTIVE_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/collective/steps.h"
#include "core/data/collective_kind.h"
#include "core/data/grid.h"
#include "core/data/topology.h"

enum { COLLECTIVE_PAIRS_MAX = 256 }; /* members up to which all-to-all is a flow per pair */

/* Members and the nodes they form. A tier is inside a node when its name is made of parts that
 * begin with "nv" or "pci" ("nvlink-double", not "nvlink+rail"); on a topology without such names
 * when it is the fastest of several. Members in the same node are joined by such a tier to its
 * first member, or to any member of it when listed next to them, unless the topology has numbered
 * its nodes (topology_find_nodes()). So on a topology of one tier
 * every device is a node, unless it is called NVLink or PCIe. */
struct collective_group {
    const struct topology *topology; /* borrowed */
    size_t n;
    uint32_t *device; /* [n] of each member, owned */
    /* [n] permutation of the members for algorithms that care for nodes: node by node, with member
     * 0's first, and within a node as listed */
    uint32_t *order;
    size_t nodes;
    size_t *node_start;           /* [nodes + 1] into order */
    struct collective_grid *grid; /* NULL: not one; owned */
};

/* Members that are a block of the topology's grid (core/data/grid.h), or every so-many-th node of
 * one, with as many members in each node. Nodes are numbered row by row, the first dimension
 * fastest. */
struct collective_grid {
    size_t length[GRID_DIMENSIONS];
    bool ring[GRID_DIMENSIONS]; /* the last is next to the first; of 2: false */
    size_t nodes, each;         /* >= 2 nodes, of so many members */
    uint32_t *member;           /* [nodes * each] node by node, as listed; owned */
    uint32_t *node;             /* [n] of each member; owned */
};

/* devices [n] different devices of t, which must outlive the group. O(n + nodes * n) look-ups, O(n)
 * when the members of a node are listed side by side and nodes are few.
 * STATUS_INVALID: no device, one out of range; STATUS_NOMEM. */
enum status collective_group_make(const struct topology *t, const uint32_t *devices, size_t n,
                                  struct collective_group *out) MUST_CHECK;
void collective_group_free(struct collective_group *g); /* accepts {0}; leaves {0} */

/* Ways out of a node that the members share, not a whole number where a port is no multiple of what
 * leads to it: as many as the platform has, but not more than the smallest node has members; 1 on
 * one node. O(n). */
double collective_nics(const struct collective_group *g);

struct collective_flow {
    uint32_t from, to; /* members, different */
    double bytes;      /* > 0 */
};

/* Flows of a phase start together and are pipelined: none waits for another. The phase ends
 * latency_s after its last flow. */
struct collective_phase {
    double latency_s;
    double transfer_s;           /* of the flows when only this collective uses the network */
    size_t flow_start, flow_end; /* into flow */
};

enum collective_protocol {
    COLLECTIVE_IDEAL, /* latency and bandwidth as the topology says */
    COLLECTIVE_LL,
    COLLECTIVE_LL128,
    COLLECTIVE_SIMPLE,
    COLLECTIVE_PROTOCOLS
};

/* Phases follow one another. With one member or nothing to move all but `algorithm` is 0. */
struct collective_shape {
    const struct collective_algorithm *algorithm; /* the one used */
    enum collective_protocol protocol;
    bool lengthened; /* flows have more bytes than are moved, by what is attained */
    double seconds;  /* closed form: sum of latency_s + transfer_s over the phases */
    size_t phases;
    struct collective_phase *phase; /* [phases] owned */
    size_t flows;
    struct collective_flow *flow; /* [flows] owned */
};

struct collective_options {
    const char *algorithm; /* a name of collective_algorithms[]; NULL or "auto": as NCCL would;
                            * "fastest": for each collective the one that takes least */
    bool nccl_protocols;   /* NCCL's latencies and efficiencies instead of the topology's: the
                              closed form becomes NCCL's own estimate (ring and tree) */
    double nics;           /* ways out of a node that its members share: as many rings or tree
                              pairs, rounded up, run side by side, each through another member, and
                              what leaves or enters a node shares them. 0: one ring, a way for every
                              member */
    const struct steps_algorithm *steps; /* instead of all else for collectives of its kind and
                                            range of bytes among as many members; NULL: none */
    bool attained; /* true: device types whose platform says nothing of collectives attain what
                    * fabric_derive() says; false: the links' bandwidth */
};

/* A way to do collectives: core/collective/NAME.c defines collective_NAME, and algorithms.def there
 * has a line for it.
 * `shape` needs n >= 2, bytes > 0 and 1 <= channels <= the smallest node
 * (rings or tree pairs side by side); it fills phases (latency_s, flows) but neither transfer_s nor
 * seconds. */
struct collective_algorithm {
    const char *name, *summary;
    bool serves[COLLECTIVE_KINDS];
    bool equal_nodes; /* only where all nodes have as many members */
    bool neighbours;  /* only where the members are a grid */
    /* Into how many chunks a flow of so many bytes (the longest of the shape) is cut, which pass
     * through all phases as through a pipeline; NULL: a phase begins when the one before ends. */
    double (*chunks)(double bytes);
    size_t most; /* members; 0: any number */
    bool plain;  /* a fallback: taken where the algorithm asked for does not apply */
    enum status (*shape)(const struct collective_group *g, enum collective_kind kind, double bytes,
                         size_t channels, struct collective_shape *out);
    /* Seconds of the flows of a phase; NULL: those of its busiest port. */
    double (*transfer_s)(const struct collective_group *g, const struct collective_shape *s,
                         const struct collective_phase *phase);
};

#define COLLECTIVE(name) extern const struct collective_algorithm collective_##name;
#include "core/collective/algorithms.def"
#undef COLLECTIVE
extern const struct collective_algorithm *const collective_algorithms[]; /* [.._n] */
extern const size_t collective_algorithms_n;
/* What shapes are made by that follow options.steps: its name is "file", it has no shape of its own
 * and is not in the table. */
extern const struct collective_algorithm collective_file;
/* Are collectives of a kind and so many bytes among n members made by these steps? NULL: no. */
bool collective_follows(const struct steps_algorithm *steps, enum collective_kind kind,
                        int64_t bytes, size_t n);
extern const char *const collective_protocol_name[COLLECTIVE_PROTOCOLS]; /* "ideal", "LL", ... */

/* Names that options take: 0 is "auto", then those of the table, then NULL. */
const char *collective_name(size_t i);
/* *out NULL for "auto". STATUS_INVALID lists the known names. */
enum status collective_find(const char *name, const struct collective_algorithm **out) MUST_CHECK;
/* Can the algorithm do this kind of collective among these members? */
bool collective_applies(const struct collective_algorithm *a, const struct collective_group *g,
                        enum collective_kind kind);

/* Flows and closed form of one collective; options NULL: defaults. An algorithm that does not serve
 * the kind, or cannot here (hierarchical with nodes of different sizes), is replaced by the chosen
 * one: see out->algorithm. transfer_s of a phase is the largest of bytes / bandwidth over its
 * flows, and, for each device and direction, of the bytes over tiers of one bandwidth / that
 * bandwidth (they share a port). With measured curves or constants of collectives on the members'
 * devices (core/cost/fabric.h), and no algorithm asked for, flows and latencies are lengthened to
 * what these say of one alone. With nics the same is counted for each node of several, over nics
 * times the bandwidth. O(flows) time and memory: n to 4 n for rings and trees, times nics;
 * all-to-all n (n - 1) flows up to COLLECTIVE_PAIRS_MAX members, at most 8 n above. STATUS_INVALID:
 * unknown algorithm, bytes < 0; STATUS_NOMEM. */
enum status collective_shape_make(const struct collective_group *g, enum collective_kind kind,
                                  int64_t bytes, const struct collective_options *options,
                                  struct collective_shape *out) MUST_CHECK;
void collective_shape_free(struct collective_shape *s); /* accepts {0}; leaves {0} */

/* Which algorithm a collective gets, and what NCCL's table says about it. */
struct collective_choice {
    const struct collective_algorithm *algorithm;
    enum collective_protocol protocol; /* cheapest; COLLECTIVE_IDEAL: the table has none */
    double latency_s, transfer_s;      /* the table's estimate; 0 when it has none */
};
/* The algorithm of the options when it serves the kind here, else the cheapest by NCCL's public
 * cost table (all-to-all, gather, scatter: direct). Options NULL: defaults. O(n). STATUS_INVALID:
 * unknown algorithm, bytes < 0. */
enum status collective_choose(const struct collective_group *g, enum collective_kind kind,
                              int64_t bytes, const struct collective_options *options,
                              struct collective_choice *out) MUST_CHECK;

#endif
