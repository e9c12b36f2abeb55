/* family.h - platforms by a few numbers: one file and one line of families.def per family. */
#ifndef TOPOLOGIES_FAMILY_H
#define TOPOLOGIES_FAMILY_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/data/paths.h"
#include "topologies/catalogue.h"

enum family_kind {
    FAMILY_COUNT,  /* whole number, min to max */
    FAMILY_FACTOR, /* real number, min to max */
    FAMILY_RATE,   /* bytes per second, "400Gbps" */
    FAMILY_TIME,   /* seconds, "10ms" */
    FAMILY_GPU,    /* a name of the catalogue */
    FAMILY_PATHS,  /* a policy: number is an enum paths_policy */
    FAMILY_FABRIC, /* a network of core/data/fabrics.def: number is its place there, from 1 */
    FAMILY_TEXT,   /* small letters, digits, + and -: `text`, which the family's check reads */
};

enum { FAMILY_TEXT_SIZE = 8192 };

struct family_parameter {
    const char *name, *help;
    enum family_kind kind;
    const char *preset; /* as one would type it; NULL: what comes with the GPU type, or nothing */
    double min, max;    /* of counts and factors */
};

/* A parameter's value: `number`; `gpu` of FAMILY_GPU; `text` of FAMILY_TEXT. One without preset is
 * 0, or "". */
struct family_value {
    double number;
    const struct gpu *gpu;
    char text[FAMILY_TEXT_SIZE];
};

enum { FAMILY_PARAMETERS = 16 };

struct topology_family {
    const char *name, *summary;
    size_t parameters;
    const struct family_parameter *parameter; /* [parameters] */
    size_t (*devices)(const struct family_value *value);
    /* Do the values go together? STATUS_INVALID; NULL: always. */
    enum status (*check)(const struct family_value *value);
    /* The first line of the file's comment, without line break. */
    void (*describe)(const struct family_value *value, FILE *to);
    /* The properties of the zone, then hosts, routers and links, then routes: SimGrid's order. */
    void (*write)(const struct family_value *value, FILE *to);
};

#define FAMILY(name) extern const struct topology_family family_##name;
#include "topologies/families.def"
#undef FAMILY

/* ---- pieces of platform files, for families */

/* The ways up that the parameters spines, uplinks and paths of a family say, 0 where they do not:
 * cables from a leaf to each of so many switches. */
struct family_ways {
    size_t switches, cables; /* 0: one link as wide as all */
    enum paths_policy policy;
};
struct family_ways family_ways(const struct family_value *spines,
                               const struct family_value *uplinks,
                               const struct family_value *policy);
/* STATUS_INVALID: uplinks that cannot be divided among the spines, too many, or a policy without
 * anything to choose from. */
enum status family_check_ways(const char *family, const struct family_value *spines,
                              const struct family_value *uplinks,
                              const struct family_value *policy) MUST_CHECK;
/* The zone's property, behind those of the GPU. */
void put_paths(FILE *to, enum paths_policy policy);
/* "16 spines", or "spines". */
void describe_spines(FILE *to, const struct family_ways *w);
/* Rows of parameters that several families have. */
#define FAMILY_SPINES                                                                              \
    {                                                                                              \
        "spines", "spine switches, with cables to every leaf", FAMILY_COUNT, NULL, 1,              \
            PATHS_LANES_MAX                                                                        \
    }
#define FAMILY_UPLINKS                                                                             \
    {                                                                                              \
        "uplinks", "cables up from a leaf, as many to each spine (with spines: one)",              \
            FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX                                                 \
    }
#define FAMILY_POLICY                                                                              \
    {                                                                                              \
        "paths", "which of its paths a flow takes: ideal, ecmp, spray, adaptive, ...",             \
            FAMILY_PATHS, NULL, 0, 0                                                               \
    }
#define FAMILY_FABRICS                                                                             \
    {                                                                                              \
        "fabric", "network between nodes: infiniband, roce, efa, slingshot, ...", FAMILY_FABRIC,   \
            NULL, 0, 0                                                                             \
    }

/* One end of a full-duplex cable or port: its tier's name may be NULL. */
struct cable {
    const char *tier;
    double bandwidth_Bps, latency_s;
};
/* Half the latency of one step through NVLink and a network port, from NCCL's tuning; the switch
 * and software included. What each further switch adds. */
extern const double nvlink_latency_s, nic_latency_s, switch_latency_s;

/* Properties of the zone: device type, memory, launch overhead. */
void put_gpu_properties(FILE *to, const struct gpu *gpu);
/* GPUs nNg0, nNg1, ... of node N and, if there are several, its NVSwitch "nN" with their links; in
 * the second function the routes to it, which must stand after everything else. */
void put_node(FILE *to, size_t node, size_t gpus_per_node, const struct gpu *gpu,
              double nvlink_Bps);
void put_node_routes(FILE *to, size_t node, size_t gpus_per_node);
/* Nodes with any number of network ports: each port is shared by as many GPUs, in their order, and
 * every GPU has PCIe lanes of its own to it. */
struct cluster_node {
    size_t gpus, nics; /* nics >= 1 divides gpus */
    const struct gpu *gpu;
    double nvlink_Bps, nic_Bps;
    bool mesh; /* NVLink from each GPU to each other, nvlink_Bps a pair, instead of a switch */
};
/* From parameters; nvlink_Bps and nic_Bps may be 0: the type's. Ports that do not divide the GPUs
 * become the next number that does. */
struct cluster_node cluster_node(double gpu_count, double nics, double mesh,
                                 const struct family_value *type, double nvlink_Bps,
                                 double nic_Bps);
/* What all ports of a node carry. */
double cluster_node_Bps(const struct cluster_node *c);
void put_cluster_node(FILE *to, const struct cluster_node *c, size_t node);
/* Routes inside the node and from its GPUs to `network`, a router: two links each. */
void put_cluster_routes(FILE *to, const struct cluster_node *c, size_t node, const char *network);
/* "leaf3": what a route is from, to and over. */
struct topology_name {
    char id[64];
};
struct topology_name named(const char *format, ...) PRINTF_LIKE(1, 2);
/* A route of one link, taken upwards from a to b. */
void put_route(FILE *to, const char *a, const char *b, const char *link);
/* "16 nodes x 8 H100, 8 NICs of 400 Gb/s a node" */
void describe_cluster(FILE *to, const struct cluster_node *c, size_t nodes);

void put_cable(FILE *to, const struct cable *c, const char *id_format, ...) PRINTF_LIKE(3, 4);
/* Cables side by side, which have the bandwidth together. */
void put_bundle(FILE *to, const struct cable *c, const struct family_ways *ways, const char *id);

#endif
