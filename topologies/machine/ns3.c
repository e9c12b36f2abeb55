/* Networks of ns-3 as ASTRA-sim and SimAI have them: a line "nodes switches links", of SimAI "nodes
 * GPUs-a-server NVSwitches switches links GPU", a line of the switches' numbers, then "A B 400Gbps
 * 0.0005ms LOSS" a cable. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "topologies/machine/machine.h"

enum { NODES = 1 << 19, CABLES = 1 << 19, WORDS = 8, WORD = 32 };

struct reader {
    struct machine *m;
    const char *path;
    size_t line;
    uint64_t nodes, per_server, nvswitches, switches, links;
    const char *gpu;
    bool simai;
    unsigned char *kind; /* [nodes] 0 a GPU, 1 an NVSwitch, 2 a switch */
    uint32_t *part;      /* [nodes] */
    struct quantity {
        char text[WORD];
        double value;
    } rate, latency; /* of the cable before: most are alike */
};

static bool recognises(const struct machine_source *s)
{
    size_t numbers = 0, at = 0;
    const char *rate = strstr(s->text, "bps ");
    while (isdigit((unsigned char)s->text[at])) {
        at += strspn(s->text + at, "0123456789");
        at += strspn(s->text + at, " \t");
        numbers++;
    }
    return numbers >= 3 && rate;
}

static enum status read_head(struct reader *r, char *line)
{
    char *word[WORDS];
    size_t n = text_split(line, " \t\r", word, WORDS);
    bool good = (n == 3 || n == 6) && text_count(word[0], NODES, &r->nodes);
    r->simai = n == 6;
    if (r->simai) {
        good = good && text_count(word[1], NODES, &r->per_server) && r->per_server > 0 &&
               text_count(word[2], NODES, &r->nvswitches) &&
               text_count(word[3], NODES, &r->switches) &&
               text_count(word[4], UINT32_MAX, &r->links);
        r->gpu = word[5];
    } else {
        good = good && text_count(word[1], NODES, &r->switches) &&
               text_count(word[2], UINT32_MAX, &r->links);
    }
    if (!good || r->nvswitches + r->switches >= r->nodes || r->links > CABLES)
        return error_set(
            STATUS_PARSE,
            "%s:%zu: expected 'nodes switches links' or 'nodes GPUs-a-server NVSwitches "
            "switches links GPU', up to %d nodes",
            r->path, r->line, NODES);
    PASS(ARENA_NEW(&r->m->arena, r->kind, r->nodes));
    return ARENA_NEW(&r->m->arena, r->part, r->nodes);
}

static enum status read_switches(struct reader *r, char *line)
{
    char *rest;
    uint64_t id, n = 0;
    for (char *at = strtok_r(line, " \t\r", &rest); at; at = strtok_r(NULL, " \t\r", &rest)) {
        if (!text_count(at, r->nodes - 1, &id) || r->kind[id])
            return error_set(STATUS_PARSE, "%s:%zu: '%.20s', expected the number of a switch",
                             r->path, r->line, at);
        r->kind[id] = n++ < r->nvswitches ? 1 : 2;
    }
    if (n != r->nvswitches + r->switches)
        return error_set(STATUS_PARSE, "%s:%zu: %llu numbers of %llu switches", r->path, r->line,
                         (unsigned long long)n, (unsigned long long)(r->nvswitches + r->switches));
    return STATUS_OK;
}

static enum status add_parts(struct reader *r)
{
    char name[32];
    uint32_t gpu = 0, nvswitch = 0;
    for (uint64_t i = 0; i < r->nodes; i++) {
        snprintf(name, sizeof name, "%s%llu", r->kind[i] ? "switch" : "GPU", (unsigned long long)i);
        if (r->kind[i] == 2) {
            PASS(machine_add_part(r->m, MACHINE_SWITCH, MACHINE_NONE, MACHINE_NONE, name,
                                  &r->part[i]));
        } else if (r->kind[i] == 1) {
            PASS(machine_add_part(r->m, MACHINE_NVSWITCH, nvswitch++, MACHINE_NONE, name,
                                  &r->part[i]));
        } else {
            uint32_t node = r->simai ? gpu / (uint32_t)r->per_server : gpu;
            PASS(machine_add_part(r->m, MACHINE_GPU, node, MACHINE_NONE, name, &r->part[i]));
            r->m->part[r->part[i]].model = r->gpu;
            r->m->nodes = node + 1;
            gpu++;
        }
    }
    if (nvswitch > r->m->nodes)
        return error_set(STATUS_PARSE, "%s: %u NVSwitches for %zu servers", r->path, nvswitch,
                         r->m->nodes);
    return STATUS_OK;
}

static bool read_quantity(enum unit unit, const char *word, struct quantity *last, double *out)
{
    if (*last->text && strcmp(word, last->text) == 0) {
        *out = last->value;
        return true;
    }
    if (units_parse(unit, word, out) != STATUS_OK)
        return false;
    snprintf(last->text, WORD, "%s", strlen(word) < WORD ? word : "");
    last->value = *out;
    return true;
}

static enum status read_cable(struct reader *r, char *line)
{
    char *word[WORDS];
    uint64_t id[2];
    struct machine_link l = {.net = true, .count = 1};
    size_t n = text_split(line, " \t\r", word, WORDS);
    if (n == 0)
        return STATUS_OK;
    if (n < 4 || !text_count(word[0], r->nodes - 1, &id[0]) ||
        !text_count(word[1], r->nodes - 1, &id[1]) || id[0] == id[1] ||
        !read_quantity(UNIT_RATE, word[2], &r->rate, &l.Bps) ||
        !read_quantity(UNIT_SECONDS, word[3], &r->latency, &l.latency_s) || !(l.Bps > 0))
        return error_set(STATUS_PARSE,
                         "%s:%zu: expected 'A B RATE LATENCY LOSS', 0 1 400Gbps 0.0005ms 0",
                         r->path, r->line);
    if (r->m->links == CABLES)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d cables", r->path, r->line, CABLES);
    bool below = r->kind[id[0]] > r->kind[id[1]]; /* links run from switches to what is below */
    l.a = r->part[id[below ? 0 : 1]];
    l.b = r->part[id[below ? 1 : 0]];
    if (r->kind[id[0]] == 1 || r->kind[id[1]] == 1) {
        if (r->kind[id[below ? 1 : 0]] != 0)
            return error_set(STATUS_PARSE, "%s:%zu: an NVSwitch that is not joined to a GPU",
                             r->path, r->line);
        uint32_t nvswitch = l.a;
        l.a = l.b;
        l.b = nvswitch;
        l.net = false;
        r->m->part[nvswitch].node = r->m->part[l.a].node;
    }
    return machine_join(r->m, &l);
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    struct reader r = {.m = m, .path = s->path};
    const char *text = s->text;
    char *line;
    PASS(machine_line(m, &text, &r.line, &line));
    PASS(read_head(&r, line));
    PASS(machine_line(m, &text, &r.line, &line));
    PASS(read_switches(&r, line));
    PASS(add_parts(&r));
    while (*text) {
        PASS(machine_line(m, &text, &r.line, &line));
        PASS(read_cable(&r, line));
    }
    if (m->links != r.links)
        PASS(machine_warn(m, "%zu cables, and %llu in the first line", m->links,
                          (unsigned long long)r.links));
    return STATUS_OK;
}

const struct machine_format machine_ns3 = {
    .name = "ns-3 topology",
    .summary = "networks of ASTRA-sim's and SimAI's ns-3",
    .recognises = recognises,
    .parse = parse,
};
