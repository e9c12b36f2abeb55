#define _GNU_SOURCE
#include "exec/netns/netns.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/units.h"
#include "exec/netns/inside.h"

struct job {
    const struct netns_options *o;
    struct wiring w;
    enum status (*fn)(void *argument, const struct netns_inside *inside); /* NULL: the command */
    void *argument;
};

/* Refuse what would measure this machine instead of the platform. */
static enum status check_load(const struct job *j)
{
    double carried, wanted = j->w.sending_Bps / j->o->dilation;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    enum status st = carry_measure(&carried);
    if (st == STATUS_OK && wanted > carried)
        st = error_set(STATUS_UNSUPPORTED,
                       "the nodes may send %s together, this machine has just carried %s: "
                       "--dilate %.0f",
                       units_print(UNIT_RATE, wanted, a), units_print(UNIT_RATE, carried, b),
                       ceil(j->w.sending_Bps / carried * 1.2));
    return st;
}

static void describe(const struct job *j, bool delays)
{
    const struct wiring *w = &j->w;
    double latency_s = 0;
    for (size_t i = 0; i < w->links; i++)
        latency_s = fmax(latency_s, w->link[i].latency_s);
    fprintf(stderr, "foreline: %zu ranks on %zu nodes, %zu routers, %zu links%s\n", w->ranks,
            w->nodes, w->spaces - w->nodes, w->links,
            latency_s > 0 && !delays ? "; latencies left out: this kernel has no netem" : "");
}

static bool enter(const void *context, uint32_t rank)
{
    return build_enter(context, rank);
}

static enum status call_inside(const struct job *j, const struct built *b)
{
    char address[INSIDE_ADDRESS];
    size_t ranks = j->w.ranks, n = 0;
    char *all = calloc(ranks, INSIDE_ADDRESS + 1);
    if (!all)
        return error_set(STATUS_NOMEM, "out of memory");
    for (uint32_t r = 0; r < ranks; r++)
        n += (size_t)sprintf(all + n, "%s%s", r ? "," : "", build_address(r, address));
    const struct netns_inside inside = {build_address(0, address), all, enter, b};
    enum status st = build_enter(b, 0)
                         ? j->fn(j->argument, &inside)
                         : error_set(STATUS_IO, "the namespace of rank 0: %s", strerror(errno));
    free(all);
    return st;
}

static enum status run_job(void *argument, int *code)
{
    enum status st;
    const struct job *j = argument;
    struct built b = {0};
    struct build_options options = {.dilation = j->o->dilation};
    const struct ranks_options ranks = {.command = j->o->command, .port = j->o->port};
    if (j->w.links > 0)
        TRY(check_load(j));
    options.latency = build_has_queue("netem");
    TRY(build(&j->w, &options, &b));
    if (!j->o->quiet)
        describe(j, options.latency);
    TRY(j->fn ? call_inside(j, &b) : ranks_run(&b, &ranks, code));
out:
    built_free(&b);
    return st;
}

static enum status run_in_sandbox(struct job *j, int *code)
{
    enum status st;
    const struct netns_options *o = j->o;
    if (!(o->dilation > 0 && isfinite(o->dilation)))
        return error_set(STATUS_INVALID, "dilation %g, expected a number above zero", o->dilation);
    TRY(wiring_plan(o->topology, o->network, o->ranks, o->device, &j->w));
    TRY(sandbox_run(run_job, j, code));
out:
    wiring_free(&j->w);
    return st;
}

enum status netns_run(const struct netns_options *o, int *code)
{
    struct job j = {.o = o};
    return run_in_sandbox(&j, code);
}

enum status netns_call(const struct netns_options *o,
                       enum status (*fn)(void *argument, const struct netns_inside *inside),
                       void *argument)
{
    struct job j = {.o = o, .fn = fn, .argument = argument};
    int code;
    return run_in_sandbox(&j, &code);
}

/* ---- what the machine can do */

enum { SANDBOX, LINKS, HTB, NETEM };

static void found(struct netns_ability *a, enum status st, const char *what)
{
    a->there = st == STATUS_OK;
    snprintf(a->detail, sizeof a->detail, "%s", a->there ? what : error_message());
}

static enum status probe(void *argument, int *code)
{
    struct netns_ability *a = argument;
    double carried;
    char text[UNITS_TEXT], detail[128];
    *code = 0;
    found(&a[SANDBOX], STATUS_OK, "allowed");
    enum status st = carry_measure(&carried);
    if (st == STATUS_OK)
        snprintf(detail, sizeof detail, "one TCP stream over a veth pair carries %s",
                 units_print(UNIT_RATE, carried, text));
    found(&a[LINKS], st, detail);
    found(&a[HTB], build_has_queue("htb") ? STATUS_OK : STATUS_IO, "rates are shaped");
    found(&a[NETEM], build_has_queue("netem") ? STATUS_OK : STATUS_IO, "latencies are emulated");
    return STATUS_OK;
}

enum status netns_check(struct netns_ability ability[NETNS_ABILITIES])
{
    static const struct netns_ability blank[NETNS_ABILITIES] = {
        [SANDBOX] = {.name = "namespaces", .needed = true, .detail = ""},
        [LINKS] = {.name = "veth pairs", .needed = true, .detail = "not looked at"},
        [HTB] = {.name = "htb", .needed = true, .detail = "not looked at"},
        [NETEM] = {.name = "netem", .needed = false, .detail = "not looked at"},
    };
    int code;
    size_t size = sizeof blank;
    struct netns_ability *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_IO, "no shared memory");
    memcpy(shared, blank, size);
    enum status st = sandbox_run(probe, shared, &code);
    if (st != STATUS_OK)
        found(&shared[SANDBOX], st, "");
    memcpy(ability, shared, size);
    munmap(shared, size);
    return STATUS_OK;
}
