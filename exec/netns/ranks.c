/* The command of an emulation, once per rank: environment, output line by line, and the end of all
 * when one has failed. */
#define _GNU_SOURCE
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "exec/netns/inside.h"
#include "host/family.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096, TICK_MS = 500 };
static const char hosts_file[] = "/dev/shm/hosts", names_file[] = "/dev/shm/etc-hosts";

/* One of a rank's two outputs. */
struct crew_output {
    int fd; /* -1: at its end */
    size_t n;
    char line[LINE];
};

struct rank {
    pid_t pid; /* 0: gone */
    struct crew_output out[2];
};

struct crew {
    const struct built *b;
    const struct ranks_options *o;
    struct rank *rank;   /* [ranks] */
    struct pollfd *poll; /* [2 * ranks + 1] */
    size_t alive, open;  /* ranks; outputs */
    int signals;         /* signalfd */
    sigset_t old;        /* mask */
    int code;            /* of the first failure */
    bool ending, cut;    /* cut: the delay line has ended */
    double end_at_s;     /* then SIGKILL */
};

/* ---- files: for programs, and so that names resolve */

static enum status crew_write_files(const struct wiring *w)
{
    enum status st = STATUS_OK;
    char address[INSIDE_ADDRESS];
    struct file_out hosts = {0}, names = {0};
    TRY(file_create(hosts_file, &hosts));
    TRY(file_create(names_file, &names));
    fprintf(names.stream, "127.0.0.1 localhost\n");
    for (size_t i = 0; i < w->nodes; i++) {
        build_address(w->space[i].first, address);
        fprintf(hosts.stream, "%s slots=%u\n", address, w->space[i].ranks);
        fprintf(names.stream, "%s %s\n", address, w->space[i].name);
    }
    TRY(file_commit(&hosts));
    TRY(file_commit(&names));
    /* Without it only addresses work; a machine may lack the file. */
    (void)mount(names_file, "/etc/hosts", NULL, MS_BIND, NULL);
out:
    file_discard(&hosts);
    file_discard(&names);
    return st;
}

/* ---- starting */

static void set_number(const char *name, size_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    setenv(name, text, 1);
}

static const char *node_name(const struct wiring *w, uint32_t rank)
{
    return w->space[w->space_of[rank]].name;
}

/* Names and /sys of its own; false with errno. */
static bool set_up_node(const char *name)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0 || sethostname(name, strlen(name)) != 0)
        return false;
    (void)mount("none", "/sys", "sysfs", 0, NULL); /* /sys/class/net of this namespace */
    return true;
}

/* What Open MPI's mpirun needs to know. */
static void set_mpi(void)
{
    setenv("OMPI_MCA_plm_rsh_agent", remote_shell, 1);
    setenv("OMPI_MCA_plm_rsh_no_tree_spawn", "1", 1);
    setenv("OMPI_MCA_pml", "ob1", 1);
    setenv("OMPI_MCA_btl", "tcp,self", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "10.99.0.0/16", 1);
    setenv("OMPI_MCA_oob_tcp_if_include", "10.99.0.0/16", 1);
}

static void set_common(size_t ranks, uint16_t port)
{
    char master[INSIDE_ADDRESS];
    set_number("WORLD_SIZE", ranks);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", build_address(0, master), 1);
    setenv("FORELINE_HOSTS", hosts_file, 1);
    set_mpi();
}

/* A child with its node's namespaces; on failure it says so where the rank's own complaints go. */
static void crew_exec_rank(const struct crew *c, uint32_t r, int out, int err)
{
    const struct wiring *w = c->b->w;
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!build_enter(c->b, r) || !set_up_node(node_name(w, r)) || dup2(empty, 0) < 0 ||
        dup2(out, 1) < 0 || dup2(err, 2) < 0) {
        dprintf(err, "foreline: %s\n", strerror(errno));
        _exit(126);
    }
    closefrom(3);
    set_common(w->ranks, c->o->port);
    set_number("RANK", r);
    set_number("LOCAL_RANK", w->local[r]);
    set_number("LOCAL_WORLD_SIZE", w->space[w->space_of[r]].ranks);
    sigprocmask(SIG_SETMASK, &c->old, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    execvp(c->o->command[0], c->o->command);
    dprintf(2, "foreline: %s: %s\n", c->o->command[0], strerror(errno));
    _exit(127);
}

/* Both outputs are pipes, so that lines of different ranks do not mix. */
static enum status crew_start(struct crew *c, uint32_t r)
{
    struct rank *rank = &c->rank[r];
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && (rank->pid = fork()) == 0)
        crew_exec_rank(c, r, out[1], err[1]);
    int reason = errno;
    rank->out[0].fd = out[0];
    rank->out[1].fd = err[0];
    if (out[1] >= 0)
        close(out[1]);
    if (err[1] >= 0)
        close(err[1]);
    if (rank->pid <= 0) {
        rank->pid = 0;
        return error_set(STATUS_IO, "rank %u: %s", r, strerror(reason));
    }
    c->alive++;
    c->open += 2;
    return STATUS_OK;
}

/* ---- output */

static void print_line(uint32_t r, int which, const char *line, size_t n)
{
    fflush(which ? stderr : stdout);
    dprintf(which ? STDERR_FILENO : STDOUT_FILENO, "[%u] %.*s\n", r, (int)n, line);
}

/* Whole lines, and what is longer in pieces. */
static void read_stream(struct crew *c, uint32_t r, int which)
{
    struct crew_output *s = &c->rank[r].out[which];
    ssize_t got = read(s->fd, s->line + s->n, LINE - s->n);
    if (got < 0 && errno == EINTR)
        return;
    s->n += got > 0 ? (size_t)got : 0;
    char *newline;
    while ((newline = memchr(s->line, '\n', s->n))) {
        size_t n = (size_t)(newline - s->line);
        print_line(r, which, s->line, n);
        s->n -= n + 1;
        memmove(s->line, newline + 1, s->n);
    }
    if (s->n == LINE || (got <= 0 && s->n > 0)) {
        print_line(r, which, s->line, s->n);
        s->n = 0;
    }
    if (got <= 0) {
        close(s->fd);
        s->fd = -1;
        c->open--;
    }
}

/* ---- ending */

/* All in this PID namespace but us. In any other one than the sandbox's that would be everybody. */
static void kill_others(int number)
{
    if (getpid() == 1)
        kill(-1, number);
}

static void end_all(struct crew *c, int code)
{
    if (c->ending)
        return;
    c->ending = true;
    c->code = code;
    kill_others(SIGTERM);
    c->end_at_s = clock_now() + limit_wait(WAIT_PROGRAMS);
}

/* The first that fails decides the exit status, and ends the others. */
static void crew_reap(struct crew *c)
{
    int ended;
    pid_t pid;
    while ((pid = waitpid(-1, &ended, WNOHANG)) > 0) {
        c->cut = c->cut || (pid == c->b->line && !c->ending);
        for (uint32_t r = 0; r < c->b->w->ranks; r++) {
            if (c->rank[r].pid != pid)
                continue;
            int code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
            c->rank[r].pid = 0;
            c->alive--;
            if (code && !c->ending) {
                if (c->o->notes)
                    fprintf(c->o->notes, "foreline: rank %u exited with status %d\n", r, code);
                end_all(c, code);
            }
        }
    }
}

static void crew_take_signal(struct crew *c)
{
    struct signalfd_siginfo info;
    if (read(c->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    int signal = (int)info.ssi_signo;
    if (signal != SIGCHLD && !c->ending && c->o->notes)
        fprintf(c->o->notes, "foreline: interrupted by signal %d (%s)\n", signal,
                strsignal(signal));
    if (signal == SIGCHLD)
        crew_reap(c);
    else
        end_all(c, 128 + signal);
}

/* Outputs may stay open in processes that a rank has left behind: these end with us. */
static enum status crew_watch(struct crew *c)
{
    size_t n = 2 * c->b->w->ranks;
    struct family_watch line = {0};
    while (c->alive > 0) {
        for (size_t i = 0; i < n; i++)
            c->poll[i] = (struct pollfd){c->rank[i / 2].out[i % 2].fd, POLLIN, 0};
        c->poll[n] = (struct pollfd){c->signals, POLLIN, 0};
        if (poll(c->poll, n + 1, c->ending ? 100 : TICK_MS) < 0 && errno != EINTR)
            return error_set(STATUS_IO, "poll: %s", strerror(errno));
        for (size_t i = 0; i < n; i++)
            if (c->poll[i].revents)
                read_stream(c, (uint32_t)(i / 2), (int)(i % 2));
        if (c->poll[n].revents)
            crew_take_signal(c);
        if (c->cut)
            return error_set(
                STATUS_EXTERNAL,
                "the delay line (process %ld, which adds the link latencies) exited too early",
                (long)c->b->line);
        PASS(family_check(&line, c->b->line, "the delay line"));
        if (c->ending && clock_now() >= c->end_at_s)
            kill_others(SIGKILL);
    }
    return STATUS_OK;
}

/* What ended ranks had still to say, without waiting for more. */
static void crew_drain(struct crew *c)
{
    for (uint32_t r = 0; r < c->b->w->ranks; r++)
        for (int k = 0; k < 2; k++) {
            struct pollfd p = {c->rank[r].out[k].fd, POLLIN, 0};
            while (c->rank[r].out[k].fd >= 0 && poll(&p, 1, 0) > 0)
                read_stream(c, r, k);
        }
}

/* Signals come as events, so that Ctrl-C ends the ranks and then the emulation. */
enum status ranks_run(const struct built *b, const struct ranks_options *o, int *code)
{
    enum status st;
    struct crew c = {.b = b, .o = o, .signals = -1};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigprocmask(SIG_BLOCK, &set, &c.old);
    c.signals = signalfd(-1, &set, SFD_CLOEXEC);
    TRY(c.signals < 0 ? error_set(STATUS_IO, "signalfd: %s", strerror(errno)) : STATUS_OK);
    TRY(ARRAY_NEW(c.rank, b->w->ranks));
    TRY(ARRAY_NEW(c.poll, 2 * b->w->ranks + 1));
    TRY(crew_write_files(b->w));
    for (uint32_t r = 0; r < b->w->ranks; r++)
        TRY(crew_start(&c, r));
    TRY(crew_watch(&c));
    crew_drain(&c);
    *code = c.code;
out: /* the processes end with the sandbox */
    if (c.signals >= 0)
        close(c.signals);
    sigprocmask(SIG_SETMASK, &c.old, NULL);
    free(c.rank);
    free(c.poll);
    return st;
}

void ranks_be_shell(const char *name, size_t ranks, uint16_t port)
{
    const char *shell = getenv("SHELL");
    shell = shell && *shell ? shell : "/bin/sh";
    if (!set_up_node(name)) {
        dprintf(2, "foreline: %s\n", strerror(errno));
        _exit(126);
    }
    closefrom(3);
    set_common(ranks, port);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    execl(shell, shell, (char *)NULL);
    dprintf(2, "foreline: %s: %s\n", shell, strerror(errno));
    _exit(127);
}

enum status ranks_shell(const struct built *b, const struct ranks_options *o, uint32_t rank,
                        int *code)
{
    PASS(crew_write_files(b->w));
    pid_t pid = fork();
    if (pid == 0 && !build_enter(b, rank))
        _exit(126);
    if (pid == 0)
        ranks_be_shell(node_name(b->w, rank), b->w->ranks, o->port);
    if (pid < 0)
        return error_set(STATUS_IO, "fork: %s", strerror(errno));
    *code = sandbox_wait(pid);
    return STATUS_OK;
}
