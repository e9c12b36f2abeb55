/* What ibnetdiscover prints of an InfiniBand network, and ibsim's files in that form: records of
 * switches and adapters, then a line per port that is connected. A cable may stand at one of its
 * ends or at both. Adapters of one host are told by their description, "HOST mlx5_0"; without one
 * each is a node. So is each where the description names no host: "localhost", or one device of
 * the same host in several adapters, as the manufacturer's "MT4123 ConnectX6 Mellanox
 * Technologies" is. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/fabric.h"

enum { KEY = 200, DESCRIPTION = 160 };

struct ibnet_reader {
    struct machine_fabric f;
    size_t line;
    char id[96]; /* of the record under way; "": none */
    size_t unknown;
    uint32_t adapters; /* numbered in NAMES_PARTS */
    size_t hostless,
        hostless_line; /* adapters whose description names no host; the first one's line */
    char hostless_name[DESCRIPTION]; /* and its description */
};

static bool ibnet_recognises(const struct machine_source *s)
{
    const char *at = s->text;
    for (size_t lines = 0; *at && lines < 4096; lines++) {
        at += strspn(at, " \t\r\n");
        size_t word = strspn(at, "SwitchCaHR");
        if ((!strncmp(at, "Switch", 6) || !strncmp(at, "Ca", 2) || !strncmp(at, "Hca", 3)) &&
            word > 1 && isspace((unsigned char)at[word]) &&
            isdigit((unsigned char)at[word + strspn(at + word, " \t")]) &&
            memchr(at, '"', strcspn(at, "\n")))
            return true;
        at += strcspn(at, "\n");
    }
    return false;
}

/* The text between the next two quotes, at most size - 1 characters; where it ends, NULL: none. */
static const char *quoted(const char *at, char *out, size_t size)
{
    const char *open = strchr(at, '"'), *end = open ? strchr(open + 1, '"') : NULL;
    if (!end || (size_t)(end - open) >= size)
        return NULL;
    memcpy(out, open + 1, (size_t)(end - open - 1));
    out[end - open - 1] = '\0';
    return end + 1;
}

/* "node-7 mlx5_0" and "node-7 HCA-1" are of node-7. */
static void host_of(char *description)
{
    char *blank = strchr(description, ' ');
    if (blank && !strchr(blank + 1, ' '))
        *blank = '\0';
}

static uint32_t ibnet_kind(const struct ibnet_reader *r, const char *id)
{
    uint32_t kind = machine_name_find(r->f.m, NAMES_KINDS, id);
    return kind != MACHINE_NONE ? kind : !strncmp(id, "S-", 2) ? 1 : !strncmp(id, "H-", 2) ? 2 : 0;
}

static bool names_no_host(const char *host)
{
    return !strncmp(host, "localhost", 9) || !strcmp(host, "(none)");
}

/* Second pass: which hosts' names stand for several. Two adapters of a host have different
 * devices. */
static enum status read_adapter(struct ibnet_reader *r, const char *line)
{
    char id[96], description[DESCRIPTION];
    const char *at = *line == '[' || *line == 'C' || *line == 'H' ? quoted(line, id, sizeof id) : 0;
    if (!at || ibnet_kind(r, id) != 2 || !quoted(at, description, sizeof description))
        return STATUS_OK;
    uint32_t adapter = machine_name_find(r->f.m, NAMES_PARTS, id);
    if (adapter == MACHINE_NONE) {
        adapter = r->adapters++;
        PASS(machine_name_put(r->f.m, NAMES_PARTS, id, adapter));
    }
    uint32_t same = machine_name_find(r->f.m, NAMES_HOSTS, description);
    if (same == MACHINE_NONE)
        PASS(machine_name_put(r->f.m, NAMES_HOSTS, description, adapter));
    bool twice = same != MACHINE_NONE && same != adapter && strchr(description, ' ');
    host_of(description);
    return twice || names_no_host(description)
               ? machine_name_put(r->f.m, NAMES_DOMAINS, description, 1)
               : STATUS_OK;
}

/* "4xHDR": lanes and what one carries, bytes per second; 0: not said. */
static double speed_of(const char *text)
{
    static const struct {
        const char *name;
        double Gbps;
    } rates[] = {{"SDR", 2},  {"DDR", 4},  {"QDR", 8},   {"FDR10", 10}, {"FDR", 13.6},
                 {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
    for (const char *x = text; (x = strchr(x, 'x')); x++) {
        const char *from = x;
        while (from > text && isdigit((unsigned char)from[-1]))
            from--;
        long lanes = from < x && x - from < 3 ? strtol(from, NULL, 10) : 0;
        for (size_t k = 0; lanes > 0 && k < sizeof rates / sizeof *rates; k++)
            if (!strncmp(x + 1, rates[k].name, strlen(rates[k].name)))
                return (double)lanes * rates[k].Gbps * 1e9 / 8;
    }
    return 0;
}

/* First pass: which id is what, 1 a switch, 2 an adapter, 3 an aggregator. */
static enum status ibnet_read_kind(struct ibnet_reader *r, const char *line)
{
    char id[96], rest[160];
    uint32_t kind = !strncmp(line, "Switch", 6)                           ? 1
                    : !strncmp(line, "Ca", 2) || !strncmp(line, "Hca", 3) ? 2
                                                                          : 0;
    const char *at = kind > 0 ? quoted(line, id, sizeof id) : NULL;
    if (!at)
        return STATUS_OK;
    if (quoted(at, rest, sizeof rest) && strstr(rest, "Aggregation Node"))
        kind = 3;
    return machine_name_put(r->f.m, NAMES_KINDS, id, kind);
}

/* The part of an end; the description is the remote one's on lines of ports. */
static enum status ibnet_part(struct ibnet_reader *r, const char *id, const char *description,
                              uint32_t *part)
{
    size_t parts = r->f.m->parts;
    char host[DESCRIPTION];
    if (ibnet_kind(r, id) == 1)
        return fabric_part(&r->f, MACHINE_SWITCH, id, part);
    snprintf(host, sizeof host, "%s", description);
    host_of(host);
    bool apart = machine_name_find(r->f.m, NAMES_DOMAINS, host) != MACHINE_NONE;
    PASS(fabric_part(&r->f, MACHINE_NODE, *host && !apart ? host : id, part));
    if (apart && r->f.m->parts > parts && r->hostless++ == 0) {
        r->hostless_line = r->line;
        snprintf(r->hostless_name, sizeof r->hostless_name, "%s", description);
    }
    return STATUS_OK;
}

/* [1](guid) "S-0002"[21](guid)  # "what" lid 3 4xHDR */
static enum status read_port(struct ibnet_reader *r, const char *line)
{
    char id[96], description[DESCRIPTION] = "", key[KEY];
    uint32_t here, there;
    const char *at = quoted(line, id, sizeof id);
    long port = strtol(line + 1, NULL, 10);
    if (!*r->id || !at)
        return error_set(STATUS_PARSE, "%s:%zu: port %s", r->f.m->path, r->line,
                         at ? "before any switch or adapter"
                            : "without the \"ID\" of its other end");
    long other = *at == '[' ? strtol(at + 1, NULL, 10) : 0;
    uint32_t kind = ibnet_kind(r, r->id), remote = ibnet_kind(r, id);
    if (quoted(at, description, sizeof description) && strstr(description, "Aggregation Node"))
        remote = 3;
    if (kind == 3 || remote == 3)
        return machine_warn(r->f.m, "ignored: aggregation nodes of switches (SHARP)");
    if (remote == 0) {
        r->unknown++;
        return STATUS_OK;
    }
    if (kind !=
        1) /* described where the switch has it, or at the switch's end only: not lost below */
        return STATUS_OK;
    bool first = strcmp(r->id, id) < 0 || (!strcmp(r->id, id) && port < other);
    snprintf(key, sizeof key, "%.80s:%ld %.80s:%ld", first ? r->id : id, first ? port : other,
             first ? id : r->id, first ? other : port);
    if (machine_name_find(r->f.m, NAMES_CABLES, key) != MACHINE_NONE)
        return STATUS_OK;
    PASS(machine_name_put(r->f.m, NAMES_CABLES, key, 1));
    PASS(ibnet_part(r, r->id, "", &here));
    PASS(ibnet_part(r, id, description, &there));
    if (here == there)
        return STATUS_OK;
    double Bps = speed_of(at);
    if (!(Bps > 0)) {
        Bps = 12.5e9;
        PASS(machine_assume(r->f.m, "cables without a rate in the file have 12.5 GB/s (4xEDR)"));
    }
    return machine_join(
        r->f.m, &(struct machine_link){.net = true, .a = here, .b = there, .count = 1, .Bps = Bps});
}

static enum status ibnet_read_line(struct ibnet_reader *r, const char *line)
{
    r->line++;
    if (*line == '[')
        return read_port(r, line);
    if (!strncmp(line, "Switch", 6) || !strncmp(line, "Ca", 2) || !strncmp(line, "Hca", 3)) {
        if (!quoted(line, r->id, sizeof r->id))
            return error_set(STATUS_PARSE, "%s:%zu: record without \"ID\"", r->f.m->path, r->line);
        uint32_t part;
        if (ibnet_kind(r, r->id) == 1) {
            PASS(fabric_part(&r->f, MACHINE_SWITCH, r->id, &part));
            return machine_name_put(r->f.m, NAMES_DEFINED, r->id, 1);
        }
    } else if (!*line) {
        r->id[0] = '\0';
    }
    return STATUS_OK;
}

static enum status ibnet_parse(const struct machine_source *s, struct machine *m)
{
    struct ibnet_reader r = {.f = {.m = m}};
    const char *text = s->text;
    char *at;
    size_t line = 0;
    while (*text) {
        PASS(machine_line(m, &text, &line, &at));
        PASS(ibnet_read_kind(&r, at));
    }
    for (text = s->text; *text;) {
        PASS(machine_line(m, &text, &line, &at));
        PASS(read_adapter(&r, at));
    }
    for (text = s->text; *text;) {
        PASS(machine_line(m, &text, &line, &at));
        PASS(ibnet_read_line(&r, at));
    }
    if (machine_count(m, MACHINE_SWITCH) == 0)
        return error_set(STATUS_PARSE, "%s: the file has adapters, but no switch that joins them",
                         s->path);
    if (r.hostless > 0)
        PASS(machine_warn(m,
                          "%s:%zu: %zu adapter%s without a host name become nodes of their own "
                          "(the first: '%.60s', expected 'HOST DEVICE'). Set the node descriptions "
                          "(rdma-ndd) and run ibnetdiscover again",
                          s->path, r.hostless_line, r.hostless, r.hostless == 1 ? "" : "s",
                          r.hostless_name));
    if (r.unknown > 0)
        PASS(machine_warn(
            m, "ignored: %zu port%s connected to something that the file does not describe",
            r.unknown, r.unknown == 1 ? "" : "s"));
    return fabric_check(&r.f);
}

const struct machine_format machine_ibnetdiscover = {
    .name = "ibnetdiscover",
    .summary = "InfiniBand networks as ibnetdiscover prints them",
    .recognises = ibnet_recognises,
    .parse = ibnet_parse,
};
