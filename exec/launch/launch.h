/* launch.h - run a program for real: start one worker process per rank, watch them, collect.
 *
 * The launcher owns everything: whatever goes wrong (a worker dies, hangs, reports an error, the
 * user presses Ctrl-C), all workers are gone when launch_run() returns, and its message names the
 * rank and the op. */
#ifndef EXEC_LAUNCH_LAUNCH_H
#define EXEC_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/program.h"

struct delay; /* exec/rendezvous.h */

struct launch_options {
    const char *worker;    /* path of the worker; NULL: beside this executable */
    const char *transport; /* "tcp", "mpi", "local", "nccl" (device cuda only); NULL: the default */
    /* Words that start the workers when put before their command line, "mpirun ..." or "srun ...";
     * "none": somebody else does, told how in the notes; "env": every rank is a process that does
     * what this one does (launch_member()). NULL: one process per rank, or mpirun with settings
     * that suit this program for mpi, or one process that is all ranks for local. */
    const char *launcher;
    size_t local_ranks;     /* "env": such a process has so many ranks, from its own on; 0: 1 */
    const char *hosts;      /* hosts_read(); mpi: mpirun starts workers there, tcp, nccl: ssh does;
                             * NULL: all ranks on this machine */
    const char *mpirun;     /* its words about hosts and network, NULL: as hosts says */
    const char *address;    /* or name, where workers reach the launcher; NULL: 127.0.0.1 */
    const char *device;     /* "cpu", "cuda", or launch_paced() of one */
    const char *collective; /* algorithm of exec/rounds.h for collectives; NULL: "auto" */
    bool cuda_graphs;       /* of device "cuda" (exec/device/cuda/graphs.h) */
    bool cudnn;             /* likewise (exec/device/cuda/attention_cudnn.h) */
    /* ranks that compute on CPUs and are started here share all cores; else exec/cores.h */
    bool unbound;
    bool paced;           /* numerics last as long as predicted (exec/executor.h) */
    const char *text;     /* file of training text, NULL: the shipped one */
    size_t steps, warmup; /* measured steps >= 1, after warm-up steps */
    double learning_rate;
    const char *learning_rate_policy; /* exec/learning_rate.h; NULL: constant */
    double dilation; /* seconds here per second reported, for emulated networks; 0: 1 */
    /* [from * ranks + to] what the transport (tcp only) adds to messages; NULL: nothing. */
    const struct delay *delay;
    /* of the longest link between the ranks' nodes, dilated, where they are emulated */
    double latency_s;
    pid_t network; /* child of the caller without which messages do not come; 0: none */
    /* Once, when the last warm-up step is over on all ranks: the first measured one begins; with no
     * warm-up when a rank has reported a step.
     *   held  [ranks] the process of each (host/process.h), -1 where it cannot be proved; the
     *         caller closes them when this returns */
    void (*measuring)(void *context, const int *held, size_t ranks);
    void *measuring_context;
    double timeout_s;         /* longest silence before a rank counts as hung */
    const char *timeout_hint; /* said when no rank gets on for so long; NULL: nothing */
    FILE *notes;              /* lines for people: progress, how to start workers; NULL: none */
    size_t progress_every;    /* a line of progress every so many steps, 0: none */
    /* Directory of checkpoints (exec/checkpoint.h), NULL: none. Written every so many steps of the
     * training (0: never) and after the last one. */
    const char *checkpoint;
    size_t checkpoint_every;
    const char *batch_tokens; /* file for the data of all steps (exec/batch_tokens.h), NULL: none */
    const char *log; /* workers print to files: this and ".RANK" (all ranks in one process: this);
                      * absolute; NULL: to stderr */
    const char *resume; /* directory whose newest checkpoint to go on from, NULL: start anew */
    /* In each worker's process before it becomes the worker; false with errno when it cannot. Calls
     * only what is safe after fork(). NULL: nothing. */
    bool (*enter)(const void *context, uint32_t rank);
    const void *enter_context;
};

/* What carries messages unless told otherwise: "nccl" from GPU to GPU, else "tcp". */
const char *launch_default_transport(const char *device);

/* Device whose ops only take their time, with messages in the memory of `device` ("cuda" or any
 * other); and is it one of these? */
const char *launch_paced(const char *device);
bool launch_is_paced(const char *device);

/* Fills engine (the transport), iterations_s, loss, parameters_sha256, ranks, cpu_s of *out, and
 * with `timeline` not NULL the op times of the step with the median iteration time, or the nearest
 * to it of those of which op times are kept (REPORT_STEPS, REPORT_TIMES in run.h). Where a signal
 * asks to end (error_signal()), both are filled, too, if a measured step was complete: of those
 * that were, without parameters_sha256. O(steps) time; memory for a few numbers per step. */
enum status launch_run(const struct program *p, const struct model *m,
                       const struct launch_options *o, struct measurement *out,
                       struct timeline *timeline) MUST_CHECK;

/* With the launcher "env": is this process, by its environment, another rank than 0? STATUS_USAGE
 * when the environment makes no sense. */
enum status launch_is_member(const struct launch_options *o, bool *member) MUST_CHECK;
/* Then: start this rank's worker and wait for it. All results are rank 0's. STATUS_EXTERNAL when
 * the worker fails: rank 0 says why. */
enum status launch_member(const struct program *p, const struct model *m,
                          const struct launch_options *o) MUST_CHECK;
/* With the launcher "env": this process has failed before that. Another rank than 0 tells rank 0,
 * which then ends with the rank's name and the message instead of waiting for it. Returns st with
 * its message. At most WAIT_DIFFER. */
enum status launch_excuse(enum status st);

#endif
