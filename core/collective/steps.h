/* steps.h - an algorithm of a collective that is given step by step, as files of MSCCL give it
 * (topologies/msccl.h): executed once with sets of contributions for numbers, which shows whether
 * every rank ends with what the collective promises, and what goes over which way when.
 *
 * Every rank has blocks, whose steps follow one another, and three buffers of chunks. A block sends
 * to one rank and receives from one, over a channel; what it sends comes in order. Before a step a
 * block may wait for a step of another block of its rank. */
#ifndef CORE_COLLECTIVE_STEPS_H
#define CORE_COLLECTIVE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/collective_kind.h"

enum {
    STEPS_RANKS = 1024,
    STEPS_BLOCKS = 1024,    /* of a rank */
    STEPS_CHUNKS = 1 << 20, /* of all buffers of all ranks, and of all messages */
    STEPS_WORDS = 1 << 23   /* of the sets of these, 64 bits each */
};
#define STEPS_NONE UINT32_MAX

enum steps_buffer { STEPS_INPUT, STEPS_OUTPUT, STEPS_SCRATCH, STEPS_BUFFERS };

enum steps_type {
    STEPS_NOP,
    STEPS_SEND, /* source */
    STEPS_RECV, /* to target */
    STEPS_RECV_COPY_SEND,
    STEPS_RECV_REDUCE_SEND,      /* source + what comes */
    STEPS_RECV_REDUCE_COPY,      /* the same to target */
    STEPS_RECV_REDUCE_COPY_SEND, /* both */
    STEPS_COPY,                  /* source to target */
    STEPS_REDUCE,                /* source to what is in target */
    STEPS_TYPES
};

struct steps_place {
    uint8_t buffer; /* enum steps_buffer */
    uint32_t chunk;
};

struct steps_step {
    uint8_t type; /* enum steps_type */
    bool told;    /* others may wait for it */
    struct steps_place source, target;
    uint32_t count;                 /* chunks, side by side; >= 1 */
    uint32_t wait_block, wait_step; /* of the same rank, numbers there; STEPS_NONE: nothing */
    size_t line;                    /* of the file */
};

struct steps_block {
    uint32_t rank, send, recv, channel; /* STEPS_NONE: to or from nobody */
    size_t first, end;                  /* into step */
    size_t line;
};

struct steps_flow {
    uint32_t from, to;
    double chunks;
};

struct steps_algorithm {
    char *path, *name; /* owned */
    uint8_t kind;      /* enum collective_kind */
    bool in_place;     /* input and output are one buffer, or one is a part of the other */
    uint32_t ranks;    /* 2 .. STEPS_RANKS */
    uint32_t chunks;   /* the buffer of collective.h's `bytes` is so many */
    int64_t least_bytes, most_bytes; /* used for; most 0: any */
    uint32_t *scratch;               /* [ranks] chunks of it */
    size_t *block_start;             /* [ranks + 1] */
    struct steps_block *block;       /* [block_start[ranks]] rank by rank */
    size_t steps;
    struct steps_step *step; /* [steps] */
    /* what steps_check() fills in: flows that may go at the same time, one after another */
    size_t phases;
    size_t *phase_start;     /* [phases + 1] into flow */
    struct steps_flow *flow; /* sorted within a phase, each way once */
};

/* Execute the steps, in two orders of the blocks, and fill in phases and flows: a message is in the
 * phase after the last message that its block has received, or learned of by waiting. Needs all
 * else in place. O(steps + chunks sent * ranks / 64), and for each step those who wait for its
 * block. STATUS_PARSE with line, or rank and chunk: a chunk that is not there, or has nothing; a
 * sum that has a contribution twice; a message that nobody receives; blocks that wait for ever; a
 * rank that ends without something. STATUS_NOMEM. */
enum status steps_check(struct steps_algorithm *a) MUST_CHECK;
void steps_free(struct steps_algorithm *a); /* accepts {0}; leaves {0} */

#endif
