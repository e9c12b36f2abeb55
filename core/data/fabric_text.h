/* fabric_text.h - what is known of collectives between devices of a type, curves and a model's
 * constants, and the same as properties of a platform file (docs/reference/topologies.md).
 * core/cost/fabric.h says what they mean. */
#ifndef CORE_DATA_FABRIC_TEXT_H
#define CORE_DATA_FABRIC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

/* In the order of enum collective_kind (core/collective/collective.h); then messages. */
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
    double nic;        /* share of the bandwidth between two nodes, */
    double doubling;   /* and of that at each doubling of their number; 0: all of it */
    double hop_s;      /* from node to node */
    double reduce; /* share of the links' bandwidth that sums in the switch attain; 0: it cannot */
};

/* What is between nodes of the network called so (fabrics.def), into *m. False: none is. */
bool fabric_named(const char *name, struct fabric_model *m);
const char *fabric_name(size_t i); /* NULL behind the last one */

/* ---- as properties of a platform
 *
 * A curve is <prop id="curve:all-reduce:8x8" value="1MiB@30us 4MiB@52us"/>, kind, members x members
 * of a node and perhaps ":tier"; the model <prop id="collectives" value="start=25us share=0.98
 * ..."/>. "fabric=NAME" stands for nic, doubling and hop; without share what is inside of nodes is
 * derived of the type. STATUS_PARSE: one line. */
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
