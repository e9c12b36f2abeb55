/* How ranks find each other: frames of the control connection, what the environment says, and the
 * worker's side of the meeting. */
#include "exec/rendezvous.h"
#include "core/base/array.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "exec/transport/tcp/socket.h"

enum { CONTROL_MAGIC = 0x464c4331 }; /* "FLC1" */

struct frame_head frame_head(enum frame_type type, size_t bytes)
{
    return (struct frame_head){CONTROL_MAGIC, CONTROL_VERSION, (uint16_t)type, bytes};
}

enum status frame_check(const struct frame_head *head)
{
    if (head->magic != CONTROL_MAGIC)
        return error_set(STATUS_IO,
                         "not foreline's control protocol (got 0x%08x, expected 0x%08x): another "
                         "program connected",
                         head->magic, CONTROL_MAGIC);
    if (head->version != CONTROL_VERSION)
        return error_set(
            STATUS_IO,
            "control protocol version %u, expected %d: use the same foreline on all machines",
            head->version, CONTROL_VERSION);
    if (head->type >= FRAME_TYPES)
        return error_set(STATUS_IO, "control frame of unknown type %u", head->type);
    return STATUS_OK;
}

enum status frame_write(int fd, enum frame_type type, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes, double deadline_s)
{
    struct frame_head head = frame_head(type, first_bytes + second_bytes);
    PASS(socket_write(fd, &head, sizeof head, deadline_s));
    PASS(socket_write(fd, first, first_bytes, deadline_s));
    return socket_write(fd, second, second_bytes, deadline_s);
}

enum status file_digest(const char *path, uint8_t digest[DIGEST])
{
    char *text = NULL;
    size_t length;
    enum status st = file_read(path, &text, &length);
    if (st == STATUS_OK)
        digest_bytes(text, length, digest);
    free(text);
    return st;
}

void machine_name(char name[MACHINE])
{
    memset(name, 0, MACHINE);
    if (gethostname(name, MACHINE - 1))
        name[0] = '\0';
}

void hex_print(const uint8_t *bytes, size_t n, char *text)
{
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digit[bytes[i] >> 4];
        text[2 * i + 1] = digit[bytes[i] & 15];
    }
    text[2 * n] = '\0';
}

/* Lower case only, as hex_print() writes it. */
enum status hex_parse(const char *text, uint8_t *bytes, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    if (strlen(text) != 2 * n)
        return error_set(STATUS_INVALID, "expected a token of %zu hexadecimal digits", 2 * n);
    for (size_t i = 0; i < n; i++) {
        const char *high = strchr(digit, text[2 * i]), *low = strchr(digit, text[2 * i + 1]);
        if (!high || !low)
            return error_set(STATUS_INVALID,
                             "token: got '%c%c', expected two hexadecimal digits (0 to 9, a to f)",
                             text[2 * i], text[2 * i + 1]);
        bytes[i] = (uint8_t)((high - digit) << 4 | (low - digit));
    }
    return STATUS_OK;
}

/* The first of three variables that is set: its name and value. */
static const char *first_set(const char *const name[3], const char **which)
{
    for (int k = 0; k < 3; k++)
        if (getenv(name[k])) {
            *which = name[k];
            return getenv(name[k]);
        }
    return NULL;
}

static enum status parse_count(const char *const name[3], uint32_t low, uint32_t high,
                               uint32_t *out)
{
    const char *which = name[0], *text = first_set(name, &which);
    uint64_t value;
    if (!text)
        return error_set(STATUS_USAGE,
                         "none of the environment variables %s, %s and %s is set; set one of them",
                         name[0], name[1], name[2]);
    if (!text_count(text, high, &value) || value < low)
        return error_set(STATUS_USAGE, "%s: got '%s', expected a number from %u to %u", which, text,
                         low, high);
    *out = (uint32_t)value;
    return STATUS_OK;
}

enum status rendezvous_rank(uint32_t *rank, uint32_t *ranks)
{
    static const char *const all[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"};
    static const char *const own[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    uint32_t n, r;
    PASS(parse_count(all, 1, 1 << 20, &n));
    PASS(parse_count(own, 0, n - 1, &r));
    *ranks = n;
    *rank = r;
    return STATUS_OK;
}

enum status rendezvous_local_rank(uint32_t *rank)
{
    static const char *const own[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
    const char *which;
    *rank = 0;
    return first_set(own, &which) ? parse_count(own, 0, 1 << 20, rank) : STATUS_OK;
}

/* Names are looked up once, here; everybody else is told the address. */
enum status rendezvous_look_up(const char *what, const char *name, char host[RENDEZVOUS_HOST])
{
    const struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(name, NULL, &want, &found);
    if (error)
        return error_set(STATUS_IO, "%s '%s': %s", what, name, gai_strerror(error));
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr, host,
              RENDEZVOUS_HOST);
    freeaddrinfo(found);
    return STATUS_OK;
}

enum status rendezvous_master(char host[RENDEZVOUS_HOST], uint16_t *port, bool *given)
{
    static const char *const name[] = {"MASTER_PORT", "MASTER_PORT", "MASTER_PORT"};
    const char *master = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    uint32_t at = 29500;
    *given = master && *master;
    if (getenv("MASTER_PORT"))
        PASS(parse_count(name, 1, UINT16_MAX - 1, &at));
    PASS(rendezvous_look_up("MASTER_ADDR", *given ? master : "127.0.0.1", host));
    *port = (uint16_t)(at + (agent && !strcmp(agent, "True")));
    return STATUS_OK;
}

static enum status parse_address(const char *address, char host[64], uint16_t *port)
{
    int end = 0;
    unsigned number;
    if (sscanf(address, "%63[0-9.]:%5u%n", host, &number, &end) != 2 || address[end] ||
        number < 1 || number > UINT16_MAX)
        return error_set(STATUS_INVALID, "launcher: got '%s', expected ADDRESS:PORT", address);
    *port = (uint16_t)number;
    return STATUS_OK;
}

/* Where all ranks are: ports, and addresses with commas between. */
static enum status take_peers(struct rendezvous *r, struct frame_peer *peer)
{
    size_t n = 0;
    PASS(ARRAY_NEW(r->port, r->ranks));
    PASS(ARRAY_NEW(r->hosts, r->ranks * sizeof peer->host));
    for (uint32_t k = 0; k < r->ranks; k++) {
        r->port[k] = peer[k].port;
        r->clocks_differ |= peer[k].clock != peer[0].clock;
        peer[k].host[sizeof peer[k].host - 1] = '\0';
        n += (size_t)sprintf(r->hosts + n, "%s%s", k > 0 ? "," : "", peer[k].host);
    }
    if (!r->host)
        r->host = r->hosts;
    return STATUS_OK;
}

/* Why the run does not begin, in the launcher's words. */
static enum status take_refusal(int fd, uint64_t bytes, double deadline_s)
{
    struct {
        int32_t code;
        char text[ERROR_TEXT + 1];
    } said = {0};
    if (bytes < sizeof said.code || bytes > sizeof said.code + ERROR_TEXT)
        return error_set(STATUS_IO, "the launcher rejected this rank: the rank belongs to another "
                                    "run or has different settings");
    PASS(socket_read(fd, &said, bytes, deadline_s));
    for (char *c = said.text; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    return error_set(STATUS_IO, "%s", said.text);
}

/* The launcher says why, or closes the connection, instead when the run has failed before it
 * began. */
static enum status receive_peers(struct rendezvous *r, double deadline_s)
{
    enum status st = STATUS_OK;
    struct frame_head head;
    size_t bytes = r->ranks * sizeof(struct frame_peer);
    struct frame_peer *peer = NULL;
    TRY(ARRAY_NEW(peer, r->ranks));
    TRY(socket_read(r->control, &head, sizeof head, deadline_s));
    TRY(frame_check(&head));
    if (head.type == FRAME_ERROR)
        TRY(take_refusal(r->control, head.bytes, deadline_s));
    if (head.type != FRAME_WELCOME || head.bytes != bytes)
        FAIL(STATUS_IO, "the launcher rejected this rank: the rank belongs to another run or has "
                        "different settings");
    TRY(socket_read(r->control, peer, bytes, deadline_s));
    TRY(take_peers(r, peer));
out:
    free(peer);
    return st;
}

const char *rendezvous_host(const struct rendezvous *r, uint32_t rank, char text[RENDEZVOUS_HOST])
{
    const char *at = r->host;
    bool each = strchr(at, ',') != NULL;
    for (uint32_t k = 0; each && at && k < rank; k++) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    snprintf(text, RENDEZVOUS_HOST, "%.*s", at ? (int)strcspn(at, ",") : 0, at ? at : "");
    return text;
}

/* Text in an environment variable: every number has limits, and their count is that of the
 * ranks. */
enum status rendezvous_delays(const char *text, uint32_t ranks, struct delay **out)
{
    static const double longest_s = 3600;
    if (!text) {
        *out = NULL;
        return STATUS_OK;
    }
    struct delay *delay = NULL;
    PASS(ARRAY_NEW(delay, (size_t)ranks));
    uint32_t n = 0;
    for (bool more = true; more && n < ranks; n++) {
        struct delay *d = &delay[n];
        int end = 0;
        if (sscanf(text, "%lf:%lf%n", &d->latency_s, &d->per_byte_s, &end) != 2 || end == 0 ||
            !(d->latency_s >= 0 && d->latency_s <= longest_s && d->per_byte_s >= 0 &&
              d->per_byte_s <= 1))
            break;
        text += end;
        more = *text == ',';
        text += more;
    }
    if (n != ranks || *text) {
        free(delay);
        return error_set(
            STATUS_USAGE,
            "FORELINE_DELAYS: expected %u comma-separated pairs SECONDS:SECONDS_PER_BYTE, "
            "one per rank (error at pair %u)",
            ranks, n);
    }
    *out = delay;
    return STATUS_OK;
}

static void describe_process(struct frame_hello *h)
{
    h->process = process_self();
    h->head = frame_head(FRAME_HELLO, sizeof *h - offsetof(struct frame_hello, rank));
    machine_name(h->machine);
}

bool rendezvous_excuse(const char *launcher, const struct frame_hello *hello, bool early)
{
    struct frame_hello h = *hello;
    char host[64], message[1024];
    uint16_t port;
    int fd = -1;
    double deadline_s = clock_now() + limit_wait(WAIT_DIFFER);
    snprintf(message, sizeof message, "%s", error_message());
    describe_process(&h);
    bool heard =
        parse_address(launcher, host, &port) == STATUS_OK &&
        (early ? socket_connect : socket_connect_once)(host, port, deadline_s, &fd) == STATUS_OK &&
        socket_write(fd, &h, sizeof h, deadline_s) == STATUS_OK &&
        socket_poll(fd, POLLIN, deadline_s + limit_wait(WAIT_DIFFER)) ==
            STATUS_OK; /* it hangs up */
    socket_close(&fd);
    (void)error_set(STATUS_INVALID, "%s", message);
    return heard;
}

/* The port for data is on the interface that leads to the launcher, because the other ranks come
 * the same way. */
enum status rendezvous_join(const char *launcher, const struct frame_hello *hello, bool early,
                            double timeout_s, struct rendezvous *out)
{
    enum status st = STATUS_OK;
    struct rendezvous r = RENDEZVOUS_NONE;
    struct frame_hello h = *hello;
    char host[64], own[RENDEZVOUS_HOST];
    uint16_t port = 0;
    double deadline_s = clock_now() + timeout_s;

    TRY(parse_address(launcher, host, &port));
    r.rank = h.rank;
    r.ranks = h.ranks;
    r.host = getenv("FORELINE_PEERS");
    r.timeout_s = timeout_s;
    memcpy(r.token, h.token, TOKEN);
    TRY(rendezvous_delays(getenv("FORELINE_DELAYS"), r.ranks, &r.delay));
    TRY((early ? socket_connect : socket_connect_once)(host, port, deadline_s, &r.control));
    if (r.host)
        rendezvous_host(&r, r.rank, own);
    else
        TRY(socket_own(r.control, own));
    TRY(socket_listen_at(own, &r.listener, &h.port));
    describe_process(&h);
    TRY(socket_write(r.control, &h, sizeof h, deadline_s));
    TRY(receive_peers(&r, deadline_s));
    *out = r;
    r = RENDEZVOUS_NONE;
out:
    if (st != STATUS_OK)
        error_context(st, "rank %u: joining the launcher at %s", hello->rank, launcher);
    rendezvous_free(&r);
    return st;
}

void rendezvous_free(struct rendezvous *r)
{
    free(r->port);
    free(r->delay);
    free(r->hosts);
    socket_close(&r->listener);
    socket_close(&r->control);
    *r = RENDEZVOUS_NONE;
}
