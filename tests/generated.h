/* generated.h - a generated platform against arithmetic: what its file says, without the
 * simulator's help, and what both engines make of it. For the main thread of a test. */
#ifndef TESTS_GENERATED_H
#define TESTS_GENERATED_H

#include "core/data/program.h"
#include "core/data/topology.h"

enum { GENERATED_MESSAGE = 1000000000 };

extern char generated_path[]; /* of the file of the last generated() */

/* Write the platform that `spec` describes and read it. */
struct topology generated(const char *spec);
/* Rank i, on device i, sends GENERATED_MESSAGE bytes to rank to[i], if that is below t->n; all at
 * once. */
struct program generated_messages(const struct topology *t, const uint32_t *to);
/* Tier, latency and bandwidth between two devices, both ways, to 1e-9. */
void expect_between(const struct topology *t, const char *a, const char *b, const char *name,
                    double latency_s, double bandwidth_Bps);
/* The maximum flow from the first half of the devices to the second through the file's links. */
void expect_bisection(const struct topology *t, double bandwidth_Bps);
/* A message alone: latency + bytes / bandwidth on either engine. */
void expect_message(const struct topology *t, const char *a, const char *b, double latency_s,
                    double bandwidth_Bps);
/* Every GPU of the first half sends to its counterpart in the second: on either engine they share
 * what the ways between the halves carry together. */
void expect_halves(const struct topology *t, double latency_s, double together_Bps);

#endif
