/* paths.h - parallel links, and the policy by which a flow takes one of them.
 *
 * A link of a topology may be a bundle: cables of one bandwidth, its lanes, to several switches
 * that lead to the same places, with as many cables to each. Lanes are numbered switch by switch,
 * and lane l of the bundle up to a level of switches meets lane l of a bundle down from it. So a
 * path is one number h in [0, 1): of a bundle to n switches it takes number floor(h * n). Where the
 * switches above have switches above them, those have a multiple of n lanes, and paths nest. */
#ifndef CORE_DATA_PATHS_H
#define CORE_DATA_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum { PATHS_LANES_MAX = 4096 }; /* of a bundle */

enum paths_policy {
    PATHS_UNSAID,   /* of a platform: IDEAL; of options: as the platform says */
    PATHS_IDEAL,    /* a bundle is one link of all lanes' bandwidth */
    PATHS_ECMP,     /* a hash of sender, receiver and queue pair */
    PATHS_SPRAY,    /* every flow is spread evenly over all lanes that it can use */
    PATHS_ADAPTIVE, /* the path that is least loaded when a flow starts */
    PATHS_VALIANT,  /* a detour around every link that has any, by a hash; lanes as ECMP */
    PATHS_UGAL,     /* when a flow starts, the path of ECMP or that of VALIANT */
    PATHS_POLICIES
};

/* Word i of "ideal", "ecmp", ...; NULL behind the last. */
const char *paths_word(size_t i);
static inline const char *paths_name(enum paths_policy p)
{
    return p == PATHS_UNSAID ? "ideal" : paths_word((size_t)p - 1);
}
/* Does a hash decide, so that a prediction is one of many? */
static inline bool paths_are_hashed(enum paths_policy p)
{
    return p == PATHS_ECMP || p == PATHS_VALIANT || p == PATHS_UGAL;
}
/* By detours, which need no bundles? */
static inline bool paths_lead_around(enum paths_policy p)
{
    return p == PATHS_VALIANT || p == PATHS_UGAL;
}
/* Does every flow have a path of its own? */
static inline bool paths_are_apart(enum paths_policy p)
{
    return paths_are_hashed(p) || p == PATHS_ADAPTIVE;
}
/* Does what flies already decide? */
static inline bool paths_adapt(enum paths_policy p)
{
    return p == PATHS_ADAPTIVE || p == PATHS_UGAL;
}
/* STATUS_INVALID lists the names. */
enum status paths_find(const char *name, enum paths_policy *out) MUST_CHECK;

struct faults;

/* How flows of a simulation choose. */
struct paths_options {
    enum paths_policy policy; /* UNSAID: as the platform says */
    size_t queue_pairs;       /* flows of a connection over bundles, which share its bytes equally;
                               * 0: one. Of paths that are apart */
    uint64_t seed;            /* of the hash */
    const struct faults *faults; /* of lanes; NULL: none. No flow takes one that has failed */
    /* A number in [0, 1) instead of the hash, for tests; NULL: the hash. */
    double (*hash)(const void *context, uint32_t from, uint32_t to, size_t queue_pair);
    const void *context;
};

/* "16": a cable to each of 16 switches; "16x2": two to each. False: no such text, or more than
 * PATHS_LANES_MAX in all. */
bool paths_parse_lanes(const char *text, uint32_t *lanes, uint32_t *cables);

#endif
