/* noise.h - what a strategy loses that was searched with wrong numbers. */
#ifndef PAPERS_HIDUP_NOISE_H
#define PAPERS_HIDUP_NOISE_H

#include "papers/hidup/search.h"

struct spmd_noise {
    double share;     /* of every node's work and every number of the profile: U(-share, share) */
    double bandwidth; /* bandwidths are believed to be so many times as high */
    size_t samples;
    uint64_t seed;
};

/* Times of the strategies found under noise, under the true numbers, over that of the true one:
 * >= 1, as both are in the same space. */
struct spmd_loss {
    double mean, worst, least;
    size_t samples; /* fewer than asked for when there was a stop */
};
/* The published experiment has noise on the number of devices too; so does this with compat.
 * q is the search with the true numbers, `true_s` what its strategy takes. */
enum status spmd_noise(const struct spmd_search *q, const struct spmd_noise *noise, double true_s,
                       struct spmd_loss *out) MUST_CHECK;

#endif
