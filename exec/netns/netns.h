/* netns.h - any program on an emulated network: one network namespace per node, shaped links.
 *
 * Everything lives in namespaces of its own, made without touching the machine's interfaces, and is
 * gone with the calling process, however that ends. The caller must be single-threaded. */
#ifndef EXEC_NETNS_NETNS_H
#define EXEC_NETNS_NETNS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/data/network.h"
#include "core/data/topology.h"
#include "exec/rendezvous.h"

struct netns_options {
    const struct topology *topology;
    const struct network *network; /* of the same platform */
    size_t ranks;
    const uint32_t *device; /* [ranks] of each; NULL: rank r is device r */
    double dilation;        /* bandwidths are divided by it, latencies multiplied; 0: what keeps
                             * the nodes within a tenth of what the machine carries, >= 1 */
    double traffic_Bps;     /* what the ranks send together on average, also inside nodes; counts
                             * for a dilation of 0 */
    char *const *command;   /* NULL-terminated; looked up in PATH */
    const char *shell;      /* instead: $SHELL in the node of this device or rank; NULL: no */
    uint16_t port;          /* MASTER_PORT */
    bool delays;            /* the ranks' transport adds what netns_inside.delay says */
    FILE *notes;            /* lines about what was built and who failed; NULL: none */
};

/* Run the command once per rank in its node's namespace, with RANK, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * WORLD_SIZE, MASTER_ADDR, MASTER_PORT and FORELINE_HOSTS (a file, "ADDRESS slots=RANKS" per node)
 * in its environment; copy what it prints to stdout and stderr, "[RANK] " before each line.
 *   code  out: 0, or the exit status of the first rank that failed, 128 + its signal; the others
 *         are then ended
 * STATUS_UNSUPPORTED when the machine cannot, or cannot carry that much; the message says what to
 * do. STATUS_INVALID, STATUS_IO, STATUS_NOMEM. */
enum status netns_run(const struct netns_options *o, int *code) MUST_CHECK;

/* $SHELL on the caller's terminal or input, in a node of an emulation of this user that runs.
 *   host  a node, device or rank of it
 *   pid   of the process that began it; 0: there is just one
 *   port  MASTER_PORT
 *   code  out: the shell's exit status, 128 + its signal
 * STATUS_USAGE when there are several, STATUS_INVALID when there is none or no such host,
 * STATUS_IO.
 */
enum status netns_join(const char *host, uint32_t pid, uint16_t port, int *code) MUST_CHECK;

/* Call fn(argument, inside) in a process of the sandbox that sits in rank 0's namespace; `command`
 * and `port` are not used. What it prints and writes is all that comes back. Errors as netns_run(),
 * and fn's own. */
struct netns_inside {
    double dilation;       /* that is used */
    double latency_s;      /* of the longest link, dilated; 0: latencies are left to the ranks */
    const char *address;   /* of rank 0 */
    const char *addresses; /* of all ranks, commas between */
    /* [from * ranks + to] what the transport has to add, dilated: latencies where the kernel has no
     * netem, the least time of a message, and all of the links inside a node, for each pair of
     * ranks on its own */
    const struct delay *delay;
    /* For mpirun: a program that enters a node's namespace by its address (its plm_rsh_agent), and
     * the nodes as its -H wants them, NULL when the ranks of a node do not follow each other. */
    const char *remote_shell, *hosts;
    pid_t line; /* of the delay line, a child; 0: there is none */
    /* enter(context, rank): go to the namespace of a rank; false with errno */
    bool (*enter)(const void *context, uint32_t rank);
    /* slow(context, link, factor): from now on messages on that link of the platform take that many
     * times as long; INFINITY: it fails. STATUS_USAGE: no way leads over such a link. */
    enum status (*slow)(const void *context, const char *link, double factor);
    const void *context;
};
enum status netns_call(const struct netns_options *o,
                       enum status (*fn)(void *argument, const struct netns_inside *inside),
                       void *argument) MUST_CHECK;
/* The dotted address of a rank, out of those of all. Returns host. */
enum { NETNS_HOST = 32 };
const char *netns_address(const struct netns_inside *inside, size_t rank, char host[NETNS_HOST]);

/* One thing that the emulator needs of a machine. */
struct netns_ability {
    const char *name;
    bool needed, there;
    char detail[256]; /* why it is missing and how to get it, or what was found */
};
enum { NETNS_ABILITIES = 7 };

/* What this kernel and user can do. Later abilities are not there when an earlier needed one is
 * not. STATUS_IO. */
enum status netns_check(struct netns_ability ability[NETNS_ABILITIES]) MUST_CHECK;

/* How exactly one rate of a platform's links comes out. */
struct netns_rate {
    double bandwidth_Bps; /* as the platform has it */
    size_t links;         /* that have it, among those on a way */
    double share;         /* of it, that one TCP stream gets after its first MiB */
};
/* Measure each distinct rate, slowest first, without latencies; about a second each. command, shell
 * and delays of `o` are not used.
 *   dilation  that was used
 *   out       [n] malloc'd; n is 0 where all ranks are on one node
 * Errors as netns_run(). */
enum status netns_check_rates(const struct netns_options *o, double *dilation,
                              struct netns_rate **out, size_t *n) MUST_CHECK;
/* Further from 1 than that, a rate is not exact. */
static const double netns_exact = 0.02;

#endif
