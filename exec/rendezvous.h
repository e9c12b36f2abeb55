/* rendezvous.h - how the ranks of a run find each other, and the control connection that remains.
 *
 * The launcher listens; every worker connects, proves with the run's random token that it belongs
 * here, says what it has been told (agreement.h), so that all are about to run the same thing, and
 * tells the port on which it accepts data connections. When all ranks are there, the launcher
 * answers each with everybody's ports. The connection then carries the worker's reports until the
 * run ends, and back the word that a checkpoint counts: a worker begins none before the last but
 * one does, so that a launcher that is slow or stopped holds the ranks up instead of filling the
 * disk. A worker whose launcher hangs up exits at once.
 *
 * Wire format: a frame is `struct frame_head` and `bytes` bytes of payload, one of the structs
 * below, in the byte order of the sender (the magic number shows a foreign one). */
#ifndef EXEC_RENDEZVOUS_H
#define EXEC_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "exec/agreement.h"
#include "exec/device.h"
#include "exec/device/layer.h"
#include "exec/hardware.h"
#include "host/process.h"

enum { TOKEN = 16, CONTROL_VERSION = 8, ERROR_TEXT = 1024, MACHINE = 64 };

/* What a transport adds to messages from another rank because the network under it does not:
 * a message is there `latency_s` after its last byte, and one that begins at t has its last byte
 * not before t + bytes * per_byte_s, nor that long after the one before it. */
struct delay {
    double latency_s;
    double per_byte_s;
};

struct rounds_algorithm; /* exec/rounds.h */

/* What a transport needs to reach the other ranks. */
struct rendezvous {
    uint32_t rank, ranks;
    const char *host;    /* dotted address of all ranks, or of each with commas between */
    char *hosts;         /* owner of that, NULL: it is borrowed */
    uint16_t *port;      /* [ranks] where each accepts data connections; owned */
    struct delay *delay; /* [ranks] of what each sends here; NULL: none; owned */
    int listener;        /* own data port, listening; -1: none */
    int control;         /* connection to the launcher; -1: none */
    const struct rounds_algorithm
        *algorithm;       /* of collectives; NULL: the transport's own, or the ring */
    void *shared;         /* transport->share()'s, NULL: the ranks are processes; borrowed */
    void *clock;          /* device->clock()'s: of the rank's device, NULL: none; borrowed */
    uint8_t token[TOKEN]; /* shared by the ranks of a run, unknown to strangers */
    double timeout_s;     /* to connect to all peers */
    double call_s;        /* and then of a library's call, where one may block; 0: the same */
    bool clocks_differ;   /* the ranks are not all on one machine, with one CLOCK_MONOTONIC */
};

enum frame_type {
    FRAME_HELLO,     /* worker, behind the token: the rest of struct frame_hello */
    FRAME_WELCOME,   /* launcher: struct frame_peer of every rank */
    FRAME_HEARTBEAT, /* worker: struct frame_heartbeat, every heartbeat_s */
    FRAME_STEP,      /* worker: struct frame_step, then start_s[ops] and end_s[ops] of the rank */
    FRAME_ERROR,  /* worker, or launcher instead of FRAME_WELCOME: int32_t status and the text, at
                      * most ERROR_TEXT bytes */
    FRAME_SAVED,  /* worker: struct frame_saved, after every checkpoint */
    FRAME_KEPT,   /* launcher: struct frame_kept, when all ranks have and it counts */
    FRAME_ROUTED, /* worker, before it is done: struct frame_routed of an op of experts that it has,
                      * then their rows, uint64_t each */
    FRAME_DONE,   /* worker: struct frame_done, then `digests` times struct frame_digest */
    FRAME_TYPES
};

struct frame_head {
    uint32_t magic;
    uint16_t version, type;
    uint64_t bytes; /* of the payload */
};

/* The first thing on the connection: the token, and only then a frame (exec/door.h). */
struct frame_hello {
    uint8_t token[TOKEN];
    struct frame_head head;
    uint32_t rank, ranks;
    uint16_t port, unused[3];
    struct process_id process; /* of the worker; its boot says which ranks share CLOCK_MONOTONIC */
    /* agreement_write(); "": it cannot run, and says why when it has joined */
    char settings[AGREEMENT];
    char machine[MACHINE]; /* its name, NUL-terminated */
    struct hardware hardware;
};

struct frame_peer {
    char host[16]; /* dotted, NUL-terminated: where its connection comes from */
    uint16_t port; /* for data */
    uint64_t clock;
};

enum worker_state {
    WORKER_STARTS,
    WORKER_COMPUTES,
    WORKER_WAITS,
    WORKER_FINISHES,
    WORKER_SAVES,
    WORKER_CONNECTS, /* the last of its start: the transport opens, and all ranks meet */
};
/* Has it not begun its first step? */
static inline bool worker_is_starting(uint32_t state)
{
    return state == WORKER_STARTS || state == WORKER_CONNECTS;
}

struct frame_heartbeat {
    uint32_t step;  /* of all steps, warm-up and those before this run included */
    uint32_t state; /* enum worker_state */
    uint64_t op;    /* index in the program: what is computed or waited for */
    uint64_t saved; /* grows while a checkpoint is written or read */
};

static const double heartbeat_s = 0.25;

struct frame_step {
    uint64_t step;         /* of this run */
    double start_s, end_s; /* CLOCK_MONOTONIC; start_s is the same on all ranks */
    double loss;
    double hits[2];     /* of the rank's targets, as parts of all; NAN: not known */
    int64_t peak_bytes; /* of the device so far */
};

struct frame_saved {
    uint64_t step;          /* steps done, those before this run included */
    uint8_t digest[DIGEST]; /* of the rank's file */
};

struct frame_kept {
    uint64_t step; /* of a frame_saved */
};

struct frame_digest {
    uint64_t op; /* of the model */
    uint8_t digest[DIGEST];
};

struct frame_routed {
    uint64_t op, experts; /* of the model */
    uint64_t calls;       /* struct layer_routing */
    double busiest[LAYER_SPREADS];
};

struct frame_done {
    int64_t peak_bytes;
    uint64_t digests;
};

/* Write a frame whose payload is in two parts (the second may be NULL, 0); head as struct above. */
enum status frame_write(int fd, enum frame_type type, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes, double deadline_s) MUST_CHECK;
/* Is this the head of a frame that we understand? STATUS_IO says what is wrong with it. */
enum status frame_check(const struct frame_head *head) MUST_CHECK;
struct frame_head frame_head(enum frame_type type, size_t bytes);

/* SHA-256 of a whole file. Returns STATUS_IO, STATUS_NOMEM. */
enum status file_digest(const char *path, uint8_t digest[DIGEST]) MUST_CHECK;
/* Name of this machine; "" when it does not say. */
void machine_name(char name[MACHINE]);
/* Lower-case hexadecimal, NUL-terminated: text[2 * n + 1]; and back (STATUS_INVALID). */
void hex_print(const uint8_t *bytes, size_t n, char *text);
enum status hex_parse(const char *text, uint8_t *bytes, size_t n) MUST_CHECK;

/* Which rank of how many this process is, by the environment: RANK and WORLD_SIZE (torchrun), else
 * OMPI_COMM_WORLD_RANK and _SIZE (mpirun), else SLURM_PROCID and SLURM_NTASKS (srun; last, because
 * a batch script's own are inherited by what it starts otherwise). STATUS_USAGE. */
enum status rendezvous_rank(uint32_t *rank, uint32_t *ranks) MUST_CHECK;
/* Number of this process among the run's on its machine: LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK,
 * SLURM_LOCALID, else 0. STATUS_USAGE. */
enum status rendezvous_local_rank(uint32_t *rank) MUST_CHECK;

enum { RENDEZVOUS_HOST = 16 };
/* The dotted address of a machine, by that or its name. STATUS_IO, "what 'name': ...". */
enum status rendezvous_look_up(const char *what, const char *name,
                               char host[RENDEZVOUS_HOST]) MUST_CHECK;
/* Where ranks on other machines meet rank 0: MASTER_ADDR (127.0.0.1), a name or dotted, and
 * MASTER_PORT (29500); the port after it where torchrun's own agent listens there
 * (TORCHELASTIC_USE_AGENT_STORE=True). *given: is MASTER_ADDR set? STATUS_USAGE: the port;
 * STATUS_IO: nobody knows the name. */
enum status rendezvous_master(char host[RENDEZVOUS_HOST], uint16_t *port, bool *given) MUST_CHECK;
/* The address of a rank, as r->host says; "" when it says none. Returns `text`. */
const char *rendezvous_host(const struct rendezvous *r, uint32_t rank, char text[RENDEZVOUS_HOST]);
/* Delays from "LATENCY_S:SECONDS_PER_BYTE,..." of as many ranks (FORELINE_DELAYS, for emulated
 * networks); NULL text: *out is NULL. *out is malloc'd. STATUS_USAGE when it says anything else,
 * STATUS_NOMEM. */
enum status rendezvous_delays(const char *text, uint32_t ranks, struct delay **out) MUST_CHECK;
/* Worker: connect to the launcher at "address:port", listen for data on the interface that leads
 * there ($FORELINE_PEERS: the addresses of all ranks, with commas, instead), say hello and wait
 * until all ranks are there; at most timeout_s. `early`: the launcher may not listen yet; else one
 * that does not is gone. Returns STATUS_INVALID for a malformed address, STATUS_IO,
 * STATUS_EXTERNAL, STATUS_NOMEM. */
enum status rendezvous_join(const char *launcher, const struct frame_hello *hello, bool early,
                            double timeout_s, struct rendezvous *out) MUST_CHECK;
/* A rank that cannot take part says why, in the settings of its hello, to a launcher that listens
 * within WAIT_DIFFER, or now (`early`: as of rendezvous_join()). False: nobody has heard it. The
 * message of the last failure stays. */
bool rendezvous_excuse(const char *launcher, const struct frame_hello *hello, bool early);
void rendezvous_free(
    struct rendezvous *r); /* accepts what join() filled, and *r = RENDEZVOUS_NONE */

#define RENDEZVOUS_NONE ((struct rendezvous){.listener = -1, .control = -1})

#endif
