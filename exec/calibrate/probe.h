/* probe.h - calibration inside: what is measured, and where its numbers lie (README.md: by whom).
 *
 * All ranks go through the same list of figures together: before each they wait for one another, so
 * that every op is measured while the other ranks do the same. */
#ifndef EXEC_CALIBRATE_PROBE_H
#define EXEC_CALIBRATE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/calibrate/calibrate.h"
#include "exec/device/backend.h"
#include "exec/device/layer.h"
#include "exec/rendezvous.h"
#include "exec/transport.h"

enum { CALIBRATE_REPEATS = 10000 };

struct bench;

/* A layer to measure; also the size of an optimizer step. */
struct probe {
    const char *kind; /* of a layer; "flash": attention that is; "adam", "sgd": `channels` is the
                       * number of parameters */
    int64_t tokens, channels; /* linear: channels in */
    int64_t out;              /* linear: channels out; experts: inside */
    int64_t heads;            /* attention, rope; gate, experts: how many experts */
    size_t batch;
    const struct layer *layer; /* of a model, which says all that (shapes.c); NULL: not, */
    double flop[2];            /* and then of a call forward and backward */
};

#define PROBE(name, rows, wide, outputs, many, samples)                                            \
    {                                                                                              \
        .kind = (name), .tokens = (rows), .channels = (wide), .out = (outputs), .heads = (many),   \
        .batch = (samples)                                                                         \
    }

/* Op of a model as the zoo makes it (docs/reference/models.md), without a name; `attribute` has
 * room for PROBE_ATTRIBUTES and is borrowed by *op, as is the kind. */
enum { PROBE_ATTRIBUTES = 10 };
void probe_describe(const struct probe *p, struct model_attribute *attribute, struct model_op *op);
/* FLOP of one call. */
double probe_flop(const struct probe *p, bool backward);
bool probe_updates(const struct probe *p); /* an optimizer step */
/* The layer that the CPU device makes of it. */
enum status probe_layer(const struct probe *p, struct layer *out) MUST_CHECK;

/* What is measured: of probe k, figure 2 k is forward (or the update), 2 k + 1 backward; then
 * those below. Tests take less of everything. */
struct bench_task {
    size_t probes, sizes;
    const struct probe *probe; /* [probes] those of a kind side by side, ascending work */
    const int64_t *size;       /* [sizes] of messages and collectives: bytes, ascending */
    size_t copy_bytes;         /* of each of two arrays */
    bool gpus;                 /* ranks have GPUs: more collectives, of parts of the ranks too, and
                                * what they do to ops beside them */
};
/* The task for GPUs with the ops of a model in the place of the usual ones: each different one,
 * whole and as 2, 4 and 8 shards have it where it can be divided; and sizes up to `largest` bytes.
 *   m        NULL: the usual ops. Stays alive as long as the task.
 *   batch    samples of a microbatch of it, >= 1
 *   largest  >= 1 KiB; also of arrays that are copied
 * STATUS_NOMEM, STATUS_INVALID: an op that the CPU device does not compute. */
struct bench_shapes {
    struct bench_task task;
    struct probe *probe; /* owned */
    struct layer *layer;
    int64_t *size;
};
enum status bench_shapes_make(const struct model *m, size_t batch, int64_t largest,
                              struct bench_shapes *out) MUST_CHECK;
void bench_shapes_free(struct bench_shapes *s); /* accepts {0} */
enum {
    FIGURE_COPY,
    FIGURE_LAUNCH,
    FIGURE_MEMORY, /* bytes, not seconds, of a device with memory of its own; else 0 */
    FIGURE_SHARE,  /* CPU seconds that a rank got per second of its layers; a GPU's: 1 */
    FIGURE_HOST,   /* what the host needs to launch a kernel; the CPU's, and what follows: 0 */
    FIGURE_BESIDE, /* an op takes 1 + so many times as long beside a collective */
    FIGURE_CLOCK,  /* Hz of the multiprocessors at work, */
    FIGURE_MEMORY_CLOCK, /* of the memory, */
    FIGURE_WATTS,        /* and what the GPU draws; 0: nobody says */
    FIGURES_MORE
};
extern const struct bench_task bench_task;     /* what calibrate_cpu() measures */
extern const struct bench_task bench_task_gpu; /* calibrate_cuda() */

/* The first with messages and collectives of up to `largest` bytes. STATUS_INVALID: not 16 KiB, as
 * a line needs two, to 1 GiB. */
enum status bench_task_up_to(int64_t largest, struct bench_task *out) MUST_CHECK;

/* Collectives that every transport has; with GPUs one more. Those that are rings come first. */
struct bench_sum {
    enum op_kind op;
    enum collective_kind kind;
};
enum {
    BENCH_RINGS = 3,
    BENCH_SUMS = 4,
    BENCH_SUMS_GPU = 5,
    BENCH_MESSAGE = 64 << 20 /* bytes of the largest */
};
extern const struct bench_sum bench_sums[BENCH_SUMS_GPU];

/* How long ops take: sums the times between start() and stop(). */
struct bench_watch {
    void (*start)(struct bench *b);
    void (*stop)(struct bench *b);
    enum status (*take)(struct bench *b, double *seconds); /* since the last take(); waits */
    /* FIGURE_CLOCK and the two behind it, now; false: nobody says. NULL: never. */
    bool (*power)(struct bench *b, double figure[3]);
};

/* A rank at work. All numbers of all ranks are in one array, in which each rank fills in its own
 * places and leaves zeros elsewhere: where ranks do not share memory, adding the arrays up gathers
 * them. The functions below say where what lies. */
struct bench {
    struct memory on;                /* what computes; backend NULL: the CPU */
    enum element half;               /* in which numbers */
    bool curves;                     /* the topology gets them, as it does of GPUs */
    const struct bench_watch *watch; /* of `on` */
    void *watch_self;
    double start_s, sum_s; /* the CPU's watch */
    double wall_s, cpu_s;  /* of all repetitions of layers so far */
    const struct bench_task *task;
    size_t ranks, repeats;
    uint32_t rank;
    FILE *notes; /* of progress; NULL: none */
    const struct transport *transport;
    struct rendezvous meeting;
    void (*together)(void *context); /* wait for all ranks */
    void *context;
    /* [bench_numbers()] seconds: of a call [figure][rank][repeat]; one way [pair][size][repeat],
     * pairs (0, 1), (0, 2), ... in this order; of the CPU that would compute else, for one message
     * [pair][size][repeat]; of a collective [group layout][sum][size][rank][repeat]. Zeros where
     * another rank fills in. */
    double *number;
};

static inline size_t bench_figures(const struct bench *b)
{
    return 2 * b->task->probes + FIGURES_MORE;
}
static inline size_t bench_pairs(const struct bench *b)
{
    return b->ranks * (b->ranks - 1) / 2;
}
static inline size_t bench_kinds(const struct bench_task *task)
{
    return task->gpus ? BENCH_SUMS_GPU : BENCH_SUMS;
}
/* How many of the sizes messages have. */
static inline size_t bench_messages(const struct bench_task *task)
{
    size_t n = 0;
    while (n < task->sizes && (!task->gpus || task->size[n] <= BENCH_MESSAGE))
        n++;
    return n;
}
/* How many ranks a group has: of GPUs the sizes from 2 on that divide the ranks, ascending, in as
 * many groups at a time as there are then; else all ranks. 0: there is no such layout. */
static inline size_t bench_members(const struct bench *b, size_t layout)
{
    if (!b->task->gpus)
        return layout == 0 ? b->ranks : 0;
    for (size_t n = 2; n <= b->ranks; n++)
        if (b->ranks % n == 0 && layout-- == 0)
            return n;
    return 0;
}
static inline size_t bench_layouts(const struct bench *b)
{
    size_t n = 0;
    while (bench_members(b, n) > 0)
        n++;
    return n;
}
static inline double *calls_of(const struct bench *b, size_t figure, size_t rank)
{
    return b->number + (figure * b->ranks + rank) * b->repeats;
}
static inline double *ways_of(const struct bench *b, size_t pair, size_t size)
{
    return calls_of(b, bench_figures(b), 0) + (pair * bench_messages(b->task) + size) * b->repeats;
}
static inline double *taken_of(const struct bench *b, size_t pair, size_t size)
{
    return ways_of(b, bench_pairs(b) + pair, size);
}
/* series: layout * bench_kinds() + sum */
static inline double *sums_of(const struct bench *b, size_t sum, size_t size, size_t rank)
{
    return taken_of(b, bench_pairs(b), 0) +
           ((sum * b->task->sizes + size) * b->ranks + rank) * b->repeats;
}
static inline size_t bench_numbers(const struct bench *b)
{
    size_t calls = bench_figures(b) * b->ranks, series = bench_layouts(b) * bench_kinds(b->task);
    size_t ways = 2 * bench_pairs(b) * bench_messages(b->task);
    return (calls + ways + series * b->task->sizes * b->ranks) * b->repeats;
}

/* One rank's part of everything, in this order. */
enum status bench_rank(struct bench *b) MUST_CHECK;
enum status bench_ops(struct bench *b) MUST_CHECK;
enum status bench_links(struct bench *b) MUST_CHECK;
enum status bench_collectives(struct bench *b) MUST_CHECK;
enum status bench_beside(struct bench *b) MUST_CHECK; /* of GPUs only, */
enum status bench_power(struct bench *b) MUST_CHECK;  /* likewise */

/* The linear layer with most work; NULL: there is none. */
const struct probe *bench_heaviest(const struct bench_task *task);
/* A layer with its operands, for calls of it one after the other. */
struct bed;
enum status bed_open(struct bench *b, const struct probe *p, struct bed **out) MUST_CHECK;
enum status bed_pass(struct bench *b, const struct bed *bed, double *mean_s) MUST_CHECK;
void bed_close(struct bed *bed); /* accepts NULL */

/* Seconds of a forward and of a backward call of a layer: [repeats] each, warmed up; the other
 * ranks have come together before each. */
enum status bench_layer(struct bench *b, const struct layer *l, size_t batch, double *forward_s,
                        double *backward_s) MUST_CHECK;

/* Fills b->number by ranks that mpirun starts. */
void calibrate_together(void *barrier); /* of ranks forked here: a bench's `together` */
enum status calibrate_mpirun(struct bench *b, const struct calibrate_options *o) MUST_CHECK;
/* What mpirun's ranks are called with ("--calibrate", then the repeats and the largest size), what
 * the figures of all begin with on rank 0's output (how many; one a line follows), and a complaint
 * on stderr. */
extern const char calibrate_flag[], calibrate_mark[];
#define CALIBRATE_HEAD "foreline calibration, figures: %zu\n"
int calibrate_rank(int argc, char **argv); /* in exec_mpi only; MPI is initialised. Exit status */
/* Read them: number [n] out. STATUS_EXTERNAL when that is not what the text says. */
enum status calibrate_parse(const char *text, size_t n, double *number) MUST_CHECK;
/* Seconds after which something must be wrong: of n things so often, with a warm-up; of all of a
 * bench. */
double calibrate_within(size_t repeats, size_t n);
double calibrate_limit(const struct bench *b);
/* The figures of another task on the same ranks. */
enum status calibrate_task(const struct bench_task *task, const struct calibrate_options *o,
                           struct calibration *out) MUST_CHECK;

/* Medians into *out, which is {0}; sorts the numbers. */
enum status calibrate_fit(struct bench *b, struct calibration *out) MUST_CHECK;
/* Median of value[n], which it sorts; *spread is their interquartile range / median. */
double sorted_middle(double *value, size_t n, double *spread);

/* How foreline-worker-cuda is called for `calibrate`: "--calibrate", repeats, fp32, bf16 or fp16,
 * ranks, bytes of the largest collective, a model's file or "-", samples of a microbatch of it,
 * calibrate_cudnn(). */
enum { CALIBRATE_WORDS = 8 };
/* Is attention cuDNN's? */
static inline const char *calibrate_cudnn(bool is)
{
    return is ? "cudnn" : "-";
}
/* Run foreline-worker-cuda with arguments [..NULL] and read the n figures that it prints. */
enum status calibrate_gpu_worker(const char *worker, const char *const *arguments, size_t n,
                                 double limit_s, double *number) MUST_CHECK;
/* Complaints of foreline-worker-cuda begin with this. */
extern const char calibrate_gpu_mark[];
/* The same for `model profile`: "--profile", then a model's file, samples, repeats and
 * calibrate_cudnn(). Measures and prints the figures of all its different ops: [op][forward,
 * backward][repeat]. */
extern const char profile_flag[];
enum status profile_measure(struct bench *b, const struct model *m, size_t batch) MUST_CHECK;
/* As printed by a rank: CALIBRATE_HEAD, then a number a line. */
void calibrate_print(const double *number, size_t n);
/* Do they cost the same? (profile.c) */
bool layers_alike(const struct layer *a, const struct layer *b);

#endif
