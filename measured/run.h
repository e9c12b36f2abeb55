/* run.h - a run that another program recorded: what each GPU did when, or how long each step took.
 *
 * Times of traces are whole nanoseconds of the file's own clock, so that sums are exact. A rank is
 * a GPU of a file. What readers drop or repair they count, and measured_run_measure() says how much
 * it was. */
#ifndef MEASURED_RUN_H
#define MEASURED_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/intern.h"
#include "core/data/measurement.h"
#include "core/data/model.h"

enum span_what {
    SPAN_COMPUTE,       /* a kernel that computes */
    SPAN_COMMUNICATION, /* one of NCCL or RCCL */
    SPAN_COPY,          /* a copy or fill of memory by the GPU's engines */
    SPAN_WHATS
};

/* What communication does, as kernels' names and frameworks say; and copies, from where to
 * where. */
enum span_kind {
    SPAN_ALLREDUCE,
    SPAN_ALLGATHER,
    SPAN_REDUCESCATTER,
    SPAN_ALLTOALL,
    SPAN_SENDRECV, /* messages; also an all-to-all of whose kernel only the name is known */
    SPAN_BROADCAST,
    SPAN_REDUCE,
    SPAN_OTHER, /* communication whose name says nothing */
    SPAN_HOST_TO_DEVICE,
    SPAN_DEVICE_TO_HOST,
    SPAN_DEVICE_TO_DEVICE, /* within a GPU */
    SPAN_PEER_TO_PEER,     /* between two */
    SPAN_FILL,
    SPAN_COPY_OTHER,
    SPAN_KINDS,
    SPAN_COPIES = SPAN_HOST_TO_DEVICE /* the first of copies */
};
extern const char *const span_kind_names[SPAN_KINDS];

/* Which part of a step a kernel belongs to, where its launch says so. */
enum span_phase { PHASE_UNKNOWN, PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE, PHASES };

struct span {
    int64_t start_ns, end_ns;
    /* as nccl-tests count them (core/collective/collective.h); of copies; 0: not known */
    int64_t bytes;
    int64_t launch; /* correlation number of what launched it; -1: not known */
    uint32_t name;  /* of struct measured_run: names */
    uint32_t op; /* the outermost op of the host that launched it, likewise; RUN_NO_OP: not known */
    uint32_t
        layer; /* names of ranges with RUN_WITHIN between them; RUN_NO_OP: none, or not asked for */
    uint32_t stream;
    uint32_t members;   /* of communication; 0: not known */
    uint8_t what, kind; /* enum span_what, span_kind */
    uint8_t purpose;    /* enum op_purpose; OP_PURPOSES: not known */
    uint8_t phase;      /* enum span_phase */
    bool again;         /* of a forward that the backward makes again */
};

struct run_step {
    int64_t number, start_ns, end_ns;
};

struct run_rank {
    char *name; /* "rank 3", "rank 0 GPU 1" */
    int64_t rank, device;
    int64_t world; /* ranks of the whole job; 0: not known */
    size_t spans;
    struct span *span; /* [spans] */
    size_t steps;
    struct run_step *step; /* [steps] as they are marked; ascending once the file is read */
};

/* A line of a log: a step, or the mean of all since the line before. */
struct run_line {
    int64_t number;
    double seconds;              /* 0: not said */
    double samples_per_s;        /* of the whole job; 0: not said */
    double tokens_per_s_and_gpu; /* 0: not said */
    double samples;              /* of the step; 0: not said */
};

/* What the layers of a model are, where they are asked for. */
enum run_layers {
    LAYERS_NONE,
    LAYERS_RANGES, /* the ranges that a program marks: record_function, NVTX, modules */
    LAYERS_OPS,    /* the outermost ops of the host, in their order within a step */
};

struct measured_run {
    enum run_layers layers;
    const char *format; /* name of the reader */
    size_t ranks;
    struct run_rank *rank; /* [ranks] */
    size_t lines;
    struct run_line *line; /* [lines] */
    struct interner names;
    size_t events; /* of the file that is read, counted by run_count() */
    bool
        by_device; /* no file numbers the ranks: they are in the order of GPUs, then of processes */
    /* What was dropped or repaired. */
    size_t without_time, negative, without_end, cut, repeated;
};

/* RUN_NAMES bytes of all different names may be in a run. */
enum { RUN_NO_OP = UINT32_MAX, RUN_WITHIN = '\x1f' };
enum { RUN_RANKS = 65536, RUN_NAMES = 1 << 23 };

/* Another event of the file. STATUS_INVALID: more than MOST_EVENTS, which bounds the
 * lists that they go to. */
enum status run_count(struct measured_run *run, const char *path) MUST_CHECK;
/* Add a rank, a span (whose name is `name`), a step or a line; `path` for messages. A step is an
 * event of each rank that has it. STATUS_INVALID: more than there may be; STATUS_NOMEM. Spans that
 * end before they start are counted and dropped. */
enum status run_add_rank(struct measured_run *run, const char *path, int64_t rank, int64_t device,
                         size_t *index) MUST_CHECK;
enum status run_add_span(struct measured_run *run, const char *path, size_t rank, const char *name,
                         const struct span *span) MUST_CHECK;
/* The number of a name. */
enum status run_add_name(struct measured_run *run, const char *path, const char *name,
                         uint32_t *number) MUST_CHECK;
enum status run_add_step(struct measured_run *run, const char *path, struct run_rank *rank,
                         const struct run_step *step) MUST_CHECK;
enum status run_add_line(struct measured_run *run, const struct run_line *line) MUST_CHECK;
void measured_run_free(struct measured_run *run); /* accepts {0}; leaves {0} */

/* Is this a kernel of NCCL, RCCL or MSCCL, by its name? */
bool span_communicates(const char *kernel);
/* What it does, by a kernel's name or by what the framework calls the collective ("allreduce",
 * "_allgather_base", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"). */
enum span_kind span_kind_of(const char *name);
/* What a copy is, by its name: "Memcpy HtoD (Pinned -> Device)", "Memset (Device)". */
enum span_kind span_copy_of(const char *name);
/* What communication is for: what its group says, else what its kind is mostly used for. */
uint8_t span_purpose(const struct span *s);
/* What a group of ranks is for, by its description: "TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard";
 * OP_PURPOSES: it says nothing. */
uint8_t span_purpose_of(const char *group);
/* Bytes of a type by PyTorch's name, "BFloat16", "Float"; 0: not known. */
int64_t span_type_bytes(const char *type);

/* A name of the run, cut off. Returns `text`. */
const char *run_name(const struct measured_run *run, uint32_t name, char *text, size_t size);

/* What an op of the host, or where none is known a kernel, takes: a mean over ranks and steps. */
struct run_op {
    uint32_t name;
    uint8_t phase;
    double calls, seconds; /* kernels, and the sum of their times within the windows */
};
/* Most seconds first; *op is the caller's to free. O(n log n). STATUS_INVALID, STATUS_NOMEM. */
enum status measured_run_ops(const struct measured_run *run, size_t warmup, struct run_op **op,
                             size_t *ops) MUST_CHECK;

/* ---- what follows from it. Windows of a rank are its steps, or all that it did where none is
 * marked. */

struct run_interval {
    int64_t start_ns, end_ns;
};

/* All times in seconds per iteration: the mean over the rank's steps. busy + exposed + idle =
 * window. */
struct run_times {
    size_t steps;
    bool marked;                      /* by the file; else the whole is one */
    double window_s;                  /* a step's */
    double busy_s;                    /* while kernels compute: the union of their times */
    double comm_s;                    /* while communication runs */
    double exposed_s;                 /* while it runs and no kernel computes */
    double exposed_by_s[OP_PURPOSES]; /* adds up to it */
    double idle_s;                    /* while neither does */
    double copy_s, copy_alone_s;      /* while copies run; and neither of the others */
    double kind_s[SPAN_KINDS];        /* while communication or copies of that kind run */
    double phase_s[PHASES];           /* sums of kernels' times */
    double outside; /* share of the time of all spans that lies outside of the steps */
    size_t guessed; /* calls whose purpose is that of their kind */
};

/* The first `warmup` steps are left out. STATUS_INVALID: none is left, or nothing takes time. */
enum status run_times_of(const struct run_rank *rank, size_t warmup,
                         struct run_times *out) MUST_CHECK;
/* The window of a rank. */
enum status run_window(const struct run_rank *rank, size_t warmup,
                       struct run_interval *out) MUST_CHECK;

struct run_options {
    size_t warmup;          /* steps left out at the beginning */
    double samples, tokens; /* of an iteration, by the plan; 0: not known */
    size_t devices;         /* of the plan; 0: not known */
};

/* The run as a measurement; what was dropped, repaired and assumed is in its warnings.
 * times[run->ranks] may be NULL. STATUS_INVALID with `path`, the first file: there is nothing that
 * says how long an iteration takes. */
enum status measured_run_measure(const struct measured_run *run, const char *path,
                                 const struct run_options *o, struct measurement *out,
                                 struct run_times *times) MUST_CHECK;

struct run_profile_options {
    size_t warmup;
    double samples, microbatches; /* of a microbatch; that a step has */
    uint32_t tensor_parallel;     /* degree that was run */
    const char *device;           /* type; NULL: any */
};

/* Mean seconds of a rank, of a microbatch but for the update's, of a step. */
struct run_profile_told {
    size_t layers;            /* that have times */
    size_t silent;            /* ops of the model without any */
    const char *first_silent; /* borrowed from the model */
    double all_s;             /* kernels but those of communication and of the update */
    double rest_s;            /* of these, what is of no layer (of a model: of no op) */
    double forward_s, backward_s, again_s; /* of the profile */
    double update_s, comm_s;
    bool updates; /* the profile has the update's times */
};

/* The times of the run's layers, the sums of their kernels' times, as a profile: of *m, if it has
 * ops, by the innermost ranges that are called as its ops are, in place of one of the same device,
 * samples and degree; else *m becomes the chain of the layers in the order of their forwards, with
 * an op "(rest)" for what is of none. The run was read with layers. A step's time is divided by its
 * microbatches, layers that several ranks have count by their mean, the update by parameters.
 * Several spans of time are added, also where kernels run at the same time. O(spans log spans +
 * length of names). STATUS_INVALID with `path`, the first file: nothing computes, or nothing is
 * called like an op. */
enum status measured_run_profile(const struct measured_run *run, const char *path,
                                 const struct run_profile_options *o, struct model *m,
                                 struct run_profile_told *told) MUST_CHECK;

/* Its timeline as foreline writes those of its own runs (core/data/trace.h): a process for each
 * rank, the steps' first at 0. */
enum status measured_run_trace(const struct measured_run *run, size_t warmup, const char *path,
                               const struct provenance *by) MUST_CHECK;

#endif
