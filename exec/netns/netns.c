/* Programs on an emulated network: the wiring of a platform is built in a sandbox, and a command, a
 * shell or a function runs there.
 *
 * What this machine cannot carry is refused, since it would be measured instead of the platform: a
 * dilation divides all bandwidths and multiplies all latencies until it can. */
#define _GNU_SOURCE
#include "exec/netns/netns.h"
#include "core/base/array.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "exec/netns/inside.h"

struct netns_job {
    const struct netns_options *o;
    struct wiring w;
    enum status (*fn)(void *argument, const struct netns_inside *inside); /* NULL: the command */
    void *argument;
};

/* A tenth of what one stream carries leaves room for the other links on the way: rates are then
 * within 2 % (docs/reference/emulation.md). */
static const double comfortable = 0.1;

/* The least factor that keeps within it, to two digits; 1 where that is so anyway. */
static double choose_dilation(double wanted_Bps, double carried_Bps)
{
    double factor = wanted_Bps / (comfortable * carried_Bps);
    if (factor <= 1)
        return 1;
    double digit = pow(10, floor(log10(factor)) - 1);
    return ceil(factor / digit) * digit;
}

/* The machine carries all nodes' packets one after the other: what counts is what they may send
 * together. */
enum status load_check(const struct netns_options *o, const struct wiring *w,
                       enum latencies latencies, double *dilation)
{
    double carried, wanted = w->sending_Bps;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    *dilation = o->dilation > 0 ? o->dilation : 1;
    if (w->links == 0 && (o->dilation > 0 || o->traffic_Bps <= 0))
        return STATUS_OK;
    PASS(carry_measure(latencies, &carried));
    if (o->dilation <= 0)
        *dilation = choose_dilation(fmax(wanted, o->traffic_Bps), carried);
    wanted /= *dilation;
    if (wanted > carried) { /* the machine may have been busy for a moment */
        double again;
        PASS(carry_measure(latencies, &again));
        carried = fmax(carried, again);
    }
    if (wanted > carried)
        return error_set(STATUS_UNSUPPORTED,
                         "the nodes may send %s together, but this machine carries only %s. Try "
                         "--dilate auto, or at least --dilate %.0f",
                         units_print(UNIT_RATE, wanted, a), units_print(UNIT_RATE, carried, b),
                         ceil(w->sending_Bps / carried * 1.2));
    return STATUS_OK;
}

/* What was built, and what of the platform is not in it. */
static void netns_describe(const struct netns_job *j, const struct build_options *o,
                           const char *why, FILE *f)
{
    const struct wiring *w = &j->w;
    double latency_s = wiring_latency(w);
    char text[UNITS_TEXT];
    fprintf(f, "foreline: %zu ranks on %zu nodes, %zu routers, %zu links", w->ranks, w->nodes,
            w->spaces - w->nodes, w->links);
    if (o->dilation != 1)
        fprintf(f, ", time stretched %g times (--dilate)", o->dilation);
    if (latency_s > 0 && o->latencies == LATENCY_NETEM)
        fprintf(f, "; latencies by netem");
    else if (latency_s > 0 && j->o->delays)
        fprintf(f, "; latencies in the transport");
    else if (latency_s > 0 && o->latencies == LATENCY_LINE)
        fprintf(f, "; latencies by a delay line");
    else if (latency_s > 0 && !line_delays(latency_s * o->dilation))
        fprintf(f, "; link latencies of up to %s ignored: this machine's own are longer",
                units_print(UNIT_SECONDS, latency_s, text));
    else if (latency_s > 0)
        fprintf(f, "; link latencies of up to %s ignored: no netem in this kernel, and %s",
                units_print(UNIT_SECONDS, latency_s, text), why);
    if (w->ranks > w->nodes)
        fprintf(f, "; inside nodes %s",
                j->o->delays ? "links in the transport" : "this machine's memory");
    fprintf(f, "\n");
}

static uint32_t netns_device(const struct netns_options *o, uint32_t rank)
{
    return o->device ? o->device[rank] : rank;
}

/* A message is not sooner there than its narrowest link would bring it: shapers let a burst pass
 * after a pause. */
static enum status find_delays(const struct netns_job *j, const struct build_options *o,
                               struct delay **out)
{
    size_t n = j->w.ranks;
    struct delay *delay = NULL;
    PASS(ARRAY_NEW(delay, n * n));
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            if (a == b)
                continue;
            const struct topology_tier *tier =
                topology_between(j->o->topology, netns_device(j->o, a), netns_device(j->o, b));
            bool inside = j->w.space_of[a] == j->w.space_of[b];
            if (inside || o->latencies == LATENCY_NONE)
                delay[a * n + b].latency_s = tier->latency_s * o->dilation;
            delay[a * n + b].per_byte_s = o->dilation / tier->bandwidth_Bps;
        }
    *out = delay;
    return STATUS_OK;
}

static bool netns_enter_rank(const void *context, uint32_t rank)
{
    return build_enter(context, rank);
}

static enum status slow(const void *context, const char *link, double factor)
{
    return build_slow(context, link, factor);
}

/* Everything that the function may need of the emulation is made before it is called. */
static enum status netns_call_inside(const struct netns_job *j, const struct built *b,
                                     const struct build_options *o)
{
    enum status st;
    char address[INSIDE_ADDRESS];
    size_t ranks = j->w.ranks, n = 0;
    char *all = NULL, *hosts = NULL;
    struct delay *delay = NULL;
    TRY(ARRAY_NEW(all, ranks * (INSIDE_ADDRESS + 1)));
    TRY(find_delays(j, o, &delay));
    TRY(remote_hosts(&j->w, &hosts));
    for (uint32_t r = 0; r < ranks; r++)
        n += (size_t)sprintf(all + n, "%s%s", r ? "," : "", build_address(r, address));
    const struct netns_inside inside = {
        .dilation = o->dilation,
        .latency_s = o->latencies == LATENCY_NONE ? 0 : wiring_latency(&j->w) * o->dilation,
        .address = build_address(0, address),
        .addresses = all,
        .delay = delay,
        .remote_shell = remote_shell,
        .hosts = hosts,
        .line = b->line,
        .enter = netns_enter_rank,
        .slow = slow,
        .context = b};
    st = build_enter(b, 0) ? j->fn(j->argument, &inside)
                           : error_set(STATUS_IO, "cannot open the network namespace of rank 0: %s",
                                       strerror(errno));
out:
    free(all);
    free(hosts);
    free(delay);
    return st;
}

static enum status run_shell(const struct netns_job *j, const struct built *b,
                             const struct ranks_options *o, int *code)
{
    const char *name = j->o->shell;
    uint64_t number;
    uint32_t device = topology_find(j->o->topology, name), rank = 0;
    while (rank < j->w.ranks && netns_device(j->o, rank) != device)
        rank++;
    if (rank == j->w.ranks && text_count(name, j->w.ranks - 1, &number))
        rank = (uint32_t)number;
    if (rank == j->w.ranks)
        return error_set(
            STATUS_INVALID,
            "--shell: unknown host '%s', expected a host of the platform or a rank below %zu", name,
            j->w.ranks);
    return ranks_shell(b, o, rank, code);
}

/* And the dilation, which makes them longer. A transport that adds them is more exact than a delay
 * line. */
static enum status choose_latencies(const struct netns_job *j, struct build_options *o,
                                    char why[LINE_WHY])
{
    enum latencies latencies = build_latencies(&j->w, fmax(1, j->o->dilation), why);
    double latency_s = wiring_latency(&j->w);
    if (latencies == LATENCY_LINE &&
        (j->o->delays || latency_s <= 0 ||
         (j->o->dilation > 0 && !line_delays(latency_s * j->o->dilation))))
        latencies = LATENCY_NONE;
    PASS(load_check(j->o, &j->w, latencies, &o->dilation));
    if (latencies == LATENCY_LINE)
        latencies = build_latencies(&j->w, o->dilation, why);
    if (latencies == LATENCY_LINE && !line_delays(latency_s * o->dilation))
        latencies = LATENCY_NONE;
    o->latencies = latencies;
    return STATUS_OK;
}

/* The first process of the sandbox: builds the network, and ends it by returning. */
static enum status netns_run_job(void *argument, int *code)
{
    enum status st;
    const struct netns_job *j = argument;
    struct built b = {0};
    struct build_options options = {0};
    const struct ranks_options ranks = {
        .command = j->o->command, .port = j->o->port, .notes = j->o->notes};
    char why[LINE_WHY] = "";
    TRY(choose_latencies(j, &options, why));
    TRY(build(&j->w, &options, &b));
    TRY(remote_prepare(&b));
    TRY(join_publish(&b, j->o));
    if (j->o->notes)
        netns_describe(j, &options, why, j->o->notes);
    if (j->fn)
        TRY(netns_call_inside(j, &b, &options));
    else if (j->o->shell)
        TRY(run_shell(j, &b, &ranks, code));
    else
        TRY(ranks_run(&b, &ranks, code));
out:
    built_free(&b);
    return st;
}

static enum status run_in_sandbox(struct netns_job *j, int *code)
{
    enum status st;
    const struct netns_options *o = j->o;
    if (!(o->dilation >= 0 && isfinite(o->dilation)))
        return error_set(STATUS_INVALID, "--dilate: got %g, expected a number above 0",
                         o->dilation);
    TRY(wiring_plan(o->topology, o->network, o->ranks, o->device, &j->w));
    TRY(sandbox_run(netns_run_job, j, code));
out:
    wiring_free(&j->w);
    return st;
}

enum status netns_run(const struct netns_options *o, int *code)
{
    struct netns_job j = {.o = o};
    /* Ctrl-C is for what runs in the shell */
    void (*before)(int) = o->shell ? signal(SIGINT, SIG_IGN) : SIG_ERR;
    enum status st = run_in_sandbox(&j, code);
    if (before != SIG_ERR)
        signal(SIGINT, before);
    return st;
}

const char *netns_address(const struct netns_inside *inside, size_t rank, char host[NETNS_HOST])
{
    const char *from = inside->addresses;
    for (size_t k = 0; k < rank; k++)
        from = strchr(from, ',') + 1;
    snprintf(host, NETNS_HOST, "%.*s", (int)strcspn(from, ","), from);
    return host;
}

enum status netns_call(const struct netns_options *o,
                       enum status (*fn)(void *argument, const struct netns_inside *inside),
                       void *argument)
{
    struct netns_job j = {.o = o, .fn = fn, .argument = argument};
    int code;
    return run_in_sandbox(&j, &code);
}
