/* measurement.h - what a run was like, whatever produced it: one structure for engines and reality.
 *
 * Per rank, time splits into busy (compute), exposed communication (not computing, while a message
 * or collective that the next compute op, or the end, waits for is in flight) and idle (the rest:
 * bubbles); busy + exposed + idle = iteration.
 *
 * A program without flush (program.h: asynchronous) is a window of an endless stream: its iteration
 * is its microbatches at the steady pace, filling and draining left out. */
#ifndef CORE_DATA_MEASUREMENT_H
#define CORE_DATA_MEASUREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/data/program.h"

struct plan;
struct provenance;
struct steady;
struct topology;

/* When each op of a program ran, in seconds from the start of the iteration; index = op index.
 * RECV: from the start of its SEND to the arrival of the last byte. */
struct timeline {
    size_t n;
    double *start_s, *end_s; /* [n] */
    /* Of a real run on this machine: which step this was, and when it started by CLOCK_MONOTONIC
     * and by CLOCK_REALTIME (Unix time); 0: not known. */
    uint32_t step;
    double monotonic_s, unix_s;
};

struct measured_rank {
    char *name;
    uint32_t stage; /* its (first) stage */
    double busy_s, exposed_comm_s, idle_s;
    double update_s;               /* of busy_s: the optimizer */
    double exposed_s[OP_PURPOSES]; /* of exposed_comm_s, by purpose */
    int64_t peak_bytes;
    char *peak_at; /* label of the op at which memory is fullest; owned, NULL if not known */
    /* What the program expects the peak to be made of; of simulations the sum is peak_bytes. */
    int64_t weight_bytes, gradient_bytes, state_bytes, stash_bytes, scratch_bytes;
    int64_t host_bytes;   /* in the host's memory, besides */
    int64_t memory_bytes; /* of its device; 0: not known */
    /* device_reserve() of it, where a prediction has just been made; 0: nothing is said */
    int64_t reserve_bytes;
    size_t losses;
    double *loss; /* [losses] mean loss of each step over the samples that this rank has seen; empty
                   * where it has no loss, and of predictions */
};

/* Messages or collectives alike in purpose, kind, size and number of members. */
struct measured_call {
    uint8_t purpose, kind; /* enum op_purpose; OP_SEND or a collective */
    uint32_t members;      /* 2 of a message */
    int64_t bytes;         /* as nccl-tests count them (core/collective/collective.h) */
    double calls, seconds; /* per iteration: how many, and what they took together, each from when
                            * all its members were ready */
    char *algorithm;       /* owned; NULL: not known, or a message */
};

/* What a rank of a captured script does for a module and a phase: computes, or waits for
 * communication that was issued behind the module's operators. */
struct measured_site {
    char *module;     /* its path with numbers as '*': "blocks.*.up"; "": of none */
    uint8_t phase;    /* enum op_phase */
    uint8_t kind;     /* OP_COMPUTE, OP_SEND (of both ends), a collective */
    uint32_t members; /* of the group; 2 of messages, 0 of compute */
    double calls;     /* per iteration, mean of the ranks; of compute operators */
    double bytes;     /* ... of communication, together */
    double seconds;   /* ... of compute; of communication what compute or the end waits for */
};

/* Where the tokens of an op of experts went in a real run, warm-up included. */
struct measured_experts {
    char *op;
    double imbalance; /* rows of the busiest expert over the mean */
    size_t experts, spreads;
    double *rows; /* [experts] choices that it has taken */
    /* [spreads] [k]: were they spread over 2 << k ranks, rows of the busiest of these over the
     * mean, on average over all exchanges: what --expert-imbalance says */
    double *busiest;
};

struct measured_link {
    char *name;
    double bytes;         /* per iteration */
    double busy_fraction; /* bytes / (bandwidth * iteration) */
};

/* The GPU of a rank, in runs that have any (exec/hardware.h says what the texts are). */
struct measured_gpu {
    uint32_t rank, index; /* as CUDA counts those of its machine */
    char *machine, *name, *uuid, *bus, *peers;
    int64_t memory_bytes;
};

/* What drives the GPUs of rank 0, or multiplies on its CPU; all NULL: not known. */
struct measured_software {
    char *driver, *cuda_driver, *cuda, *cublas, *nccl;
    char *blas;     /* "OpenBLAS 0.3.21, SkylakeX kernels" */
    char *settings; /* variables of the environment that NCCL and CUDA look at, "NAME=VALUE ..." */
};

/* How far off such predictions were (study/expected.h); runs 0: nobody knows. */
struct measured_expectation {
    double median, nine_in_ten; /* half of the errors are at most this, nine in ten that */
    size_t runs;
    char *of; /* which runs */
};

struct measurement {
    char *engine;      /* "analytic", "simgrid", "tcp", ... */
    char *framework;   /* whose times these are; NULL: foreline, as of real runs */
    char *plan;        /* path of the plan from the current directory; in a file an absolute one
                        * becomes relative to that file (core/base/path.h) */
    char *plan_sha256; /* of the plan file */
    char *model, *platform;
    double iteration_s; /* median of iterations_s */
    size_t iterations;
    double *iterations_s;               /* [iterations] all of them, warm-up excluded */
    double samples_per_s, tokens_per_s; /* tokens 0 where it does not apply */
    double bubble_fraction;             /* sum of idle_s / (ranks * iteration_s) */
    double flops;      /* what all devices could do at the speeds that the platform states */
    double peak_flops; /* nominal, of the model's type of numbers; 0: not known */
    double mfu, hfu; /* the model's FLOP, and with those made again, over the nominal peak, or over
                        * `flops` where that is not known; 0: not known */
    bool
        mask_subtracted; /* from these FLOP: the model's attention skips what a causal mask hides */
    double watts, price_per_hour;     /* of all devices together; 0: not known */
    uint32_t microbatches, simulated; /* of the iteration; as many were simulated, the rest follows
                                       * from the periodic middle: evaluate_plan() */
    char *not_folded;         /* why a long run was simulated in full; owned, NULL: it was not */
    uint32_t ranks_simulated; /* the others are alike by proof; 0: all were */
    char *ranks_not_folded;   /* why those of a large plan were all simulated; owned */
    size_t ranks;
    struct measured_rank *rank; /* [ranks] */
    size_t links;
    struct measured_link *link; /* [links] busiest first; empty when not known */
    size_t calls;
    struct measured_call *call; /* [calls] most seconds first; empty when not known */
    size_t sites;
    struct measured_site *site; /* [sites] most seconds first; of captured scripts */
    size_t expert_ops;
    struct measured_experts *expert; /* [expert_ops] in the model's order; real runs only */
    double cpu_s;
    size_t losses;
    double *loss; /* [losses] mean loss of each step; real runs only */
    /* [precisions_1], [precisions_5] part of a step's targets that the model thought likeliest, and
     * that were among its five likeliest; not always known */
    size_t precisions_1, precisions_5;
    double *precision_1, *precision_5;
    bool forward_only;       /* nothing was trained */
    bool captured;           /* of a script: a sample is a step */
    char *parameters_sha256; /* NULL unless a real run */
    size_t gpus;
    struct measured_gpu *gpu; /* [gpus] by rank */
    struct measured_software software;
    struct measured_expectation expected;        /* of predictions only */
    struct measured_expectation expected_memory; /* of their peaks: a median alone */
    size_t warnings;
    char **warning; /* [warnings] one line each */
};

enum status timeline_init(struct timeline *t, size_t ops) MUST_CHECK;
void timeline_free(struct timeline *t);

/* Of a real run, where t has each rank's own times: a RECV begins with its SEND and a collective
 * with its last member. Ranks count from their own start of the step, a little apart, so what ended
 * before that moment takes no time; nothing takes a negative one. */
void timeline_join(const struct program *p, struct timeline *t);

/* Seconds of one iteration: the end of the last op; without flush, the steady pace. *settled: the
 * program is long enough for that (always true with flushes). */
double timeline_iteration(const struct program *p, const struct timeline *t, bool *settled);

/* Fill iteration_s, iterations_s (one), rates, bubble_fraction and ranks of *out (which must be {0}
 * or hold only strings) from a timeline of one iteration. Peaks come from program_peak().
 * STATUS_INVALID names an op whose times are not finite. */
enum status measurement_from_timeline(const struct program *p, const struct timeline *t,
                                      struct measurement *out) MUST_CHECK;
/* Replace the iteration times: *out keeps a copy; recomputes the median and the rates, and scales
 * nothing else. */
enum status measurement_set_iterations(struct measurement *out, const struct program *p,
                                       const double *iterations_s, size_t n) MUST_CHECK;
/* Make of the measurement of an iteration that of one whose steady middle (steady.h) recurs `times`
 * more often, with `unit` microbatches each time: times, rates and what the ranks did. */
enum status measurement_repeat(struct measurement *m, const struct program *p,
                               const struct timeline *t, const struct steady *s, uint32_t unit,
                               uint32_t times) MUST_CHECK;
/* Add to the bytes of each link of *m `times` what *m has more than *shorter, as links carry
 * equally much for every microbatch. Sorts the links of *shorter by name. */
void measurement_repeat_links(struct measurement *m, struct measurement *shorter, double times);
/* Extrapolate, without proof: *m, measured of program *p, becomes the measurement of a program with
 * `times` x `unit` microbatches more. *shorter has `unit` microbatches less than *m and the same
 * ranks; what *m has more than *shorter is added `times` times. Peaks stay, links are dropped.
 * O(ranks). STATUS_NOMEM. */
enum status measurement_go_on(struct measurement *m, const struct measurement *shorter,
                              const struct program *p, uint32_t unit, uint32_t times) MUST_CHECK;
void measurement_drop_links(struct measurement *m);
/* Make of the measurement of a folded program that of the whole one: every rank of the plan gets
 * what its stage's only rank did, with the name of its own device, and the peak at its own
 * microbatch. The rest of a folded program's measurement is of the whole one already: rates, links,
 * and calls, which count all copies. */
enum status measurement_unfold(struct measurement *m, const struct program *p,
                               const struct plan *plan, const struct topology *t) MUST_CHECK;
/* The calls of a recurrence, `times` more often. */
enum status measurement_repeat_calls(struct measurement *m, const struct program *p,
                                     const struct timeline *t, const struct steady *s,
                                     double times) MUST_CHECK;
/* Fill calls of *out from a timeline. O(ops * distinct calls). */
enum status measurement_add_calls(struct measurement *out, const struct program *p,
                                  const struct timeline *t) MUST_CHECK;
/* For each op of communication how long its rank's compute, or the end of the iteration, waits for
 * it: over a rank's ops they add up to its exposed_comm_s.
 *   exposed_s  [p->ops] */
enum status measurement_exposed_ops(const struct program *p, const struct timeline *t,
                                    double *exposed_s) MUST_CHECK;
/* Most seconds first. */
void measurement_sort_calls(struct measurement *m);
/* Same purpose, kind, size and number of members. */
bool measured_calls_alike(const struct measured_call *a, const struct measured_call *b);
/* Seconds of one call; its size over them, and that times nccl-tests' bus factor: bytes per
 * second, 0 when it took no time. */
double measured_call_seconds(const struct measured_call *c);
double measured_call_algbw(const struct measured_call *c);
double measured_call_busbw(const struct measured_call *c);
/* What calls there are, and their names: "send", "all-reduce", ... */
enum { MEASURED_CALLS = 10 };
extern const char *const measured_call_names[MEASURED_CALLS];
extern const uint8_t measured_call_kinds[MEASURED_CALLS]; /* enum op_kind */
const char *measured_kind_name(uint8_t kind);
const char *measured_call_name(const struct measured_call *c);
/* Index of the rank with the least memory left, or that lacks most; m->ranks when none is known. */
size_t measurement_fullest(const struct measurement *m);
/* Ranks that need more memory than their device has. */
size_t measurement_overfull(const struct measurement *m);
/* Sort links by busy fraction, busiest first. */
void measurement_sort_links(struct measurement *m);
enum status measurement_warn(struct measurement *m, const char *fmt, ...)
    PRINTF_LIKE(2, 3) MUST_CHECK;

/* "8 x NVIDIA H100 80GB HBM3; driver 580.82.07, CUDA 13.0, cuBLAS 13.0.2, NCCL 2.28.9;
 * NCCL_ALGO=Ring": what the run was made on, "" without GPUs. Returns `text`; what does not fit is
 * cut off. */
enum { MEASURED_HARDWARE = 2048 };
const char *measurement_hardware(const struct measurement *m, char text[MEASURED_HARDWARE]);

enum status measurement_read(const char *path, struct measurement *out) MUST_CHECK;
enum status measurement_write(const struct measurement *m, const char *path,
                              const struct provenance *by) MUST_CHECK;
/* The same document to a stream; its plan's path stays as it is. */
void measurement_print(const struct measurement *m, const struct provenance *by, FILE *to);
void measurement_free(struct measurement *m); /* accepts {0}; leaves {0} */

/* Least common multiple of two numbers above 0, small enough for it. */
uint64_t common_multiple(uint64_t a, uint64_t b);

#endif
