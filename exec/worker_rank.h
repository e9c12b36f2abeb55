/* worker_rank.h - the two halves of a worker: a process that has read its inputs, and a rank with
 * its control connection, device and transport. With most transports a process is one rank; with
 * one whose ranks share a process (transport.h) it is all of them, a thread each. */
#ifndef EXEC_WORKER_RANK_H
#define EXEC_WORKER_RANK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/checkpoint.h"
#include "exec/corpus.h"
#include "exec/executor.h"
#include "exec/learning_rate.h"
#include "exec/rendezvous.h"
#include "exec/worker.h"

/* Ranks wait for each other longer than the launcher waits for a rank, by 2 s too: it knows
 * better who hangs. */
static const double wait_factor = 1.5;
/* And when one may be busy with its checkpoint, as long as a slow disk takes. */
static const double slow_disk_Bps = 10e6;

/* Read once, by all ranks of the process. */
struct worker_options {
    const char *program_path, *model_path, *text_path, *device_name, *transport_name, *launcher;
    const char *checkpoint_path, *resume_path, *log_path, *collective, *policy_text;
    double learning_rate, timeout_s;
    struct learning_rate policy;
    uint32_t steps, warmup, checkpoint_every; /* steps: with those of the warm-up */
    const struct rounds_algorithm *algorithm; /* of collectives; as in rendezvous.h */
    bool paced;                               /* as in executor.h */
    bool graphs, cudnn;                       /* as in device.h */
    bool bind;                                /* ranks to parts of the cores: exec/cores.h */
    bool early;                               /* as in rendezvous_join() */
    struct frame_hello hello; /* of the first rank here; the others' have another number */
    struct program program;
    struct model model;
    struct corpus corpus;
    struct checkpoint_key key;
    const struct device *device;
    const struct transport *transport;
    const struct ranges *ranges; /* NULL: no profiler */
    void *shared;                /* what the transport's ranks share, NULL: they are processes */
    enum status unfit;           /* why it cannot run, for the launcher when it has been met */
    char reason[512];
};

/* What a member owns of what its transport scatters; NULL: what exec/ring.h says. */
static inline struct ring_part (*worker_part(const struct worker_options *w))(size_t n,
                                                                              size_t members,
                                                                              size_t me)
{
    return w->algorithm || !w->transport ? NULL : w->transport->part;
}

struct worker_rank {
    struct worker_options *worker;
    uint32_t rank;
    struct rendezvous rendezvous;
    void *device_self, *transport_self;
    struct executor_progress progress;
    uint32_t first;         /* steps before this run */
    _Atomic uint64_t saved; /* of checkpoints, written or read */

    uint32_t saves;          /* checkpoints of this run, written by this rank */
    uint32_t kept;           /* of these, those that count */
    pthread_mutex_t keeping; /* guards kept */
    pthread_cond_t keeps;    /* kept has grown */
    pthread_mutex_t writing; /* one frame at a time on the control connection */
    pthread_t reporter;
    bool reporting;
    int stop[2]; /* pipe: closing [1] ends the reporter */
};

/* Meet the others, train and report; then everything is closed. Failures have been reported. */
enum status worker_rank_run(struct worker_options *w, uint32_t rank) MUST_CHECK;

#endif
