/* inside.h - what happens in the emulator's own namespaces; called by netns.c and check.c.
 *
 *   sandbox.c  processes: the namespaces that everything lives in, and dies with
 *   wiring.c   what is built, as wiring_made.c does for measurements
 *   ways.c     the addresses and routes of a namespace
 *   build.c    a wiring becomes network namespaces, veth pairs, routes and queues
 *   line.c     latencies where the kernel has no netem: a process that holds packets back
 *   carry.c    what this machine can carry, and how exactly
 *   remote.c   a remote shell between the namespaces, for mpirun
 *   ranks.c    the program, once per rank
 *   join.c     a shell in an emulation that runs */
#ifndef EXEC_NETNS_INSIDE_H
#define EXEC_NETNS_INSIDE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "exec/netns/netns.h"
#include "exec/netns/wiring.h"

enum { INSIDE_ADDRESS = 16 };

/* What makes latencies. */
enum latencies { LATENCY_NONE, LATENCY_NETEM, LATENCY_LINE };

/* ---- sandbox.c */

/* Of its first process, as /proc/PID/comm has it. */
static const char sandbox_name[] = "foreline-netns";

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

/* Write a text to a file of the kernel's. STATUS_UNSUPPORTED. */
enum status sandbox_put(const char *path, const char *text) MUST_CHECK;
/* Exit status of a child once it has ended, 128 + signal where one ended it. */
int sandbox_wait(pid_t child);

/* Run `ip` or `tc` with these words, NULL-terminated, and `script` on its standard input; in
 * network namespace `space` (a descriptor; -1: the caller's). STATUS_IO with the first line of what
 * it complains about, STATUS_UNSUPPORTED when it is not installed. */
enum status sandbox_tool(int space, const char *const *words, const char *script) MUST_CHECK;

/* ---- wiring.c */

/* Room in {0}: all ways are WIRING_NONE. STATUS_NOMEM. */
enum status wiring_allocate(size_t ranks, size_t spaces, size_t links,
                            struct wiring *out) MUST_CHECK;
/* A host name out of any name; of number `number` without one. */
void wiring_name(const char *name, size_t number, struct wiring_space *s);

/* ---- ways.c */

/* Lines for `ip -batch`: interfaces up, addresses, a route for each rank, rules for detours. */
void ways_write(const struct wiring *w, uint32_t space, FILE *f);

/* ---- line.c: packets that come out of one interface's wire leave at another's a time later. Both
 * are ends of veth pairs in one namespace; a shaper before them has given the packets their
 * distance. */

enum { LINE_WHY = 160 };

struct line_link {
    double delay_s, rate_Bps; /* 0: not known */
};

/* Is a latency long enough? A packet takes some 30 us in here: none is nearer to less than 15. */
bool line_delays(double latency_s);
/* Can the caller's network namespace have one? Else why[] says why not. */
bool line_possible(const struct line_link *link, size_t links, char why[LINE_WHY]) MUST_CHECK;
/* Name of an end of a link, 0 or 1, in the delay line's namespace. */
const char *line_end(size_t link, int end, char name[IFNAMSIZ]);
/* Join the ends of each of the links, which are up, in a process of its own. Leaves the caller in
 * namespace `space`. STATUS_IO, STATUS_NOMEM. */
enum status line_start(int space, const struct line_link *link, size_t links,
                       pid_t *pid) MUST_CHECK;

/* ---- build.c */

struct built {
    const struct wiring *w;
    int *fd; /* [w->spaces + 1], the last of the delay line: -1 without one */
    double dilation;
    pid_t line; /* the delay line; 0: none */
};

struct build_options {
    double dilation; /* bandwidths are divided by it, latencies multiplied */
    enum latencies latencies;
};

/* What makes latencies in the caller's network namespace; for LATENCY_NONE, why[] says why none do.
 * Runs tc. */
enum latencies build_latencies(const struct wiring *w, double dilation,
                               char why[LINE_WHY]) MUST_CHECK;

/* STATUS_IO, STATUS_UNSUPPORTED, STATUS_NOMEM; `out` is then fit for built_free(). */
enum status build(const struct wiring *w, const struct build_options *o,
                  struct built *out) MUST_CHECK;
/* Accepts {0}; ends the delay line, the namespaces go with their last process. */
void built_free(struct built *b);
/* Address of a rank as text. */
const char *build_address(uint32_t rank, char text[INSIDE_ADDRESS]);
/* Move the calling process to the namespace of a rank; false with errno. */
bool build_enter(const struct built *b, uint32_t rank);
/* Can this kernel make a queue of that kind ("htb", "netem") in the caller's network namespace? */
bool build_has_queue(const char *kind);

/* What htb is told of a link, so that programs see its bandwidth. */
double build_rate(const struct wiring_link *l, double dilation);
/* Make messages on a link take `factor` times as long from now on; INFINITY: it fails. Runs tc or
 * ip in the namespaces at its ends. STATUS_USAGE: no link of that name is wired; STATUS_IO. */
enum status build_slow(const struct built *b, const char *link, double factor) MUST_CHECK;

/* ---- carry.c */

/* Bytes per second of one TCP stream over a veth pair without a queue, as the others are set up,
 * through a delay line if that is what makes latencies; takes a quarter of a second. */
enum status carry_measure(enum latencies latencies, double *Bps) MUST_CHECK;
enum { CARRY_STREAMS = 2 };
struct carry_test {
    uint32_t streams; /* 1 or 2 that share one link between two routers */
    double bandwidth_Bps, latency_s;
    enum latencies latencies;
};
/* The same of shaped streams, each after its first MiB: Bps[streams]. */
enum status carry_shaped(const struct carry_test *test, double *Bps) MUST_CHECK;
/* Seconds that a small message takes over a link of that latency: half of what it takes there and
 * back, the median. */
enum status carry_latency(enum latencies latencies, double latency_s, double *took_s) MUST_CHECK;

/* ---- netns.c */

/* Find the dilation that the options ask for; refuse what would measure this machine instead of the
 * platform. STATUS_UNSUPPORTED, and errors of carry_measure(). */
enum status load_check(const struct netns_options *o, const struct wiring *w,
                       enum latencies latencies, double *dilation) MUST_CHECK;

/* ---- remote.c: how mpirun gets into the namespaces */

static const char remote_shell[] = "/dev/shm/remote-shell";
/* Write it, and give the nodes' namespaces names in /dev/shm. STATUS_IO. */
enum status remote_prepare(const struct built *b) MUST_CHECK;
/* "ADDRESS:RANKS,..." of all nodes, malloc'd; NULL when the ranks of a node do not follow each
 * other. STATUS_NOMEM. */
enum status remote_hosts(const struct wiring *w, char **out) MUST_CHECK;

/* ---- ranks.c */

struct ranks_options {
    FILE *notes;          /* who failed; NULL: nobody is told */
    char *const *command; /* NULL-terminated */
    uint16_t port;        /* MASTER_PORT */
};
/* Until all have ended. *code: 0, or the exit status of the first that failed (128 + signal). */
enum status ranks_run(const struct built *b, const struct ranks_options *o, int *code) MUST_CHECK;
/* $SHELL on the caller's terminal or input, in the node of a rank; *code is its exit status. */
enum status ranks_shell(const struct built *b, const struct ranks_options *o, uint32_t rank,
                        int *code) MUST_CHECK;
/* Become $SHELL in the caller's network namespace, which is that of the node of this host name. */
_Noreturn void ranks_be_shell(const char *name, size_t ranks, uint16_t port);

/* ---- join.c */

/* Write down where the ranks are, for netns_join(). STATUS_IO. */
enum status join_publish(const struct built *b, const struct netns_options *o) MUST_CHECK;

#endif
