/* inside.h - what happens in the emulator's own namespaces; called by netns.c only.
 *
 *   sandbox.c  processes: the namespaces that everything lives in, and dies with
 *   build.c    a wiring becomes network namespaces, veth pairs, routes and queues
 *   carry.c    what this machine can carry
 *   remote.c   a remote shell between the namespaces, for mpirun
 *   ranks.c    the program, once per rank */
#ifndef EXEC_NETNS_INSIDE_H
#define EXEC_NETNS_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/netns/wiring.h"

enum { INSIDE_ADDRESS = 16 };

/* ---- sandbox.c */

/* What a sandbox hands back, written before it ends. */
struct sandbox_report {
    int status; /* enum status */
    int code;   /* exit status that the caller should take over */
    char message[512];
};

/* Call fn(argument, code) as the first process of new user (unless root), network, mount, pid, IPC
 * and host name namespaces with a /dev/shm and, where allowed, a /proc of their own. All that it
 * starts ends with it, and it ends with the caller, however that ends. STATUS_UNSUPPORTED when the
 * kernel does not allow it, STATUS_IO, and what fn returns. */
enum status sandbox_run(enum status (*fn)(void *argument, int *code), void *argument,
                        int *code) MUST_CHECK;

/* Run `ip` or `tc` with these words, NULL-terminated, and `script` on its standard input; in
 * network namespace `space` (a descriptor; -1: the caller's). STATUS_IO with the first line of what
 * it complains about, STATUS_UNSUPPORTED when it is not installed. */
enum status sandbox_tool(int space, const char *const *words, const char *script) MUST_CHECK;

/* ---- build.c */

struct built {
    const struct wiring *w;
    int *fd; /* [w->spaces] */
    double dilation;
};

struct build_options {
    double dilation; /* bandwidths are divided by it, latencies multiplied */
    bool latency;    /* with netem */
};

/* STATUS_IO, STATUS_UNSUPPORTED, STATUS_NOMEM; `out` is then fit for built_free(). */
enum status build(const struct wiring *w, const struct build_options *o,
                  struct built *out) MUST_CHECK;
void built_free(struct built *b); /* accepts {0}; the namespaces go with their last process */
/* Address of a rank as text. */
const char *build_address(uint32_t rank, char text[INSIDE_ADDRESS]);
/* Move the calling process to the namespace of a rank; false with errno. */
bool build_enter(const struct built *b, uint32_t rank);
/* Can this kernel make a queue of that kind ("htb", "netem") in the caller's network namespace? */
bool build_has_queue(const char *kind);

/* What htb is told of a link, so that programs see its bandwidth. */
double build_rate(const struct wiring_link *l, double dilation);
/* Make messages on a link take `factor` times as long from now on; INFINITY: it fails. Runs tc or
 * ip in the namespaces at its ends. STATUS_INVALID: no link of that name is wired; STATUS_IO. */
enum status build_slow(const struct built *b, const char *link, double factor) MUST_CHECK;

/* ---- carry.c */

/* Bytes per second of one TCP stream over a veth pair without a queue, as the others are set up;
 * takes a quarter of a second. */
enum status carry_measure(double *Bps) MUST_CHECK;
enum { CARRY_STREAMS = 2 };
/* The same of 1 or 2 streams that share one shaped link between two routers, each after its first
 * MiB: Bps[streams]. */
enum status carry_shaped(uint32_t streams, double bandwidth_Bps, double *Bps) MUST_CHECK;

/* ---- remote.c: how mpirun gets into the namespaces */

static const char remote_shell[] = "/dev/shm/remote-shell";
/* Write it, and give the nodes' namespaces names in /dev/shm. STATUS_IO. */
enum status remote_prepare(const struct built *b) MUST_CHECK;
/* "ADDRESS:RANKS,..." of all nodes, malloc'd; NULL when the ranks of a node do not follow each
 * other. STATUS_NOMEM. */
enum status remote_hosts(const struct wiring *w, char **out) MUST_CHECK;

/* ---- ranks.c */

struct ranks_options {
    char *const *command; /* NULL-terminated */
    uint16_t port;        /* MASTER_PORT */
};
/* Until all have ended. *code: 0, or the exit status of the first that failed (128 + signal). */
enum status ranks_run(const struct built *b, const struct ranks_options *o, int *code) MUST_CHECK;
/* $SHELL on the caller's terminal or input, in the node of a rank; *code is its exit status. */
enum status ranks_shell(const struct built *b, const struct ranks_options *o, uint32_t rank,
                        int *code) MUST_CHECK;

#endif
