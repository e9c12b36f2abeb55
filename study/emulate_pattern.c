/* Patterns of flows on an emulated network: two processes for each pair of ranks, which share a
 * page in which they meet and the receiver notes its times. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "study/emulate_pattern.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/netns/netns.h"
#include "exec/transport/tcp/socket.h"
#include "sim/platform/network.h"

enum { FIRST_PORT = 30000, MOST_PAIRS = 4096, PIECE = 64 << 10 };
static const double join_s = 60, flows_s = 300; /* to connect; for all flows: times `wait` */
static const double pause_s = 0.001, start_s = 0.05;

/* What the processes share. */
struct pattern_page {
    atomic_uint ready;
    atomic_bool go;
    double start_s;
    double end_s[];
};

struct pattern_run {
    const struct pattern *p;
    const struct netns_inside *inside;
    struct pattern_page *page;
    double deadline_s;
    size_t pairs;
    uint32_t *first; /* [pairs] a flow of each */
    pid_t *child;    /* [2 * pairs] */
};

static bool same_pair(const struct pattern_flow *a, const struct pattern_flow *b)
{
    return a->from == b->from && a->to == b->to;
}

/* Everybody is there; then the same moment for all. */
static bool meet(const struct pattern_run *r)
{
    atomic_fetch_add(&r->page->ready, 1);
    while (!atomic_load(&r->page->go)) {
        if (clock_now() > r->deadline_s)
            return false;
        clock_sleep_until(clock_now() + pause_s);
    }
    clock_sleep_until(r->page->start_s);
    return true;
}

/* All bytes of a pair's flows one way or the other, flow after flow. */
static bool pass_flows(const struct pattern_run *r, const struct pattern_flow *pair, int fd,
                       bool sends)
{
    static char piece[PIECE];
    for (size_t f = 0; f < r->p->n; f++) {
        if (!same_pair(&r->p->flow[f], pair))
            continue;
        for (int64_t left = r->p->flow[f].bytes; left > 0; left -= PIECE) {
            size_t n = left < PIECE ? (size_t)left : PIECE;
            if ((sends ? socket_write(fd, piece, n, r->deadline_s)
                       : socket_read(fd, piece, n, r->deadline_s)) != STATUS_OK)
                return false;
        }
        if (!sends)
            r->page->end_s[f] = clock_now() - r->page->start_s;
    }
    return true;
}

static bool pattern_send(const struct pattern_run *r, const struct pattern_flow *pair,
                         const char *host, uint16_t port)
{
    int fd = -1;
    char byte; /* the receiver closes when it has all */
    return socket_connect(host, port, r->deadline_s, &fd) == STATUS_OK && meet(r) &&
           pass_flows(r, pair, fd, true) && socket_read(fd, &byte, 1, r->deadline_s) == STATUS_IO;
}

static bool pattern_receive(const struct pattern_run *r, const struct pattern_flow *pair,
                            const char *host, uint16_t port)
{
    int listener = -1, fd = -1;
    return socket_listen_on(host, port, &listener) == STATUS_OK &&
           socket_poll(listener, POLLIN, r->deadline_s) == STATUS_OK &&
           socket_accept_now(listener, &fd) == STATUS_OK && fd >= 0 && meet(r) &&
           pass_flows(r, pair, fd, false);
}

static bool pattern_end(const struct pattern_run *r, size_t k, bool sends)
{
    const struct pattern_flow *pair = &r->p->flow[r->first[k]];
    char host[NETNS_HOST];
    uint16_t port = (uint16_t)(FIRST_PORT + k);
    netns_address(r->inside, pair->to, host);
    return r->inside->enter(r->inside->context, sends ? pair->from : pair->to) &&
           (sends ? pattern_send : pattern_receive)(r, pair, host, port);
}

/* The processes of pair k: the receiver first. */
static enum status start_pair(struct pattern_run *r, size_t k)
{
    for (size_t sends = 0; sends < 2; sends++) {
        pid_t *child = &r->child[2 * k + sends];
        *child = fork();
        if (*child < 0)
            return error_set(STATUS_IO, "emulated flows: cannot start more processes");
        if (*child == 0)
            _exit(!pattern_end(r, k, sends));
    }
    return STATUS_OK;
}

static enum status await_pairs(struct pattern_run *r)
{
    while (atomic_load(&r->page->ready) < 2 * r->pairs) {
        if (clock_now() > r->deadline_s - limit_wait(flows_s))
            return error_set(
                STATUS_EXTERNAL,
                "emulated flows: timeout: some pairs of ranks did not connect. Try --limit wait=2");
        clock_sleep_until(clock_now() + pause_s);
    }
    r->page->start_s = clock_now() + start_s;
    atomic_store(&r->page->go, true);
    for (size_t left = 2 * r->pairs; left > 0;) { /* who is late fails by itself */
        int how;
        pid_t ended = waitpid(-1, &how, 0);
        bool ours = false;
        for (size_t k = 0; k < 2 * r->pairs && !ours; k++)
            if ((ours = ended == r->child[k]))
                r->child[k] = 0;
        left -= ours;
        if (ended < 0 || (ours && how != 0))
            return error_set(STATUS_EXTERNAL,
                             "emulated flows: a connection between two ranks failed");
    }
    return STATUS_OK;
}

/* In the sandbox. */
static enum status pattern_inside(void *argument, const struct netns_inside *inside)
{
    enum status st;
    struct pattern_run r = *(struct pattern_run *)argument;
    r.inside = inside;
    r.deadline_s = clock_now() + limit_wait(join_s) + limit_wait(flows_s);
    TRY(ARRAY_NEW(r.child, 2 * r.pairs));
    for (size_t k = 0; k < r.pairs; k++)
        TRY(start_pair(&r, k));
    TRY(await_pairs(&r));
    for (size_t f = 0; f < r.p->n; f++)
        r.page->end_s[f] /= inside->dilation;
out:
    for (size_t k = 0; r.child && k < 2 * r.pairs; k++)
        if (r.child[k] > 0)
            kill(r.child[k], SIGKILL);
    free(r.child);
    return st;
}

/* The first flow of each pair. O(flows^2). */
static enum status find_pairs(struct pattern_run *r)
{
    PASS(ARRAY_NEW(r->first, r->p->n));
    for (uint32_t f = 0; f < r->p->n; f++) {
        uint32_t k = 0;
        while (k < r->pairs && !same_pair(&r->p->flow[r->first[k]], &r->p->flow[f]))
            k++;
        if (k == r->pairs)
            r->first[r->pairs++] = f;
    }
    return r->pairs <= MOST_PAIRS
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "emulated flows: got %zu pairs of ranks, expected at most %d", r->pairs,
                           MOST_PAIRS);
}

enum status emulate_pattern(const struct pattern *p, const struct topology *t, const char *platform,
                            double dilation, double *end_s)
{
    enum status st;
    struct network net = {0};
    struct pattern_run r = {.p = p};
    size_t size = sizeof *r.page + p->n * sizeof *r.page->end_s;
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return error_set(STATUS_NOMEM, "cannot allocate shared memory for emulated flows");
    r.page = page;
    TRY(find_pairs(&r));
    TRY(platform_network(platform, t, &net));
    const struct netns_options o = {
        .topology = t, .network = &net, .ranks = p->ranks, .dilation = dilation};
    TRY(netns_call(&o, pattern_inside, &r));
    memcpy(end_s, r.page->end_s, p->n * sizeof *end_s);
out:
    network_free(&net);
    free(r.first);
    munmap(page, size);
    return st;
}
