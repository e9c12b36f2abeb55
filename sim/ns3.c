/* ns3 - the program on ns-3, packet by packet: TCP connections over the platform's wires.
 *
 * SimGrid has ns-3 as one of its network models: a link is a full-duplex point-to-point channel
 * with a queue at either end, a flow a TCP connection that is opened for it, and ways are those
 * with fewest links. What SimGrid does not pass on is told ns-3 by a variable of the environment.
 *
 * Senders buffer all of a flow: with less SimGrid 3.32 takes a flow for ended when its last byte is
 * in the buffer, and aborts if a loss keeps it there. A window that limits a flow which loses
 * packets makes ns-3 3.37 crash at times, so windows are wide unless the user says otherwise. */
#include "sim/ns3.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/engine/flows.h"
#include "sim/engines.h"
#include "sim/platform/network.h"
#include "sim/simgrid_answer.h"
#include "sim/simgrid_module.h"

enum { PERIOD_MS = 200, MOST_FLOWS = 60000, MOST_TEXT = 256, MOST_ATTRIBUTES = 640 };
static const char variable[] = "NS_ATTRIBUTE_DEFAULT"; /* ns-3 reads it when it is loaded */
static const double most_bytes = 2147483647; /* of a flow: ns-3's buffers count in 32 bits */

/* ---- settings */

static const struct tcp {
    const char *name, *class;
} tcp_reno = {"reno", "TcpLinuxReno"}, tcp_newreno = {"newreno", "TcpNewReno"},
  tcp_cubic = {"cubic", "TcpCubic"}, *const tcps[] = {&tcp_reno, &tcp_newreno, &tcp_cubic};

/* A number between two others, with a unit where there is one. */
static enum status settings_number(const char *name, const char *value, enum unit unit,
                                   const double range[2], double *out)
{
    double x;
    if (units_parse(unit, value, &x) != STATUS_OK || !(x >= range[0] && x <= range[1]))
        return error_set(STATUS_INVALID, "got %s=%s, expected %g to %g%s", name, value, range[0],
                         range[1], unit == UNIT_SECONDS ? " s" : "");
    *out = x;
    return STATUS_OK;
}

static enum status settings_take(const char *name, const char *value, struct ns3_settings *s)
{
    const struct tcp *tcp;
    if (!strcmp(name, "window"))
        return settings_number(name, value, UNIT_BYTES, (const double[]){2048, 1 << 30},
                               &s->window_bytes);
    if (!strcmp(name, "mtu"))
        return settings_number(name, value, UNIT_BYTES, (const double[]){576, 65535},
                               &s->mtu_bytes);
    if (!strcmp(name, "queue"))
        return settings_number(name, value, UNIT_BYTES, (const double[]){1, 1 << 20}, &s->queue);
    if (!strcmp(name, "rto"))
        return settings_number(name, value, UNIT_SECONDS, (const double[]){1e-6, 60}, &s->rto_s);
    if (strcmp(name, "tcp") != 0)
        return error_set(STATUS_INVALID,
                         "unknown ns-3 setting '%s'; known: tcp, window, mtu, queue, rto", name);
    PASS(text_find("TCP of ns-3", value, tcps, sizeof tcps / sizeof *tcps, &tcp));
    s->tcp = tcp->class;
    return STATUS_OK;
}

enum status ns3_settings_parse(const char *text, struct ns3_settings *out)
{
    struct ns3_settings s = {tcp_reno.class, 1 << 30, 9000, 0, 0.2};
    char copy[MOST_TEXT] = "", *word[16];
    if (text && strlen(text) >= sizeof copy)
        return error_set(STATUS_INVALID, "--ns3: the list of settings is longer than %d characters",
                         MOST_TEXT - 1);
    memcpy(copy, text ? text : "", text ? strlen(text) : 0);
    size_t words = text_split(copy, ",", word, sizeof word / sizeof *word);
    for (size_t k = 0; k < words; k++) {
        char *value = strchr(word[k], '=');
        if (!value)
            return error_set(STATUS_INVALID, "got '%s', expected NAME=VALUE", word[k]);
        *value++ = '\0';
        PASS(settings_take(word[k], value, &s));
    }
    *out = s;
    return STATUS_OK;
}

enum status ns3_settings_check(const char *text)
{
    struct ns3_settings s;
    return ns3_settings_parse(text, &s) == STATUS_OK ? STATUS_OK
                                                     : error_context(STATUS_USAGE, "ns3");
}

/* As ns-3 reads them, where they go before what SimGrid sets. */
static void settings_attributes(const struct ns3_settings *s, char text[MOST_ATTRIBUTES])
{
    int n = snprintf(text, MOST_ATTRIBUTES,
                     "ns3::TcpSocket::SndBufSize=%.0f;ns3::TcpSocket::RcvBufSize=%.0f;"
                     "ns3::TcpSocket::SegmentSize=%.0f;ns3::PointToPointNetDevice::Mtu=%.0f;"
                     "ns3::TcpL4Protocol::SocketType=ns3::%s;ns3::TcpSocketBase::MinRto=%.0fns",
                     most_bytes, s->window_bytes, s->mtu_bytes - NS3_HEADS, s->mtu_bytes, s->tcp,
                     1e9 * s->rto_s);
    if (s->queue > 0) /* one packet in the device: the others wait where the discipline sees them */
        snprintf(text + n, MOST_ATTRIBUTES - (size_t)n,
                 ";ns3::FqCoDelQueueDisc::MaxSize=%.0fp;ns3::DropTailQueue<Packet>::MaxSize=1p",
                 s->queue);
}

enum status ns3_settings_use(const char *text)
{
    struct ns3_settings s;
    char attributes[MOST_ATTRIBUTES];
    PASS(ns3_settings_parse(text, &s));
    settings_attributes(&s, attributes);
    const char *now = getenv(variable);
    if (now && strcmp(now, attributes) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "ns3: a process can use only one set of --ns3 settings, but %s already "
                         "holds other settings",
                         variable);
    return now || setenv(variable, attributes, 1) == 0
               ? STATUS_OK
               : error_set(STATUS_NOMEM, "out of memory for the environment variable of ns-3");
}

/* ---- wires */

enum status ns3_check_network(const struct network *n)
{
    const char *what = NULL;
    for (size_t k = 0; k < n->links; k++) {
        const struct network_link *l = &n->link[k];
        what = l->fat       ? "FATPIPE gives every flow the full bandwidth"
               : l->one_way ? "both directions share the link, or routes are not the shortest"
               : !(l->bandwidth_Bps > 0) ? "its bandwidth is 0"
                                         : NULL;
        if (what)
            return error_set(STATUS_UNSUPPORTED,
                             "ns3: unsupported link '%s': %s. Try --engine simgrid",
                             l->name ? l->name : "?", what);
    }
    return n->next || n->detours > 0
               ? error_set(STATUS_UNSUPPORTED, "ns3: unsupported: the platform has routes that are "
                                               "not the shortest. Try --engine simgrid")
               : STATUS_OK;
}

static void write_vertex(const struct network *n, uint32_t v, const char *before, FILE *to)
{
    bool host = n->device[v] != NETWORK_ROUTER;
    fprintf(to, "%s\"%c%" PRIu32 "\"", before, host ? 'd' : 'r', host ? n->device[v] : v);
}

void ns3_write_platform(const struct network *n, FILE *to)
{
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"wires\" routing=\"Full\">\n",
          to);
    for (uint32_t v = 0; v < n->vertices; v++) {
        bool host = n->device[v] != NETWORK_ROUTER;
        write_vertex(n, v, host ? "<host id=" : "<router id=", to);
        fputs(host ? " speed=\"1Gf\"/>\n" : "/>\n", to);
    }
    for (size_t k = 0; k < n->links; k++)
        fprintf(to, "<link id=\"l%zu\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>\n", k,
                n->link[k].bandwidth_Bps, n->link[k].latency_s);
    for (size_t k = 0; k < n->links; k++) {
        write_vertex(n, n->link[k].a, "<route src=", to);
        write_vertex(n, n->link[k].b, " dst=", to);
        fprintf(to, "><link_ctn id=\"l%zu\"/></route>\n", k);
    }
    fputs("</zone>\n</platform>\n", to);
}

/* ---- the engine */

/* How many flows there are, their packets, and the largest of them. */
struct effort {
    double flows, packets, largest_bytes;
};

static void effort_add(struct effort *e, double bytes, double times, double payload)
{
    e->flows += times;
    e->packets += times * ceil(bytes / payload);
    e->largest_bytes = fmax(e->largest_bytes, bytes);
}

static enum status check_effort(const struct simgrid_run *w, double payload)
{
    char more[LIMIT_MORE];
    struct effort e = {0};
    for (size_t i = 0; i < w->p->ops; i++)
        if (w->p->op[i].kind == OP_SEND)
            effort_add(&e, (double)w->p->op[i].bytes, 1, payload);
    for (size_t k = 0; k < w->shapes.n; k++) {
        const struct shaped *s = &w->shapes.shaped[k];
        for (size_t f = 0; f < s->shape.flows; f++)
            effort_add(&e, s->shape.flow[f].bytes, s->calls, payload);
    }
    if (e.packets > limit(LIMIT_packets))
        return error_set(
            STATUS_UNSUPPORTED,
            "ns3: too many packets (got %.3g, expected at most %.0f%s). Try --engine simgrid",
            e.packets, limit(LIMIT_packets), limit_enough(LIMIT_packets, e.packets, more));
    if (e.flows > MOST_FLOWS || e.largest_bytes > most_bytes)
        return error_set(STATUS_UNSUPPORTED,
                         "ns3: too much traffic (%.3g flows, the largest of %.3g bytes; expected "
                         "at most %d flows of 2 GiB). Try --engine simgrid",
                         e.flows, e.largest_bytes, MOST_FLOWS);
    return STATUS_OK;
}

/* Looked at while the child runs. */
struct ns3_wait {
    const struct simulation_watch *watch; /* may be NULL */
    double until_s;
    size_t ops;
    bool late;
};

static bool ns3_tick(void *context)
{
    struct ns3_wait *x = context;
    x->late = clock_now() > x->until_s;
    return !x->late && (!x->watch || x->watch->tick(x->watch->context, 0, x->ops));
}

static enum status run_packets(struct simgrid_run *w, struct child_output *output)
{
    struct ns3_wait wait = {w->options ? w->options->watch : NULL, clock_now() + limit(LIMIT_ns3),
                            w->p->ops, false};
    const struct child_watch watch = {ns3_tick, &wait, PERIOD_MS};
    enum status st = simgrid_child(SIMGRID_SIMULATE, w, &watch, output);
    if (wait.late)
        return error_set(STATUS_EXTERNAL,
                         "ns3: timeout after %.3g s; raise it with --limit ns3=%.0fs",
                         limit(LIMIT_ns3), 2 * limit(LIMIT_ns3));
    return st == STATUS_OK
               ? st
               : error_context(st, "ns3: simulating packets on platform %s", w->platform);
}

/* The network as wires, in a file for the child. */
static enum status open_wires(struct simgrid_run *w)
{
    enum status st;
    enum paths_policy policy;
    struct network net = {0};
    const struct faults *faults = w->options ? w->options->faults : NULL;
    TRY(flows_policy(w->t, w->options ? &w->options->paths : NULL, &policy));
    if (paths_are_apart(policy))
        FAIL(STATUS_UNSUPPORTED,
             "ns3: packets take a single path, so only --paths ideal is supported");
    if (w->p->folded || faults_of_links(faults) || flows_lose_lanes(w->t, faults))
        FAIL(STATUS_UNSUPPORTED,
             "ns3: failing and slow links are unsupported. Try --engine simgrid");
    TRY(platform_network(w->platform, w->t, &net));
    TRY(ns3_check_network(&net));
    w->wires = tmpfile();
    if (!w->wires)
        FAIL(STATUS_IO, "cannot create a temporary file for the platform");
    ns3_write_platform(&net, w->wires);
out:
    network_free(&net);
    return st;
}

static enum status ns3_run(const struct program *p, const struct topology *t, const char *platform,
                           const struct simulation_options *options, struct simulation *out)
{
    enum status st;
    struct simgrid_run w = {
        .p = p, .t = t, .platform = platform, .options = options, .model = "ns-3", .inside = true};
    struct ns3_settings settings;
    struct child_output output = {0};
    TRY(ns3_settings_use(options ? options->ns3 : NULL));
    TRY(ns3_settings_parse(options ? options->ns3 : NULL, &settings));
    TRY(open_wires(&w));
    TRY(shapes_make(p, t, options ? &options->collective : NULL, &w.shapes));
    TRY(check_effort(&w, settings.mtu_bytes - NS3_HEADS));
    simgrid_take_latencies(&w);
    TRY(run_packets(&w, &output));
    TRY(simgrid_parse(&output, p->ops, out));
out:
    child_output_free(&output);
    shapes_free(&w.shapes);
    if (w.wires)
        fclose(w.wires);
    return st;
}

const struct engine engine_ns3 = {
    .name = "ns3",
    .summary = "packet-level simulation with TCP by ns-3 on the platform's links; 1e4 packets per "
               "CPU second",
    .packets = true,
    .file = true,
    .resolution_s = 1e-9,
    .run = ns3_run,
    .load = simgrid_load_module,
};
