/* Patterns of flows on an emulated network: two processes for each pair of ranks, which share a
 * page in which they meet and the receiver notes its times. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "study/emulate_pattern.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/netns/netns.h"
#include "sim/platform/network.h"

enum { FIRST_PORT = 30000, MOST_PAIRS = 4096, PIECE = 64 << 10, ADDRESS = 64 };
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

/* The address of a rank: one of inside->addresses. */
static struct sockaddr_in address_of(const struct pattern_run *r, uint32_t rank, size_t pair)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)(FIRST_PORT + pair))};
    char text[ADDRESS];
    const char *at = r->inside->addresses;
    for (uint32_t k = 0; k < rank && at; k++)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    size_t n = at ? strcspn(at, ",") : 0;
    if (n > 0 && n < sizeof text) {
        memcpy(text, at, n);
        text[n] = '\0';
        (void)inet_pton(AF_INET, text, &a.sin_addr);
    }
    return a;
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

/* Calls wait for as long as the deadline leaves, then fail. */
static void set_timeouts(const struct pattern_run *r, int fd)
{
    const struct timeval t = {.tv_sec = (time_t)(r->deadline_s - clock_now()) + 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

static bool pattern_send(const struct pattern_run *r, const struct pattern_flow *pair, size_t k)
{
    static const char piece[PIECE];
    const struct sockaddr_in to = address_of(r, pair->to, k);
    int fd = -1;
    while (fd < 0 && clock_now() < r->deadline_s) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            break;
        close(fd); /* the receiver may not listen yet */
        fd = -1;
        clock_sleep_until(clock_now() + pause_s);
    }
    if (fd < 0)
        return false;
    set_timeouts(r, fd);
    if (!meet(r))
        return false;
    for (size_t f = 0; f < r->p->n; f++)
        for (int64_t left = same_pair(&r->p->flow[f], pair) ? r->p->flow[f].bytes : 0; left > 0;) {
            ssize_t n = send(fd, piece, left < PIECE ? (size_t)left : PIECE, MSG_NOSIGNAL);
            if (n <= 0)
                return false;
            left -= n;
        }
    char byte; /* the receiver closes when it has all */
    return recv(fd, &byte, 1, 0) == 0;
}

static bool pattern_receive(const struct pattern_run *r, const struct pattern_flow *pair, size_t k)
{
    static char piece[PIECE];
    const struct sockaddr_in here = address_of(r, pair->to, k);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (listener < 0)
        return false;
    set_timeouts(r, listener);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (const struct sockaddr *)&here, sizeof here) != 0 ||
        listen(listener, 1) != 0)
        return false;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return false;
    set_timeouts(r, fd);
    if (!meet(r))
        return false;
    for (size_t f = 0; f < r->p->n; f++) {
        if (!same_pair(&r->p->flow[f], pair))
            continue;
        for (int64_t left = r->p->flow[f].bytes; left > 0;) {
            ssize_t n = recv(fd, piece, left < PIECE ? (size_t)left : PIECE, 0);
            if (n <= 0)
                return false;
            left -= n;
        }
        r->page->end_s[f] = clock_now() - r->page->start_s;
    }
    return true;
}

/* The processes of pair k: the receiver first. */
static enum status start_pair(struct pattern_run *r, size_t k)
{
    const struct pattern_flow *pair = &r->p->flow[r->first[k]];
    for (size_t sends = 0; sends < 2; sends++) {
        pid_t *child = &r->child[2 * k + sends];
        *child = fork();
        if (*child < 0)
            return error_set(STATUS_IO, "no more processes");
        if (*child == 0)
            _exit(!(r->inside->enter(r->inside->context, sends ? pair->from : pair->to) &&
                    (sends ? pattern_send : pattern_receive)(r, pair, k)));
    }
    return STATUS_OK;
}

static enum status await_pairs(struct pattern_run *r)
{
    while (atomic_load(&r->page->ready) < 2 * r->pairs) {
        if (clock_now() > r->deadline_s - limit_wait(flows_s))
            return error_set(STATUS_EXTERNAL, "emulated flows: no connection of all pairs");
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
            return error_set(STATUS_EXTERNAL, "emulated flows: a connection failed");
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
    return r->pairs <= MOST_PAIRS ? STATUS_OK
                                  : error_set(STATUS_UNSUPPORTED,
                                              "emulated flows: %zu pairs, more "
                                              "than %d",
                                              r->pairs, MOST_PAIRS);
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
        return error_set(STATUS_NOMEM, "no memory to share with emulated flows");
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
