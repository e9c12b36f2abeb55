/* A wiring becomes network namespaces, pairs of virtual interfaces, routes and queues.
 *
 * 1. A namespace for every node and router, with settings that a network of machines would have.
 * 2. A veth pair for every link; through the delay line's namespace where that makes latencies.
 * 3. Addresses and routes: a rank is a /32, and the way towards it one route in every space.
 * 4. Queues: the rate of a link by htb, latencies by netem, a class for each pair of ranks.
 *
 * All is done by scripts for `ip` and `tc`, one each for a namespace. */
#define _GNU_SOURCE
#include "exec/netns/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <math.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/text.h"

/* Shapes measured in EXECUTION.md, section 4: a packet carries MTU - 52 bytes (IP, TCP and its
 * timestamps) and htb counts MTU + 14; the burst is a packet or what 0.4 ms carry. */
enum { MTU = 9000, HEADERS = 52, ETHERNET = 14, LEAST_BURST = MTU + 100, QUEUE = 8 << 20 };
/* Pairs of ranks with a queue of their own on a link; more ranks share one. */
enum {
    FLOWS = 256,
    SHARING_RANKS = 32,
    OTHERS = 2,
    TABLE = 1000
}; /* OTHERS: the class of the rest */
static const double burst_s = 0.4e-3;

const char *build_address(uint32_t rank, char text[INSIDE_ADDRESS])
{
    snprintf(text, INSIDE_ADDRESS, "10.99.%u.%u", (unsigned)(uint8_t)(rank / 250),
             (unsigned)(uint8_t)(rank % 250 + 1));
    return text;
}

bool build_has_queue(const char *kind)
{
    static const char *const add[] = {"tc", "-batch", "-", NULL};
    char script[128];
    snprintf(script, sizeof script, "qdisc add dev lo root handle 1: %s\nqdisc del dev lo root\n",
             strcmp(kind, "netem") ? kind : "netem delay 1ms");
    return sandbox_tool(-1, add, script) == STATUS_OK;
}

/* ---- namespaces */

/* Optional ones are not there in every kernel. */
static enum status set_sysctls(bool router)
{
    static const struct {
        const char *path, *value;
        bool needed;
    } settings[] = {
        {"ipv6/conf/all/disable_ipv6", "1", false},
        {"ipv6/conf/default/disable_ipv6", "1", false},
        {"ipv4/conf/all/rp_filter", "0", true},
        {"ipv4/conf/default/rp_filter", "0", true},
        {"ipv4/tcp_congestion_control", "reno", true}, /* bbr and cubic pace or lose here */
        {"ipv4/tcp_slow_start_after_idle", "0", true},
        {"ipv4/tcp_no_metrics_save", "1", true},
        {"ipv4/fib_multipath_hash_policy", "1", false}, /* connections, not pairs of hosts */
        {"ipv4/ip_forward", "1", true},
    };
    size_t n = sizeof settings / sizeof *settings - (router ? 0 : 1);
    for (size_t i = 0; i < n; i++) {
        char path[96];
        snprintf(path, sizeof path, "/proc/sys/net/%s", settings[i].path);
        enum status st = sandbox_put(path, settings[i].value);
        if (st != STATUS_OK && settings[i].needed)
            return st;
    }
    return STATUS_OK;
}

/* The descriptors stay open in ip, which is told to use them. */
static enum status make_spaces(struct built *b, size_t n)
{
    enum status st = STATUS_OK;
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < n; i++) {
        if (unshare(CLONE_NEWNET) != 0 || (b->fd[i] = open("/proc/self/ns/net", O_RDONLY)) < 0)
            FAIL(STATUS_UNSUPPORTED, "cannot create network namespace %zu of %zu: %s", i + 1, n,
                 strerror(errno));
        TRY(set_sysctls(i < b->w->spaces && b->w->space[i].forwards));
    }
out:
    if (home >= 0) {
        if (setns(home, CLONE_NEWNET) != 0 && st == STATUS_OK)
            st = error_set(STATUS_IO, "setns: %s", strerror(errno));
        close(home);
    }
    return st;
}

/* ---- interfaces: both ends of a pair have one address and ask nobody, so no ARP is needed */

struct netns_script {
    FILE *f;
    char *text;
    size_t length;
};

static enum status open_script(struct netns_script *s)
{
    s->f = open_memstream(&s->text, &s->length);
    return s->f ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* And release it. */
static enum status run_script(int space, const char *tool, struct netns_script *s)
{
    const char *const words[] = {tool, "-batch", "-", NULL};
    enum status st = fclose(s->f) == 0 ? sandbox_tool(space, words, s->text)
                                       : error_set(STATUS_NOMEM, "out of memory");
    free(s->text);
    return st;
}

/* The network interface of a machine, or one in the delay line's namespace. */
struct end {
    char name[IFNAMSIZ];
    unsigned kind; /* of its address: the delay line's own stack is to leave packets alone */
    int space;
};

static void write_pair(size_t link, const struct end *a, const struct end *b, FILE *f)
{
    const char *const type[] = {"", " type veth peer"};
    const struct end *const end[] = {a, b};
    fprintf(f, "link add");
    for (int k = 0; k < 2; k++)
        fprintf(f, "%s name %s mtu %d address 02:00:%02x:%02x:%02x:%02x netns /proc/self/fd/%d",
                type[k], end[k]->name, MTU, end[k]->kind, (unsigned)(link >> 16) & 255,
                (unsigned)(link >> 8) & 255, (unsigned)link & 255, end[k]->space);
    fputc('\n', f);
}

/* One script for all links: `ip -batch` takes seconds less than a process for each. */
static enum status make_links(const struct built *b)
{
    struct netns_script s;
    size_t delayed = 0;
    int line = b->fd[b->w->spaces];
    PASS(open_script(&s));
    for (size_t i = 0; i < b->w->links; i++) {
        const struct wiring_link *l = &b->w->link[i];
        struct end end[2] = {{.space = b->fd[l->space[0]]}, {.space = b->fd[l->space[1]]}};
        for (int k = 0; k < 2; k++)
            snprintf(end[k].name, IFNAMSIZ, "eth%u", l->interface[k]);
        if (line < 0 || !line_delays(l->latency_s * b->dilation)) {
            write_pair(i, &end[0], &end[1], s.f);
            continue;
        }
        for (int k = 0; k < 2; k++) {
            struct end inner = {.kind = 1, .space = line};
            line_end(delayed, k, inner.name);
            write_pair(i, &end[k], &inner, s.f);
        }
        delayed++;
    }
    return run_script(-1, "ip", &s);
}

/* ---- queues: pairs of ranks share a link fairly, as SimGrid's flows do. In one queue whatever
 * comes first would be served first, and a message that meets another would be over sooner. */

/* Does the way from one rank to another lead out of this end of the link? */
static bool leads_out(const struct wiring *w, uint32_t from, uint32_t to, size_t link, int end)
{
    uint32_t at = w->space_of[from];
    while (at != w->space_of[to]) {
        uint32_t way = wiring_way(w, at, from, to);
        if (way == WIRING_NONE)
            return false;
        const struct wiring_link *l = &w->link[way];
        int k = l->space[0] == at ? 0 : 1;
        if (wiring_leads_over(w, way, link) && k == end)
            return true;
        at = l->space[1 - k];
    }
    return false;
}

struct queue {
    const char *verb; /* of tc: "add" or "change" */
    unsigned interface, class;
    bool fat;
    double rate_Bps, burst, delay_s;
};

/* More than the link has: htb counts headers too. */
double build_rate(const struct wiring_link *l, double dilation)
{
    return l->bandwidth_Bps / dilation * (MTU + ETHERNET) / (MTU - HEADERS);
}

static double burst_of(double rate_Bps)
{
    return fmax(LEAST_BURST, burst_s * rate_Bps);
}

static void write_rate(const char *verb, unsigned interface, double rate_Bps, FILE *f)
{
    fprintf(f,
            "class %s dev eth%u parent 1: classid 1:1 htb rate %.0fbps burst %.0f cburst %.0f "
            "quantum 60000\n",
            verb, interface, fmax(1, rate_Bps), burst_of(rate_Bps), burst_of(rate_Bps));
}

/* A share of the link that borrows up to all of it; of a fat link, all of it and nobody's else. */
static void write_leaf(const struct queue *q, FILE *f)
{
    const double share = q->fat ? 1 : 1.0 / (FLOWS + 1);
    fprintf(f,
            "class %s dev eth%u parent 1:%s classid 1:%x htb rate %.0fbps ceil %.0fbps burst %.0f "
            "cburst %.0f quantum %d\n",
            q->verb, q->interface, q->fat ? "" : "1", q->class, fmax(1, share * q->rate_Bps),
            fmax(1, q->rate_Bps), q->fat ? q->burst : LEAST_BURST, q->burst, MTU + ETHERNET);
    if (strcmp(q->verb, "add") != 0)
        return;
    fprintf(f, "qdisc add dev eth%u parent 1:%x handle %x: ", q->interface, q->class, q->class);
    if (q->delay_s > 0)
        fprintf(f, "netem delay %.3fus limit %d\n", q->delay_s * 1e6, QUEUE / 1000);
    else
        fprintf(f, "bfifo limit %d\n", QUEUE);
}

/* A class for each pair of ranks whose way leads out here, and one for the rest. */
static void write_flows(const struct wiring *w, size_t link, int end, struct queue *q, FILE *f)
{
    unsigned pairs = 0;
    q->class = OTHERS;
    write_leaf(q, f);
    for (uint32_t a = 0; a < w->ranks && w->ranks <= SHARING_RANKS; a++)
        for (uint32_t b = 0; b < w->ranks; b++) {
            char from[INSIDE_ADDRESS], to[INSIDE_ADDRESS];
            if (a == b || !leads_out(w, a, b, link, end))
                continue;
            q->class = OTHERS + 1 + pairs % FLOWS;
            if (pairs++ < FLOWS)
                write_leaf(q, f);
            if (strcmp(q->verb, "add") != 0)
                continue;
            fprintf(f,
                    "filter add dev eth%u parent 1: protocol ip prio 1 u32 match ip src %s/32 "
                    "match ip dst %s/32 flowid 1:%x\n",
                    q->interface, build_address(a, from), build_address(b, to), q->class);
        }
}

/* At both ends of a link, since a queue shapes what leaves an interface only. */
static void write_queues(const struct wiring *w, uint32_t space, const struct build_options *o,
                         FILE *f)
{
    for (size_t i = 0; i < w->links; i++) {
        const struct wiring_link *l = &w->link[i];
        for (int k = 0; k < 2; k++) {
            struct queue q = {.verb = "add",
                              .interface = l->interface[k],
                              .fat = l->fat,
                              .rate_Bps = build_rate(l, o->dilation),
                              .delay_s =
                                  o->latencies == LATENCY_NETEM ? l->latency_s * o->dilation : 0};
            q.burst = burst_of(q.rate_Bps);
            if (l->space[k] != space || l->bandwidth_Bps <= 0 || (l->one_way && k == 1))
                continue;
            fprintf(f, "qdisc add dev eth%u root handle 1: htb default %x\n", q.interface, OTHERS);
            if (!l->fat)
                write_rate("add", q.interface, q.rate_Bps, f);
            write_flows(w, i, k, &q, f);
        }
    }
}

/* Packets as the wire would have them: none that are segmented or joined later. */
static enum status switch_offloads(int fd, const char *name)
{
    static const uint32_t features[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    for (size_t k = 0; k < sizeof features / sizeof *features; k++) {
        struct ethtool_value off = {.cmd = features[k]};
        struct ifreq request = {.ifr_data = (char *)&off};
        snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
        if (ioctl(fd, SIOCETHTOOL, &request) != 0)
            return error_set(STATUS_IO,
                             "cannot switch off the segmentation offloads of interface %s: %s",
                             name, strerror(errno));
    }
    return STATUS_OK;
}

static enum status switch_all_offloads(const struct wiring_space *s)
{
    char name[IFNAMSIZ];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    enum status st = fd < 0 ? error_set(STATUS_IO, "socket: %s", strerror(errno)) : STATUS_OK;
    for (uint32_t i = 0; st == STATUS_OK && i < s->interfaces; i++) {
        snprintf(name, sizeof name, "eth%u", i);
        st = switch_offloads(fd, name);
    }
    if (fd >= 0)
        close(fd);
    return st;
}

/* The script of a space runs in that namespace, because tc knows interfaces by name there. */
static enum status set_up(const struct built *b, uint32_t space, const struct build_options *o)
{
    struct netns_script s;
    if (setns(b->fd[space], CLONE_NEWNET) != 0)
        return error_set(STATUS_IO, "setns: %s", strerror(errno));
    PASS(switch_all_offloads(&b->w->space[space]));
    PASS(open_script(&s));
    ways_write(b->w, space, s.f);
    PASS(run_script(b->fd[space], "ip", &s));
    PASS(open_script(&s));
    write_queues(b->w, space, o, s.f);
    return run_script(b->fd[space], "tc", &s);
}

/* ---- the delay line */

/* Those links that have a latency which counts, in their order; NULL: no memory. */
static struct line_link *delayed_links(const struct wiring *w, double dilation, size_t *n)
{
    struct line_link *link = array_new(w->links, sizeof *link);
    *n = 0;
    for (size_t i = 0; link && i < w->links; i++)
        if (line_delays(w->link[i].latency_s * dilation))
            link[(*n)++] = (struct line_link){.delay_s = w->link[i].latency_s * dilation,
                                              .rate_Bps = w->link[i].bandwidth_Bps / dilation};
    return link;
}

enum latencies build_latencies(const struct wiring *w, double dilation, char why[LINE_WHY])
{
    size_t n;
    if (build_has_queue("netem"))
        return LATENCY_NETEM;
    struct line_link *link = delayed_links(w, dilation, &n);
    bool possible = link && line_possible(link, n, why);
    free(link);
    return possible ? LATENCY_LINE : LATENCY_NONE;
}

/* Offloads stay as they are on the delay line's ends: it sees packets as they come. */
static enum status start_line(struct built *b)
{
    enum status st;
    char name[IFNAMSIZ];
    size_t n;
    struct netns_script s;
    struct line_link *link = delayed_links(b->w, b->dilation, &n);
    int line = b->fd[b->w->spaces];
    TRY(link ? open_script(&s) : STATUS_NOMEM);
    for (size_t i = 0; i < 2 * n; i++)
        fprintf(s.f, "link set %s gso_max_segs 1 arp off up\n",
                line_end(i / 2, (int)(i % 2), name));
    TRY(run_script(line, "ip", &s));
    TRY(line_start(line, link, n, &b->line));
out:
    free(link);
    return st;
}

/* ---- together */

/* Namespaces are held by descriptors only: they go with the last process that has them. */
enum status build(const struct wiring *w, const struct build_options *o, struct built *out)
{
    enum status st;
    int home = -1;
    bool line = o->latencies == LATENCY_LINE && line_delays(wiring_latency(w) * o->dilation);
    *out = (struct built){.w = w, .dilation = o->dilation};
    PASS(ARRAY_NEW(out->fd, w->spaces + 1));
    for (size_t i = 0; i <= w->spaces; i++)
        out->fd[i] = -1;
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    TRY(make_spaces(out, w->spaces + (line ? 1 : 0)));
    TRY(make_links(out));
    for (uint32_t i = 0; i < w->spaces; i++)
        TRY(set_up(out, i, o));
    if (line)
        TRY(start_line(out));
out:
    if (home >= 0) {
        if (setns(home, CLONE_NEWNET) != 0 && st == STATUS_OK)
            st = error_set(STATUS_IO, "setns: %s", strerror(errno));
        close(home);
    }
    return st;
}

/* ---- changes while programs run */

/* The queue of the link changes while packets are in it; of a link that fails, the interface goes
 * down. */
static enum status slow_end(const struct built *b, size_t link, int end, double factor)
{
    const struct wiring_link *l = &b->w->link[link];
    double rate_Bps = build_rate(l, b->dilation) / factor;
    struct queue q = {.verb = "change",
                      .interface = l->interface[end],
                      .fat = l->fat,
                      .rate_Bps = rate_Bps,
                      .burst = burst_of(rate_Bps)};
    struct netns_script s;
    bool fails = isinf(factor);
    PASS(open_script(&s));
    if (fails)
        fprintf(s.f, "link set eth%u down\n", l->interface[end]);
    else if (l->fat)
        write_flows(b->w, link, end, &q, s.f);
    else
        write_rate("change", l->interface[end], rate_Bps, s.f);
    return run_script(b->fd[l->space[end]], fails ? "ip" : "tc", &s);
}

/* By its name, which all lanes of a bundle have, or as one of them, "leaf0-up.3". */
static bool is_called(const struct wiring_link *l, const char *name)
{
    size_t n = strlen(l->name);
    uint64_t lane;
    if (strncmp(l->name, name, n) != 0)
        return false;
    return !name[n] ||
           (name[n] == '.' && text_count(name + n + 1, UINT32_MAX, &lane) && lane == l->lane);
}

enum status build_slow(const struct built *b, const char *link, double factor)
{
    size_t found = 0;
    for (size_t i = 0; i < b->w->links; i++) {
        const struct wiring_link *l = &b->w->link[i];
        if (!l->name || !is_called(l, link))
            continue;
        found++;
        for (int end = 0; end < (l->one_way ? 1 : 2); end++)
            PASS(slow_end(b, i, end, factor));
    }
    return found > 0 ? STATUS_OK
                     : error_set(STATUS_USAGE, "no route between the ranks uses link '%s'", link);
}

bool build_enter(const struct built *b, uint32_t rank)
{
    return setns(b->fd[b->w->space_of[rank]], CLONE_NEWNET) == 0;
}

void built_free(struct built *b)
{
    if (b->line > 0) {
        kill(b->line, SIGKILL);
        waitpid(b->line, NULL, 0);
    }
    for (size_t i = 0; b->fd && i <= b->w->spaces; i++)
        if (b->fd[i] >= 0)
            close(b->fd[i]);
    free(b->fd);
    *b = (struct built){0};
}
