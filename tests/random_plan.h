/* random_plan.h - seeded random models, and plans of them whose replicas and shards are alike, for
 * property tests. Everything aborts on failure: tests only. */
#ifndef TESTS_RANDOM_PLAN_H
#define TESTS_RANDOM_PLAN_H

#include <stdint.h>

#include "core/data/model.h"
#include "core/data/plan.h"

/* The next of a sequence that the state fixes (splitmix64), below n. */
uint32_t random_below(uint64_t *state, uint32_t n);

/* A chain of 8 ops of random work and sizes, some divided by tensor parallelism, some with experts,
 * the last one perhaps with the first one's weights. */
struct model random_model(uint64_t *state);

/* A plan of it on at most `devices` devices, side by side or scattered: 1 to 4 teams of 1 or 2
 * stages, replicas, shards (of some teams fewer), a schedule, ZeRO, buckets, sequence parallelism,
 * recomputation and spread experts. Not every combination means something: plan_lower() may say
 * STATUS_UNSUPPORTED or STATUS_INVALID. */
struct plan random_plan(uint64_t *state, const struct model *m, uint32_t devices);

/* "zb-h1 of 2 stages x 4 replicas x 2 shards, 16 microbatches, ZeRO 1, ..."; returns `text`. */
enum { RANDOM_PLAN_TEXT = 256 };
const char *random_plan_print(const struct plan *p, char text[RANDOM_PLAN_TEXT]);

#endif
