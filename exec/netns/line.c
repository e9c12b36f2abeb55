/* The rings are the queues: the kernel writes a packet there with the time when it came, and it
 * stays until it is due. Sources: packet(7), Documentation/networking/packet_mmap.rst. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "exec/netns/inside.h"

/* A slot holds a packet of 9000 bytes, its Ethernet header, and what the kernel says of it. */
enum { SLOT = 9216, BLOCK = 64 << 10, BLOCK_SLOTS = BLOCK / SLOT, PACKET = 9000 };
enum {
    MOST_LINKS = 1000000,
    SPARE = 256,
    MOST_SLOTS = 1 << 17,
    UNKNOWN_SLOTS = 4096,
    PRIORITY = 5,
    NICE = -10
};
static const double most_bytes = 1e9, least_s = 15e-6;
static const int64_t second_ns = 1000000000, again_ns = 20000, most_late_ns = 200000;

/* What comes in at one end and leaves at the other. */
struct lane {
    int in, out;
    uint8_t *ring;
    size_t slots;
    size_t sent, seen; /* numbers of packets; those between wait */
    int64_t *due_ns;   /* [slots] */
    int64_t delay_ns;
};

/* ---- size */

/* Both directions' packets that can be under way: data, and as many acknowledgements. */
static size_t line_count_slots(const struct line_link *l)
{
    double packets =
        l->rate_Bps > 0 ? 2 * l->delay_s * l->rate_Bps / PACKET + SPARE : (double)UNKNOWN_SLOTS;
    size_t blocks = (size_t)(fmin(packets, MOST_SLOTS) / BLOCK_SLOTS) + 1;
    return blocks * BLOCK_SLOTS;
}

bool line_delays(double latency_s)
{
    return latency_s >= least_s;
}

/* The rings of all links must fit into memory, and the kernel must allow packet sockets. */
bool line_possible(const struct line_link *link, size_t links, char why[LINE_WHY])
{
    double bytes = 0;
    char text[UNITS_TEXT];
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), version = TPACKET_V2, on = 1;
    bool can = fd >= 0 &&
               setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) == 0 &&
               setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0;
    if (!can)
        snprintf(why, LINE_WHY, "no packet sockets (%s)", strerror(errno));
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < links; i++)
        bytes += 2.0 * (double)line_count_slots(&link[i]) * SLOT;
    if (can && bytes > most_bytes)
        snprintf(why, LINE_WHY, "%s of packets would be under way",
                 units_print(UNIT_BYTES, bytes, text));
    return can && bytes <= most_bytes;
}

/* ---- sockets */

/* A ring that the kernel fills and this process reads in place: no packet is copied on its way
 * in. */
static enum status open_end(const char *name, size_t slots, struct lane *l)
{
    int version = TPACKET_V2, on = 1;
    struct tpacket_req request = {.tp_block_size = BLOCK,
                                  .tp_frame_size = SLOT,
                                  .tp_block_nr = (unsigned)(slots / BLOCK_SLOTS),
                                  .tp_frame_nr = (unsigned)slots};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    *l = (struct lane){.in = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), .out = -1};
    at.sll_ifindex = (int)if_nametoindex(name);
    if (l->in < 0 || at.sll_ifindex == 0 ||
        setsockopt(l->in, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        /* checksums are left to whoever has them computed: nobody */
        setsockopt(l->in, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(l->in, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
        goto failed;
    l->ring = mmap(NULL, slots / BLOCK_SLOTS * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, l->in, 0);
    if (l->ring == MAP_FAILED) {
        l->ring = NULL;
        goto failed;
    }
    l->slots = slots;
    PASS(ARRAY_NEW(l->due_ns, slots));
    if (bind(l->in, (struct sockaddr *)&at, sizeof at) == 0)
        return STATUS_OK;
failed:
    return error_set(STATUS_IO, "cannot start the delay line at interface %s: %s", name,
                     strerror(errno));
}

static void close_lanes(struct lane *lane, size_t lanes)
{
    for (size_t i = 0; lane && i < lanes; i++) {
        if (lane[i].ring)
            munmap(lane[i].ring, lane[i].slots / BLOCK_SLOTS * BLOCK);
        if (lane[i].in >= 0)
            close(lane[i].in);
        free(lane[i].due_ns);
    }
    free(lane);
}

/* ---- forwarding */

static int64_t line_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * second_ns + t.tv_nsec;
}

static struct tpacket2_hdr *packet_of(const struct lane *l, size_t number)
{
    size_t slot = number % l->slots;
    void *at = l->ring + slot / BLOCK_SLOTS * BLOCK + slot % BLOCK_SLOTS * SLOT;
    return at;
}

static _Atomic __u32 *owner_of(struct tpacket2_hdr *p)
{
    return (_Atomic __u32 *)&p->tp_status;
}

/* Note when the packets that have come are due. Their times are the wall clock's, which may be set:
 * none is older than a second. */
static void line_note_packets(struct lane *l)
{
    int64_t now = 0, ahead = 0;
    while (l->seen - l->sent < l->slots) {
        struct tpacket2_hdr *p = packet_of(l, l->seen);
        if (!(atomic_load_explicit(owner_of(p), memory_order_acquire) & TP_STATUS_USER))
            return;
        if (now == 0) {
            now = line_clock_ns(CLOCK_MONOTONIC);
            ahead = line_clock_ns(CLOCK_REALTIME) - now;
        }
        int64_t came = (int64_t)p->tp_sec * second_ns + p->tp_nsec - ahead;
        if (came > now || came < now - second_ns)
            came = now;
        l->due_ns[l->seen++ % l->slots] = came + l->delay_ns;
    }
}

/* Send what is due, or is so within the time that we are late on average. Returns when to come
 * back, INT64_MAX: when a packet comes. */
static int64_t line_forward(struct lane *l, int64_t late_ns)
{
    int64_t early = late_ns < l->delay_ns / 2 ? late_ns : l->delay_ns / 2;
    while (l->sent < l->seen) {
        struct tpacket2_hdr *p = packet_of(l, l->sent);
        int64_t due = l->due_ns[l->sent % l->slots] - early, now = line_clock_ns(CLOCK_MONOTONIC);
        if (due > now)
            return due;
        const uint8_t *from = (uint8_t *)p + p->tp_mac - sizeof(struct virtio_net_hdr);
        size_t n = sizeof(struct virtio_net_hdr) + p->tp_snaplen;
        if (p->tp_snaplen == p->tp_len && send(l->out, from, n, MSG_DONTWAIT) < 0 &&
            (errno == EAGAIN || errno == ENOBUFS))
            return now + again_ns;
        atomic_store_explicit(owner_of(p), TP_STATUS_KERNEL, memory_order_release);
        l->sent++;
    }
    return INT64_MAX;
}

/* A mean over the last eight or so, of delays that are the machine's own: one that is far out is
 * not to make what follows too early. */
static int64_t line_learn_delay(int64_t late, int64_t now_late)
{
    now_late = now_late < most_late_ns ? now_late : most_late_ns;
    return late + (now_late - late) / 8;
}

/* As much before other work as this user may be. */
static void be_prompt(void)
{
    const struct sched_param first = {.sched_priority = PRIORITY};
    prctl(PR_SET_TIMERSLACK, 1);
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        (void)setpriority(PRIO_PROCESS, 0, NICE);
}

/* In a process of its own, for ever: it ends with the sandbox, or is killed. Programs of the
 * ranks that are asked to end may still have something to say to each other. */
static void line_run_lanes(struct lane *lane, size_t lanes, struct pollfd *wake)
{
    prctl(PR_SET_NAME, "foreline-delay");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    be_prompt();
    for (int64_t late = 0;;) {
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < lanes; i++) {
            line_note_packets(&lane[i]);
            int64_t due = line_forward(&lane[i], late);
            next = due < next ? due : next;
            /* what comes behind others is not due before them */
            bool idle = lane[i].sent == lane[i].seen;
            wake[i] = (struct pollfd){idle ? lane[i].in : -1, POLLIN, 0};
        }
        int64_t wait = next == INT64_MAX ? 0 : next - line_clock_ns(CLOCK_MONOTONIC);
        wait = wait > 0 ? wait : 0;
        const struct timespec t = {.tv_sec = wait / second_ns, .tv_nsec = wait % second_ns};
        int woken = ppoll(wake, (nfds_t)lanes, next == INT64_MAX ? NULL : &t, NULL);
        if (woken == 0 && wait > 0)
            late = line_learn_delay(late, line_clock_ns(CLOCK_MONOTONIC) - next);
    }
}

/* Sockets are made in the caller, where failures can still be told; the process that forwards
 * inherits them. */
enum status line_start(int space, const struct line_link *link, size_t links, pid_t *pid)
{
    enum status st;
    struct lane *lane = NULL;
    struct pollfd *wake = NULL;
    size_t lanes = 0;
    char name[IFNAMSIZ];
    TRY(ARRAY_NEW(lane, 2 * links));
    TRY(ARRAY_NEW(wake, 2 * links));
    if (setns(space, CLONE_NEWNET) != 0)
        FAIL(STATUS_IO, "setns: %s", strerror(errno));
    for (size_t i = 0; i < 2 * links; i++) {
        TRY(open_end(line_end(i / 2, (int)(i % 2), name), line_count_slots(&link[i / 2]),
                     &lane[lanes++]));
        lane[i].delay_ns = (int64_t)(link[i / 2].delay_s * 1e9);
    }
    for (size_t i = 0; i < lanes; i++)
        lane[i].out = lane[i ^ 1].in;
    *pid = fork();
    if (*pid == 0)
        line_run_lanes(lane, lanes, wake);
    if (*pid < 0)
        st = error_set(STATUS_IO, "fork: %s", strerror(errno));
out:
    close_lanes(lane, lanes);
    free(wake);
    return st;
}

const char *line_end(size_t link, int end, char name[IFNAMSIZ])
{
    snprintf(name, IFNAMSIZ, "%c%u", end ? 'b' : 'a', (unsigned)(link % MOST_LINKS));
    return name;
}
