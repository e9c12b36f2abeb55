#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exec/calibrate.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/measurement.h"
#include "exec/calibrate_run.h"
#include "exec/tcp/socket.h"

enum { MAX_RANKS = 64, MAX_REPEATS = 10000 };

/* ---- ranks */

struct team {
    struct bench *bench;
    size_t bytes; /* of the shared memory */
    int listener[MAX_RANKS];
    uint16_t port[MAX_RANKS];
    pid_t pid[MAX_RANKS]; /* 0: not running */
};

static enum status share(struct team *t, const struct calibrate_options *o)
{
    size_t pairs = o->ranks * (o->ranks - 1) / 2;
    size_t calls = figures_n() * o->ranks * o->repeats, ways = pairs * LINK_SIZES * o->repeats;
    t->bytes = sizeof(struct bench) + (calls + ways) * sizeof(double);
    void *p = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return error_set(STATUS_NOMEM, "shared memory: %s", strerror(errno));
    t->bench = p;
    *t->bench = (struct bench){.ranks = o->ranks, .repeats = o->repeats, .progress = o->progress};
    t->bench->call_s = (double *)(t->bench + 1);
    t->bench->way_s = t->bench->call_s + calls;
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&t->bench->together, &attr, (unsigned)o->ranks);
    pthread_barrierattr_destroy(&attr);
    return STATUS_OK;
}

/* In the child; does not return. */
static void be_rank(struct team *t, uint32_t rank, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (getppid() != parent)
        _exit(1);
    enum status st = bench_ops(t->bench, rank);
    if (st == STATUS_OK)
        st = bench_links(t->bench, rank, t->listener, t->port);
    if (st != STATUS_OK) {
        t->bench->st = st;
        snprintf(t->bench->message, sizeof t->bench->message, "rank %u: %s", rank, error_message());
    }
    _exit(st == STATUS_OK ? 0 : 1);
}

static enum status start(struct team *t)
{
    enum status st = STATUS_OK;
    pid_t self = getpid();
    for (size_t r = 0; r < t->bench->ranks; r++)
        TRY(socket_listen(&t->listener[r], &t->port[r]));
    for (uint32_t r = 0; r < t->bench->ranks; r++) {
        t->pid[r] = fork();
        if (t->pid[r] == 0)
            be_rank(t, r, self);
        if (t->pid[r] < 0) {
            t->pid[r] = 0;
            st = error_set(STATUS_IO, "fork: %s", strerror(errno));
            goto out;
        }
    }
out:
    return st;
}

/* Wait for the ranks one after the other as long as all are well. */
static enum status watch(struct team *t)
{
    for (size_t left = t->bench->ranks; left > 0;) {
        clock_sleep_until(clock_now() + 0.02);
        for (size_t r = 0; r < t->bench->ranks; r++) {
            int status;
            if (!t->pid[r] || waitpid(t->pid[r], &status, WNOHANG) != t->pid[r])
                continue;
            t->pid[r] = 0;
            left--;
            if (WIFSIGNALED(status))
                return error_set(STATUS_EXTERNAL, "rank %zu killed by signal %d while calibrating",
                                 r, WTERMSIG(status));
            if (t->bench->st != STATUS_OK)
                return error_set(t->bench->st, "%s", t->bench->message);
            if (WEXITSTATUS(status) != 0)
                return error_set(STATUS_EXTERNAL, "rank %zu exited with status %d", r,
                                 WEXITSTATUS(status));
        }
    }
    return STATUS_OK;
}

static void dismiss(struct team *t)
{
    for (size_t r = 0; r < MAX_RANKS; r++) {
        if (t->pid[r]) {
            kill(t->pid[r], SIGKILL);
            waitpid(t->pid[r], NULL, 0);
        }
        socket_close(&t->listener[r]);
    }
    if (t->bench)
        munmap(t->bench, t->bytes);
}

/* ---- medians */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double sorted_median(const double *value, size_t n)
{
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

/* Interquartile range / median of every figure so far. */
struct spreads {
    size_t n;
    double *value; /* [figures_n() + LINK_SIZES] */
};

/* Median of value[n], which is sorted in place; notes the spread. */
static double middle(double *value, size_t n, struct spreads *s)
{
    qsort(value, n, sizeof *value, by_value);
    double m = sorted_median(value, n);
    s->value[s->n++] = m > 0 ? (value[(3 * n) / 4] - value[n / 4]) / m : 0;
    return m;
}

static double figure_s(const struct bench *b, size_t figure, struct spreads *spread)
{
    return middle(calls_of(b, figure, 0), b->ranks * b->repeats, spread);
}

/* ---- rates */

static enum status add_point(struct topology_rate *r, double flop, double seconds)
{
    if (r->n > 0 && flop == r->flop[r->n - 1]) { /* same work in another shape: mean time */
        double before_s = flop / r->flops[r->n - 1];
        r->flops[r->n - 1] = flop / ((before_s + seconds) / 2);
        return STATUS_OK;
    }
    r->flop[r->n] = flop;
    r->flops[r->n++] = flop / seconds;
    return STATUS_OK;
}

/* All probes of one kind and phase, which are in ascending order of work. */
static enum status make_rate(const struct bench *b, const char *kind, const char *phase,
                             struct spreads *spread, struct topology_rate *r)
{
    enum status st = STATUS_OK;
    bool backward = !strcmp(phase, "backward");
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, phase);
    r->kind = strdup(name);
    r->flop = calloc(probes_n, sizeof *r->flop);
    r->flops = calloc(probes_n, sizeof *r->flops);
    if (!r->kind || !r->flop || !r->flops)
        return error_set(STATUS_NOMEM, "rates");
    for (size_t k = 0; k < probes_n; k++)
        if (!strcmp(probes[k].kind, kind))
            TRY(add_point(r, probe_flop(&probes[k], backward),
                          figure_s(b, 2 * k + backward, spread)));
out:
    return st;
}

static enum status make_rates(const struct bench *b, struct spreads *spread,
                              struct device_type *type)
{
    enum status st = STATUS_OK;
    type->rate = calloc(2 * probes_n, sizeof *type->rate);
    if (!type->rate)
        return error_set(STATUS_NOMEM, "rates");
    for (size_t k = 0; k < probes_n; k++) {
        const char *kind = probes[k].kind;
        if (k > 0 && !strcmp(kind, probes[k - 1].kind))
            continue;
        bool update = !strcmp(kind, "adam") || !strcmp(kind, "sgd");
        TRY(make_rate(b, kind, update ? "update" : "forward", spread, &type->rate[type->rates++]));
        if (!update)
            TRY(make_rate(b, kind, "backward", spread, &type->rate[type->rates++]));
    }
out:
    return st;
}

/* Attainable speed of dense work: the best of the linear layers. */
static double best_linear(const struct device_type *type)
{
    double best = 0;
    for (size_t k = 0; k < type->rates; k++)
        for (size_t i = 0; i < type->rate[k].n && !strcmp(type->rate[k].kind, "linear.forward");
             i++)
            best = fmax(best, type->rate[k].flops[i]);
    return best;
}

static enum status make_type(const struct bench *b, struct spreads *spread, struct topology *out)
{
    enum status st = STATUS_OK;
    out->type = calloc(1, sizeof *out->type);
    if (!out->type)
        return error_set(STATUS_NOMEM, "device type");
    out->types = 1;
    struct device_type *type = out->type;
    type->name = strdup("cpu");
    if (!type->name)
        return error_set(STATUS_NOMEM, "device type");
    TRY(make_rates(b, spread, type));
    type->flops = best_linear(type);
    type->launch_s = figure_s(b, 2 * probes_n + FIGURE_LAUNCH, spread);
    type->memory_Bps = 2.0 * COPY_BYTES / figure_s(b, 2 * probes_n + FIGURE_COPY, spread);
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    type->memory_bytes = (int64_t)(ram / (double)b->ranks);
out:
    return st;
}

/* ---- links */

/* Latency and bandwidth of t = latency + bytes / bandwidth: least squares of the relative error.
 * Neither comes out below what is physical: latency >= 0. */
static void fit(const double *t, struct topology_tier *out)
{
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
    for (size_t k = 0; k < LINK_SIZES; k++) {
        double w = 1 / (t[k] * t[k]), x = (double)link_sizes[k];
        s += w;
        sx += w * x;
        sxx += w * x * x;
        sy += w * t[k];
        sxy += w * x * t[k];
    }
    double slope = (s * sxy - sx * sy) / (s * sxx - sx * sx);
    out->latency_s = fmax(0, (sy - slope * sx) / s);
    out->bandwidth_Bps = 1 / fmax(slope, 1e-15);
}

static enum status make_tier(const struct bench *b, struct spreads *spread, struct topology *out)
{
    size_t pairs = b->ranks * (b->ranks - 1) / 2;
    double way_s[LINK_SIZES], *all = calloc(pairs * b->repeats + 1, sizeof *all);
    out->tier = calloc(1, sizeof *out->tier);
    if (!out->tier || !all) {
        free(all);
        return error_set(STATUS_NOMEM, "tier");
    }
    for (size_t s = 0; s < LINK_SIZES; s++) {
        for (size_t p = 0; p < pairs; p++)
            memcpy(all + p * b->repeats, ways_of(b, p, s), b->repeats * sizeof *all);
        way_s[s] = pairs ? middle(all, pairs * b->repeats, spread) : 1;
    }
    free(all);
    out->tier->name = strdup("loopback");
    if (!out->tier->name)
        return error_set(STATUS_NOMEM, "tier");
    out->tiers = pairs > 0;
    fit(way_s, out->tier);
    return STATUS_OK;
}

static enum status make_topology(const struct bench *b, struct spreads *spread,
                                 struct topology *out)
{
    enum status st = STATUS_OK;
    size_t n = b->ranks;
    out->name = strdup("calibrated");
    out->device = calloc(n, sizeof *out->device);
    out->type_of = calloc(n, sizeof *out->type_of);
    if (!out->name || !out->device || !out->type_of)
        return error_set(STATUS_NOMEM, "%zu devices", n);
    for (size_t r = 0; r < n; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank%zu", r);
        out->device[r] = strdup(name);
        if (!out->device[r])
            return error_set(STATUS_NOMEM, "%zu devices", n);
        out->n++;
    }
    TRY(make_type(b, spread, out));
    TRY(make_tier(b, spread, out));
out:
    return st;
}

enum status calibrate_cpu(const struct calibrate_options *o, struct topology *out,
                          struct calibrate_spread *spread)
{
    enum status st;
    struct team t = {0};
    struct topology topology = {0};
    struct spreads spreads = {.value = calloc(figures_n() + LINK_SIZES, sizeof *spreads.value)};

    for (size_t r = 0; r < MAX_RANKS; r++)
        t.listener[r] = -1;
    if (o->ranks < 1 || o->ranks > MAX_RANKS || o->repeats < 1 || o->repeats > MAX_REPEATS) {
        st = error_set(STATUS_INVALID, "%zu ranks, %zu repeats: expected 1 to %d and 1 to %d",
                       o->ranks, o->repeats, MAX_RANKS, MAX_REPEATS);
        goto out;
    }
    if (!spreads.value) {
        st = error_set(STATUS_NOMEM, "calibration");
        goto out;
    }
    TRY(share(&t, o));
    TRY(start(&t));
    TRY(watch(&t));
    TRY(make_topology(t.bench, &spreads, &topology));
    *out = topology;
    topology = (struct topology){0};
    qsort(spreads.value, spreads.n, sizeof *spreads.value, by_value);
    *spread = (struct calibrate_spread){.median = sorted_median(spreads.value, spreads.n),
                                        .worst = spreads.value[spreads.n - 1]};
out:
    free(spreads.value);
    topology_free(&topology);
    dismiss(&t);
    return st;
}
