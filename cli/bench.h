/* bench.h - ways of `foreline bench` that have a file of their own; cmd_bench.c calls them. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/command.h"

enum status bench_algorithms(struct invocation *in) MUST_CHECK; /* simulated collectives */
enum status
bench_real_collectives(struct invocation *in) MUST_CHECK;     /* real ones, on this machine */
enum status bench_network(struct invocation *in) MUST_CHECK;  /* fluid, packets, emulated */
enum status bench_overlap(struct invocation *in) MUST_CHECK;  /* a product beside a copy */
enum status bench_shards(struct invocation *in) MUST_CHECK;   /* what strategies of shards cost */
enum status bench_tradeoff(struct invocation *in) MUST_CHECK; /* memory against communication */

#endif
