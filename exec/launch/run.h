/* run.h - the launcher inside: one process, one thread, one poll() over all workers.
 *
 *   launch.c         launch_run(): the order of things, and tearing everything down
 *   spawn.c   files, environment, fork and exec
 *   environment.c  every process starts its own worker: torchrun, srun, mpirun, by hand
 *   mpi.c     the command line of mpirun, and what it says when it fails
 *   capacity.c  whether this machine can hold the ranks
 *   join.c    rendezvous: who joined
 *   hardware.c  which GPUs they have, and that no two ranks have one
 *   cause.c  who died, and which failure is the cause of the others
 *   silence.c  who has not joined, is stopped, is stuck
 *   watch.c  event loop: what workers report, processes that end
 *   checkpoint.c  where to go on from; files of all ranks become a checkpoint
 *   reports.c  reports of steps: what is kept of them
 *   result.c  what all ranks have reported becomes a measurement; routing.c: where tokens went */
#ifndef EXEC_LAUNCH_RUN_H
#define EXEC_LAUNCH_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/base/array.h"
#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/checkpoint.h"
#include "exec/door.h"
#include "exec/hardware.h"
#include "exec/launch/hosts.h"
#include "exec/launch/launch.h"
#include "exec/rendezvous.h"
#include "host/family.h"
#include "host/folder.h"
#include "host/process.h"

/* A process that the launcher may have started. */
struct launched_child {
    pid_t pid;      /* 0: not started, or not by us */
    bool alive;     /* started and not yet waited for */
    int exit;       /* waitpid() status once it is not */
    double ended_s; /* when that was known */
};

/* What the launcher knows of a rank: from its process, if that is a child, from its connection, and
 * from what it has reported. `heard_s` moves with every byte, `progress_s` only when the rank got
 * somewhere: the first tells of processes that are stopped, the second of those that are stuck. */
enum worker_stage { WORKER_SPAWNED, WORKER_JOINED, WORKER_DONE };

struct launched {
    struct launched_child child;
    enum worker_stage stage;
    int fd;                    /* control connection, -1: none */
    struct process_id told;    /* its process, as the worker says */
    struct family_watch watch; /* of the child, until it has joined: is it stopped? */
    struct family_watch start; /* over mpi: does it wait for mpirun? */
    char machine[MACHINE];     /* it runs on; "": not known yet */
    struct frame_peer peer;    /* where other ranks reach it */
    struct hardware hardware;
    struct frame_head head; /* frame being received */
    char *payload;          /* [room] */
    size_t room, got;       /* got: bytes of head and payload */
    struct frame_heartbeat at;
    double heard_s;    /* last byte */
    double progress_s; /* last change of step or op */
    size_t steps;      /* reported */
    size_t saved;      /* checkpoints reported */
    bool complained;   /* has sent an error: how it exits is no news */
    int64_t peak_bytes;
};

/* The process that starts all workers: mpirun, srun; or is all ranks. Of mpirun come remote shells,
 * what enters a namespace, daemons, and then ranks. */
enum { STARTER_GENERATIONS = 8 };
struct starter {
    struct launched_child child;
    FILE *output;              /* what it and its workers print; owned; NULL: it is all ranks */
    struct family_watch watch; /* is it stopped? */
    struct family_watch rest;  /* do it and all that it has started still do anything? */
    struct family_watch idle;  /* does it alone? */
    size_t most;               /* processes that there were */
};

/* A checkpoint of which not all ranks have reported their file yet. */
struct run_pending {
    struct checkpoint checkpoint;
    size_t saved; /* ranks */
};

/* Why the run failed: the first cause counts, but what a rank says about its peers is only a
 * symptom: another rank may be gone without a word, and somebody may know how it ended. What is
 * known first depends on the machine; what counts does not: launch_is_settled() waits for those
 * who may still have a better explanation. */
enum cause_rank { CAUSE_NONE, CAUSE_SYMPTOM, CAUSE_GONE, CAUSE_PRIMARY };

struct cause {
    enum cause_rank rank;
    enum status st;
    double since_s;
    int signal; /* that asked us to end, where that is the cause; else 0 */
    char text[1024];
};

/* What the run leaves in the file system while workers start; spawn.c. */
struct run_files {
    char directory[FOLDER_TEMPORARY]; /* private temporary directory, "": none */
    char program_path[FOLDER_FILE], model_path[FOLDER_FILE];
    char worker_path[4096];
};

/* A frame that is said instead of a welcome. */
struct refusal {
    struct frame_head head; /* FRAME_ERROR */
    int32_t code;
    char text[256];
};

/* Where workers meet the launcher and how they prove that they belong here; environment.c, spawn.c
 * and join.c. */
struct run_meeting {
    uint8_t token[TOKEN];
    char settings[AGREEMENT]; /* what all ranks must have been told */
    uint32_t differs;         /* the lowest rank that was told otherwise, where `why` says how */
    char why[1024];           /* "": none so far */
    char body[1024];          /* the same without the name of the rank, */
    size_t others;            /* which so many others said, too */
    double differs_s;         /* since when that is known */
    size_t refused;           /* processes with another token that people were told of */
    uint32_t rank,
        ranks; /* of this process, where each starts its own workers: the first, how many */
    char address[RENDEZVOUS_HOST]; /* of the launcher */
    uint16_t port;
    int listener;           /* -1: none */
    struct door door;       /* until all are there */
    struct refusal refusal; /* what the door says */
};

/* Ctrl-C and dead children as events, and what was in force before; launch.c. */
struct run_signals {
    int fd; /* signalfd, -1: none */
    bool masked;
    sigset_t old_mask;
    struct sigaction old_child;
};

enum { CHECKPOINT_PENDING = 2 };

/* Where the training goes on from, and what is kept of it; checkpoint.c. */
struct run_keeping {
    uint64_t first; /* steps of the training before this run */
    char resume[CHECKPOINT_PATH], checkpoint[CHECKPOINT_PATH]; /* absolute; "": none */
    struct checkpoint_key key;
    size_t complete; /* checkpoints of this run */
    uint64_t newest; /* step of the last of them */
    size_t pendings; /* those after them; ranks write no more before they are told (FRAME_KEPT) */
    struct run_pending pending[CHECKPOINT_PENDING]; /* oldest first */
    int lock; /* the directory, so that no other run writes there; -1: none */
};

/* Op times are kept of REPORT_STEPS measured steps, and of more as long as they are REPORT_TIMES or
 * less: 32 MiB. A rank begins a step when all have ended the one before: one that is read first is
 * not read any more when it is REPORT_AHEAD steps ahead of the others. */
enum { REPORT_STEPS = 100, REPORT_TIMES = 1 << 21, REPORT_AHEAD = 4 };

/* A step that some ranks have not reported yet. */
struct launch_step {
    size_t ranks;                   /* that have */
    double *start_s, *end_s, *loss; /* [ranks] */
    double *hits;                   /* [ranks][2] */
    double *op_start_s, *op_end_s;  /* [ops] */
};

/* Of a rank: how much of the forwards through the stage with the loss are its own; loss NULL:
 * none. */
struct run_loss {
    double share;
    double *loss; /* [steps] as reported, a part of the mean */
};

/* What the workers have reported; reports.c, result.c. */
/* Of an op of experts, over all ranks (struct layer_routing). */
struct run_routed {
    double *rows; /* [experts]; NULL: no rank has said anything */
    double calls, busiest[LAYER_SPREADS];
};

struct run_reports {
    struct arena memory; /* of the arrays */
    bool measuring;      /* the warm-up is over */
    double others_cpu_s; /* CPU time of everything else on the machine during the run */
    size_t complete;     /* steps that all ranks have reported */
    struct launch_step open[REPORT_AHEAD]; /* those behind them: step s is open[s % REPORT_AHEAD] */
    double *duration_s;                    /* [options->steps] of measured steps */
    double *loss;                          /* [steps] of all ranks */
    double *hits;                          /* [steps][2] likewise (struct frame_step) */
    struct run_loss *of_rank;              /* [ranks] */
    size_t stride; /* op times are kept of measured steps 0, stride, 2 stride, ...: */
    double *kept_start_s, *kept_end_s; /* [such steps * ops] from the start of the op's rank */
    double *kept_began_s;              /* [such steps] when rank 0 began, as it says */
    struct timeline scratch;           /* of a step without flush */
    size_t shards;             /* most of any stage, times ranks that experts are spread over */
    uint8_t *digests;          /* [model->n * shards * DIGEST] of each op's parameters */
    bool *digested;            /* [model->n * shards] */
    struct run_routed *routed; /* [model->n]; NULL: there are no experts */
};

/* A run: what it is, its parts as above, and the state of its processes, which all files read. */
struct launch_state {
    const struct program *program;
    const struct model *model;
    const struct launch_options *options;
    size_t steps;       /* warm-up included */
    struct hosts hosts; /* of the ranks, in order; {0}: all are here, or a launcher knows */
    struct run_files files;
    struct run_meeting meeting;
    struct run_signals signals;
    struct run_keeping keeping;
    struct run_reports reports;

    struct starter starter;
    struct launched *worker;    /* [ranks] */
    size_t joined, done, alive; /* alive: children */
    double started_s;
    double away_s; /* of the time since then, this process was stopped or busy itself */
    struct family_watch network; /* options->network: is it at work? */
    struct cause cause;
};

enum status launch_check_options(const struct program *p, const struct model *m,
                                 const struct launch_options *o) MUST_CHECK;
/* A run of a program with nothing in it that needs releasing. */
struct launch_state launch_new(const struct program *p, const struct model *m,
                               const struct launch_options *o);
enum status launch_allocate(struct launch_state *run) MUST_CHECK;
/* Ctrl-C and dead children become events on run->signals.fd instead of interrupting. */
enum status launch_take_signals(struct launch_state *run) MUST_CHECK;
/* Has a signal asked us to end, while many ranks are started or the results are made? It would end
 * the process, unseen, when signals are as they were. */
enum status launch_interruption(struct launch_state *run) MUST_CHECK;
/* Whatever was begun: no process, no file, no memory stays. */
void launch_tear_down(struct launch_state *run);

enum status launch_prepare(struct launch_state *run) MUST_CHECK;
enum status launch_spawn(struct launch_state *run) MUST_CHECK;
/* Files are not needed any more once every worker has read them, and mpirun, whose files are among
 * them, has ended; again: nothing. */
void launch_remove_files(struct launch_state *run);

/* Before the first rank is started, once the files are written: STATUS_INFEASIBLE, with what is
 * needed, what there is and the remedy, where memory, open files or processes of this machine are
 * too few. */
enum status launch_check_capacity(const struct launch_state *run) MUST_CHECK;

const char *
launch_transport(const struct launch_state *run); /* as told, else the device's default */
/* Are all ranks threads of one worker? */
bool launch_in_one_process(const struct launch_state *run);
/* Does somebody else start the workers? */
bool launch_by_hand(const struct launch_state *run);
/* Does every process of the run start its own worker, as the environment says? */
bool launch_by_environment(const struct launch_state *run);
/* Then: rank, address and port of the launcher, token. STATUS_USAGE when there is something wrong
 * with the environment. */
enum status launch_read_environment(struct launch_state *run) MUST_CHECK;

/* Path [n] of a worker: as told, else (NULL) beside this executable or in ../libexec/. STATUS_IO:
 * "no NAME in DIRECTORY" and the hint. */
enum status launch_find_worker(const char *told, const char *name, char *path, size_t n,
                               const char *hint) MUST_CHECK;
extern const char launch_no_mpi[]; /* such a hint */

/* Words to put before the worker's command line, from --launcher or for mpirun. The strings and the
 * NULL-terminated array are one block, free(). STATUS_IO when the program is not there. */
enum status launch_words(const struct launch_state *run, char ***words) MUST_CHECK;
/* Read run->hosts. Without an address only this machine can be reached: STATUS_USAGE when another
 * one is among them; STATUS_INVALID when ssh has too few slots; STATUS_PARSE, STATUS_IO. */
enum status launch_check_hosts(struct launch_state *run) MUST_CHECK;
/* Where a program is, as the shell would find it; false: nowhere. */
bool launch_find_program(const char *name, char *path, size_t n);

/* ssh.c. Is each rank started where options->hosts says, by ssh unless that is here? */
bool launch_by_ssh(const struct launch_state *run);
enum { REMOTE_WORDS = 8 };
struct remote {
    char ssh[4096], script[FOLDER_FILE];
    char *line[REMOTE_WORDS]; /* what is executed here */
};
/* A script in the run's directory, which both machines see, that goes to this working directory,
 * sets the environment [settings] "NAME=VALUE" and becomes the worker; secrets are on no command
 * line. STATUS_IO. */
enum status launch_make_remote(const struct launch_state *run, uint32_t rank,
                               char *const *environment, size_t settings, char *const *argument,
                               struct remote *out) MUST_CHECK;
/* Does the starter's output say that a rank was killed by a signal? */
bool launch_find_signal(FILE *output, unsigned *rank, int *signal);
/* The first line of the output that says something, at most n - 1 bytes; "" when there is none. */
void launch_find_reason(FILE *output, char *text, size_t n);

/* Where the run begins and what it keeps; STATUS_INVALID when that is another run's. */
enum status launch_open_checkpoints(struct launch_state *run) MUST_CHECK;
/* What --checkpoint has kept of a run that ends early, in one line; "": nothing was to be kept. */
enum { KEPT_TEXT = CHECKPOINT_PATH + 128 };
const char *launch_kept(const struct launch_state *run, char text[KEPT_TEXT]);
/* No file of an incomplete checkpoint stays. */
void launch_close_checkpoints(struct launch_state *run);

/* cause.c. This went wrong, unless something of at least that rank did before. */
void launch_blame(struct launch_state *run, enum cause_rank rank, enum status st, const char *fmt,
                  ...) PRINTF_LIKE(4, 5);
/* "rank 2 (r0n0g2 on node7)" and " at 1F3 step 4", as last heard; return `text`. */
enum { RANK_NAME = 128 };
const char *launch_name(const struct launch_state *run, uint32_t rank, char text[RANK_NAME]);
const char *launch_place(const struct launch_state *run, uint32_t rank, char text[RANK_NAME]);
/* What a rank says is wrong: int32_t status and the text. */
void launch_take_error(struct launch_state *run, uint32_t rank, const char *payload, size_t bytes);
/* The first rank that has not joined; the number of ranks: all have. */
uint32_t launch_absent(const struct launch_state *run);
/* Has it ranks on other machines, which are not emulated? */
static inline bool launch_is_far(const struct launch_state *run)
{
    return run->options->address && !run->options->mpirun;
}
/* Has the process that rank r runs in ended? */
bool launch_has_ended(const struct launch_state *run, uint32_t r);
/* How processes have ended whose last words have been read. */
void launch_explain_ends(struct launch_state *run);
/* silence.c. Who has not joined, has been silent or is stuck. */
void launch_check_silence(struct launch_state *run, double now_s);
/* Is the cause so far the cause? Time decides only where nobody is known to have a better one. */
bool launch_is_settled(const struct launch_state *run, double now_s);

/* Connections to the control port, without waiting: workers say who they are, strangers are
 * dropped. When the last one is there, all are told where everybody is. */
void launch_answer(struct launch_state *run);
/* The run does not begin: tell the ranks that other processes have started why, as error_message()
 * says, which stays what it was. Ranks that are children, and their terminals, are this
 * process's. */
void launch_refuse(const struct launch_state *run);
/* What makes the token of --launcher env. */
extern const char launch_token_names[];
/* How many have come with another token, for a message; "": none. */
enum { TOKENS_TEXT = 160 };
const char *launch_other_tokens(const struct launch_state *run, char text[TOKENS_TEXT]);
/* Blame a rank that was told otherwise than the others. */
void launch_check_settings(struct launch_state *run, double now_s);

/* hardware.c. Does every text of what a worker said end? */
bool launch_hardware_ends(const struct hardware *h);
/* Has every rank a GPU of its own, as far as they have any? STATUS_INVALID names two that
 * have not. */
enum status launch_check_hardware(const struct launch_state *run) MUST_CHECK;
/* Lines for people: who has which GPU, and the versions. Nothing without GPUs. */
void launch_tell_hardware(const struct launch_state *run, FILE *notes);
enum status launch_fill_hardware(const struct launch_state *run,
                                 struct measurement *out) MUST_CHECK;

/* Until all workers are done and gone; else the cause. */
enum status launch_watch(struct launch_state *run) MUST_CHECK;
/* SIGKILL everything that is alive and wait for it. */
void launch_kill(struct launch_state *run);

/* Room for the reports of all steps. STATUS_NOMEM. */
enum status launch_allocate_reports(struct launch_state *run) MUST_CHECK;
/* Has the rank reported as many steps more than another as there is room for? */
bool launch_is_ahead(const struct launch_state *run, uint32_t rank);

/* A complete frame of rank `rank`. STATUS_IO when it makes no sense. */
enum status launch_take_step(struct launch_state *run, uint32_t rank,
                             const char *payload) MUST_CHECK;
enum status launch_take_saved(struct launch_state *run, uint32_t rank,
                              const char *payload) MUST_CHECK;
enum status launch_take_done(struct launch_state *run, uint32_t rank,
                             const char *payload) MUST_CHECK;
/* May a FRAME_ROUTED be so long? */
bool launch_routing_fits(const struct launch_state *run, uint64_t bytes);
enum status launch_take_routing(struct launch_state *run, uint32_t rank, const char *payload,
                                uint64_t bytes) MUST_CHECK;
enum status launch_fill_routing(const struct launch_state *run, struct measurement *out) MUST_CHECK;
enum status launch_result(struct launch_state *run, double cpu_s, struct measurement *out,
                          struct timeline *timeline) MUST_CHECK;

#endif
