/* goal_replay.h - GOAL text, read and replayed: an independent, slow reference for exports.
 *
 * For o = g = O = 0 and eager messages: an op starts when what it requires is done and its cpu is
 * free, a send when besides the NIC has sent what it sends. A message is there latency_ns +
 * (size - 1) byte_ns after its send began (ATLAHS: spcl/atlahs, sim/LogGOPSim at 350e929). With
 * `receiver_busy` its first byte is there after latency_ns, and then it holds the receiver's cpu
 * for (size - 1) byte_ns (LogGOPSim: spcl/LogGOPSim at d5bb14a). */
#ifndef TESTS_GOAL_REPLAY_H
#define TESTS_GOAL_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

struct goal_rules {
    double latency_ns, byte_ns;
    bool receiver_busy;
};

struct goal_result {
    size_t ranks, calcs, sends, recvs;
    double seconds; /* when the last op was done */
};

/* Fails the test when a line is not GOAL, a label not known, or something never runs. */
struct goal_result goal_replay(const char *text, const struct goal_rules *rules);

#endif
