/* calibrate_run.h - calibration inside: what is measured, and the memory that ranks share.
 *
 *   calibrate.c       fork the ranks, collect, make a topology of the medians
 *   calibrate_ops.c   one rank's compute: layers, optimizers, memory
 *   calibrate_link.c  one rank's messages: ping-pong over the TCP transport
 *
 * All ranks go through the same list of figures together: before each they wait for one another, so
 * that every op is measured while the other ranks do the same. */
#ifndef EXEC_CALIBRATE_RUN_H
#define EXEC_CALIBRATE_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/model.h"

/* A layer to measure; also the size of an optimizer step. */
struct probe {
    const char *kind; /* of a layer; "adam", "sgd": `channels` is the number of parameters */
    int64_t tokens, channels; /* linear: channels in */
    int64_t out;              /* linear: channels out */
    int64_t heads;            /* attention */
    size_t batch;
};

extern const struct probe probes[];
extern const size_t probes_n;

/* Op of a model as the zoo makes it (docs/models.md), without a name; `attribute` has room for
 * PROBE_ATTRIBUTES and is borrowed by *op, as is the kind. */
enum { PROBE_ATTRIBUTES = 4 };
void probe_describe(const struct probe *p, struct model_attribute *attribute, struct model_op *op);
/* FLOP of one call. */
double probe_flop(const struct probe *p, bool backward);

/* What is measured: figure 2 k is probe k forward (or the update), 2 k + 1 backward; then these. */
enum { FIGURE_COPY, FIGURE_LAUNCH, FIGURES_MORE };
enum { COPY_BYTES = 32 << 20 }; /* of each of the two arrays */

enum { LINK_SIZES = 7 };
extern const int64_t link_sizes[LINK_SIZES]; /* bytes of the messages */

/* In memory that all ranks share. */
struct bench {
    size_t ranks, repeats;
    bool progress;
    pthread_barrier_t together;
    char message[1024]; /* of a rank that failed */
    enum status st;
    /* Seconds: of a call [figure][rank][repeat]; one way [pair][size][repeat], pairs (0, 1),
     * (0, 2), ... in this order. */
    double *call_s, *way_s;
};

static inline size_t figures_n(void)
{
    return 2 * probes_n + FIGURES_MORE;
}
static inline double *calls_of(const struct bench *b, size_t figure, size_t rank)
{
    return b->call_s + (figure * b->ranks + rank) * b->repeats;
}
static inline double *ways_of(const struct bench *b, size_t pair, size_t size)
{
    return b->way_s + (pair * LINK_SIZES + size) * b->repeats;
}

enum status bench_ops(struct bench *b, size_t rank) MUST_CHECK;
/* listener and port [ranks]: everyone's, opened before the ranks were forked. */
enum status bench_links(struct bench *b, uint32_t rank, const int *listener,
                        const uint16_t *port) MUST_CHECK;

#endif
