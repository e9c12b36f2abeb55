/* What the emulator needs of a machine, one ability after the other, and how exactly the rates of a
 * platform's links come out. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/units.h"
#include "exec/netns/inside.h"
#include "exec/netns/netns.h"

/* ---- what the machine can do */

enum { SANDBOX, LINKS, HTB, RATES, SHARING, NETEM, LATENCIES };

static void found(struct netns_ability *a, enum status st, const char *what)
{
    a->there = st == STATUS_OK;
    snprintf(a->detail, sizeof a->detail, "%s", a->there ? what : error_message());
}

/* ---- how exact, against what was asked for */

static const double slow_ms = 0.1; /* of a message */

static void probe_rates(struct netns_ability *a)
{
    static const double Mbps[] = {50, 200, 1000};
    enum status st = STATUS_OK;
    size_t n = 0;
    a->there = true;
    for (size_t k = 0; k < sizeof Mbps / sizeof *Mbps && st == STATUS_OK; k++) {
        double asked = Mbps[k] * 125000, got;
        st = carry_shaped(&(struct carry_test){.streams = 1, .bandwidth_Bps = asked}, &got);
        if (st != STATUS_OK)
            break;
        a->there = a->there && fabs(got / asked - 1) <= netns_exact;
        n += (size_t)snprintf(a->detail + n, sizeof a->detail - n, "%s%.1f %% of %g Mbit/s",
                              k ? ", " : "", 100 * got / asked, Mbps[k]);
    }
    if (st != STATUS_OK)
        found(a, st, "");
}

static void probe_sharing(struct netns_ability *a)
{
    const double asked = 200 * 125000;
    double got[CARRY_STREAMS];
    char detail[128] = "";
    enum status st =
        carry_shaped(&(struct carry_test){.streams = CARRY_STREAMS, .bandwidth_Bps = asked}, got);
    if (st == STATUS_OK)
        snprintf(detail, sizeof detail, "two streams over 200 Mbit/s get %.1f %% and %.1f %% of it",
                 100 * got[0] / asked, 100 * got[1] / asked);
    found(a, st, detail);
    a->there = a->there && fabs(2 * got[0] / asked - 1) <= netns_exact &&
               fabs(2 * got[1] / asked - 1) <= netns_exact;
}

/* Messages over a link of each latency, and a stream where many packets are under way. */
static void probe_latencies(enum latencies by, struct netns_ability *a)
{
    static const double ms[] = {0.1, 1, 10};
    const struct carry_test fast = {
        .streams = 1, .bandwidth_Bps = 125e6, .latency_s = 1e-3, .latencies = by};
    enum status st = STATUS_OK;
    double got;
    size_t n = 0;
    a->there = true;
    for (size_t k = 0; k < sizeof ms / sizeof *ms && st == STATUS_OK; k++) {
        st = carry_latency(by, ms[k] / 1000, &got);
        if (st != STATUS_OK)
            break;
        a->there = a->there && got * 1000 <= ms[k] * (1 + netns_exact) + slow_ms;
        n += (size_t)snprintf(a->detail + n, sizeof a->detail - n, "%s%.3f of %g ms", k ? ", " : "",
                              got * 1000, ms[k]);
    }
    if (st == STATUS_OK)
        st = carry_shaped(&fast, &got);
    if (st == STATUS_OK)
        snprintf(a->detail + n, sizeof a->detail - n, "; %.1f %% of 1 Gbit/s at 1 ms",
                 100 * got / fast.bandwidth_Bps);
    else
        found(a, st, "");
}

static void probe_delays(struct netns_ability *a)
{
    char why[LINE_WHY] = "";
    const struct wiring nothing = {0};
    enum latencies by = build_latencies(&nothing, 1, why);
    a[NETEM].there = by == LATENCY_NETEM;
    snprintf(a[NETEM].detail, sizeof a[NETEM].detail, "%s",
             a[NETEM].there ? "latencies are emulated"
                            : "no netem in this kernel (sch_netem): the transport adds latencies "
                              "to plans over TCP, and a delay line adds them to commands and MPI");
    if (by == LATENCY_NONE)
        snprintf(a[LATENCIES].detail, sizeof a[LATENCIES].detail,
                 "commands and MPI get no emulated latencies: %s", why);
    else
        probe_latencies(by, &a[LATENCIES]);
}

/* In the order of the abilities: what a later one needs has been looked at before. */
static enum status probe(void *argument, int *code)
{
    struct netns_ability *a = argument;
    double carried;
    char text[UNITS_TEXT], detail[128];
    *code = 0;
    found(&a[SANDBOX], STATUS_OK, "allowed");
    enum status st = carry_measure(LATENCY_NONE, &carried);
    if (st == STATUS_OK)
        snprintf(detail, sizeof detail, "one TCP stream over a veth pair carries %s",
                 units_print(UNIT_RATE, carried, text));
    found(&a[LINKS], st, detail);
    found(&a[HTB], build_has_queue("htb") ? STATUS_OK : STATUS_IO, "rates are shaped");
    if (a[HTB].there) {
        probe_rates(&a[RATES]);
        probe_sharing(&a[SHARING]);
    }
    probe_delays(a);
    return STATUS_OK;
}

/* The sandbox is a process of its own: results come back in memory that is shared with it. */
enum status netns_check(struct netns_ability ability[NETNS_ABILITIES])
{
    static const struct netns_ability blank[NETNS_ABILITIES] = {
        [SANDBOX] = {.name = "namespaces", .needed = true, .detail = ""},
        [LINKS] = {.name = "veth pairs", .needed = true, .detail = "not checked"},
        [HTB] = {.name = "htb", .needed = true, .detail = "not checked"},
        [RATES] = {.name = "rates", .needed = false, .detail = "not checked"},
        [SHARING] = {.name = "sharing", .needed = false, .detail = "not checked"},
        [NETEM] = {.name = "netem", .needed = false, .detail = "not checked"},
        [LATENCIES] = {.name = "latencies", .needed = false, .detail = "not checked"},
    };
    int code;
    size_t size = sizeof blank;
    struct netns_ability *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_IO,
                         "out of memory: cannot allocate shared memory to check the emulation");
    memcpy(shared, blank, size);
    enum status st = sandbox_run(probe, shared, &code);
    if (st != STATUS_OK)
        found(&shared[SANDBOX], st, "");
    memcpy(ability, shared, size);
    munmap(shared, size);
    return STATUS_OK;
}

/* ---- the rates of a platform */

struct rates {
    const struct netns_options *o;
    struct wiring w;
    struct shared_rates {
        double dilation;
        size_t n;
        struct netns_rate rate[];
    } * shared; /* with room for all links */
};

static void list_rates(const struct wiring *w, struct shared_rates *out)
{
    for (size_t i = 0; i < w->links; i++) {
        size_t k = 0;
        if (w->link[i].bandwidth_Bps <= 0) /* without a limit */
            continue;
        while (k < out->n && out->rate[k].bandwidth_Bps != w->link[i].bandwidth_Bps)
            k++;
        if (k == out->n)
            out->rate[out->n++] = (struct netns_rate){.bandwidth_Bps = w->link[i].bandwidth_Bps};
        out->rate[k].links++;
    }
    qsort(out->rate, out->n, sizeof *out->rate, by_value);
}

static enum status measure_rates(void *argument, int *code)
{
    const struct rates *r = argument;
    struct shared_rates *s = r->shared;
    *code = 0;
    PASS(load_check(r->o, &r->w, LATENCY_NONE, &s->dilation));
    list_rates(&r->w, s);
    for (size_t k = 0; k < s->n; k++) {
        struct carry_test test = {.streams = 1,
                                  .bandwidth_Bps = s->rate[k].bandwidth_Bps / s->dilation};
        PASS(carry_shaped(&test, &s->rate[k].share));
        s->rate[k].share /= test.bandwidth_Bps;
    }
    return STATUS_OK;
}

/* Each distinct rate is measured once, whatever the number of links that have it. */
enum status netns_check_rates(const struct netns_options *o, double *dilation,
                              struct netns_rate **out, size_t *n)
{
    enum status st;
    struct rates r = {.o = o};
    size_t size = 0;
    int code;
    TRY(wiring_plan(o->topology, o->network, o->ranks, o->device, &r.w));
    size = sizeof *r.shared + r.w.links * sizeof *r.shared->rate;
    r.shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRY(r.shared == MAP_FAILED ? error_set(STATUS_NOMEM, "out of memory") : STATUS_OK);
    TRY(sandbox_run(measure_rates, &r, &code));
    *dilation = r.shared->dilation;
    *n = r.shared->n;
    TRY(ARRAY_COPY(*out, r.shared->rate, *n));
out:
    if (r.shared && r.shared != MAP_FAILED)
        munmap(r.shared, size);
    wiring_free(&r.w);
    return st;
}
