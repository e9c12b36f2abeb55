#include "tests/generated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/units.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "sim/platform/xml_scan.h"
#include "tests/cmocka.h"
#include "topologies/generate.h"

enum { VERTICES = 400, LINKS = 600, NAME = 64 };

char generated_path[sizeof BINARY_DIR + 40];
static pid_t owner;

/* Children of the test leave it alone. */
static void remove_file(void)
{
    if (getpid() == owner)
        unlink(generated_path);
}

/* Tests run side by side: every process has a file of its own. */
__attribute__((constructor)) static void name_file(void)
{
    owner = getpid();
    snprintf(generated_path, sizeof generated_path, BINARY_DIR "/generated-%ld.xml", (long)owner);
    atexit(remove_file);
}

struct topology generated(const char *spec)
{
    struct topology t = {0};
    FILE *f = fopen(generated_path, "w");
    assert_non_null(f);
    if (generate_platform(spec, f) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(fclose(f), 0);
    if (platform_read(generated_path, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

void expect_between(const struct topology *t, const char *a, const char *b, const char *name,
                    double latency_s, double bandwidth_Bps)
{
    uint32_t i = topology_find(t, a), j = topology_find(t, b);
    assert_true(i < t->n && j < t->n);
    for (int way = 0; way < 2; way++) {
        const struct topology_tier *tier =
            way ? topology_between(t, i, j) : topology_between(t, j, i);
        assert_string_equal(tier->name, name);
        if (!(tier->latency_s > latency_s * (1 - 1e-9) &&
              tier->latency_s < latency_s * (1 + 1e-9) &&
              tier->bandwidth_Bps > bandwidth_Bps * (1 - 1e-9) &&
              tier->bandwidth_Bps < bandwidth_Bps * (1 + 1e-9)))
            fail_msg("%s to %s: %g s, %g B/s instead of %g, %g", a, b, tier->latency_s,
                     tier->bandwidth_Bps, latency_s, bandwidth_Bps);
    }
}

/* ---- maximum flow from the first half of the GPUs to the other (Edmonds & Karp, JACM 19 (1972)),
 * on the links of the file, each shared by all routes through it */

struct network {
    size_t n;
    char name[VERTICES][NAME];
    double room[VERTICES][VERTICES];
};

static size_t vertex(struct network *w, const char *name)
{
    size_t i = 0;
    while (i < w->n && strcmp(w->name[i], name) != 0)
        i++;
    if (i == w->n) {
        assert_true(w->n < VERTICES);
        snprintf(w->name[w->n++], NAME, "%s", name);
    }
    return i;
}

static void text_of(const struct xml_tag *tag, const char *key, char out[NAME])
{
    assert_true(xml_decode(xml_attribute(tag, key), out, NAME) < NAME);
}

struct port {
    char id[NAME];
    double bandwidth_Bps;
};

/* Links are vertices too: a -> link -> b, "<" and ">" for the two directions; entering a link takes
 * its room. */
static void add_route(struct network *w, const char *a, const char *b, size_t hops,
                      const struct port *hop)
{
    for (int way = 0; way < 2; way++) {
        size_t at = vertex(w, way ? b : a);
        for (size_t h = 0; h < hops; h++) {
            const struct port *p = &hop[way ? hops - 1 - h : h];
            char in[NAME + 8], out[NAME + 8];
            snprintf(in, sizeof in, "%s%c in", p->id, way ? '<' : '>');
            snprintf(out, sizeof out, "%s%c", p->id, way ? '<' : '>');
            size_t from = vertex(w, in), to = vertex(w, out);
            w->room[at][from] = 1e18;
            w->room[from][to] = p->bandwidth_Bps;
            at = to;
        }
        w->room[at][vertex(w, way ? a : b)] = 1e18;
    }
}

static void read_network(struct network *w)
{
    static struct port link[LINKS];
    struct port hop[8];
    char *text = NULL, a[NAME] = "", b[NAME] = "", value[NAME];
    size_t length, links = 0, hops = 0;
    memset(w, 0, sizeof *w);
    assert_int_equal(file_read(generated_path, &text, &length), STATUS_OK);
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    while (xml_next(&s, &tag)) {
        if (xml_is(&tag, "link")) {
            assert_true(links < LINKS);
            text_of(&tag, "id", link[links].id);
            text_of(&tag, "bandwidth", value);
            assert_int_equal(units_parse(UNIT_RATE, value, &link[links++].bandwidth_Bps),
                             STATUS_OK);
        } else if (xml_is(&tag, "route")) {
            text_of(&tag, "src", a);
            text_of(&tag, "dst", b);
            hops = 0;
        } else if (xml_is(&tag, "link_ctn")) {
            text_of(&tag, "id", value);
            size_t i = 0;
            while (strcmp(link[i].id, value) != 0)
                assert_true(++i < links);
            hop[hops++] = link[i];
        } else if (xml_equal(tag.name, "route")) {
            add_route(w, a, b, hops, hop);
        }
    }
    free(text);
}

/* Push flow along one shortest way; 0 when there is none. */
static double augment(struct network *w, size_t source, size_t sink)
{
    size_t before[VERTICES], queue[VERTICES], head = 0, tail = 0;
    for (size_t i = 0; i < w->n; i++)
        before[i] = VERTICES;
    before[source] = source;
    queue[tail++] = source;
    while (head < tail) {
        size_t v = queue[head++];
        for (size_t u = 0; u < w->n; u++)
            if (before[u] == VERTICES && w->room[v][u] > 1) {
                before[u] = v;
                queue[tail++] = u;
            }
    }
    if (before[sink] == VERTICES)
        return 0;
    double least = 1e18;
    for (size_t v = sink; v != source; v = before[v])
        least = w->room[before[v]][v] < least ? w->room[before[v]][v] : least;
    for (size_t v = sink; v != source; v = before[v]) {
        w->room[before[v]][v] -= least;
        w->room[v][before[v]] += least;
    }
    return least;
}

void expect_bisection(const struct topology *t, double bandwidth_Bps)
{
    static struct network w;
    double flow = 0, more;
    read_network(&w);
    size_t source = vertex(&w, "source"), sink = vertex(&w, "sink");
    for (size_t i = 0; i < t->n; i++) {
        size_t gpu = vertex(&w, t->device[i]);
        w.room[i < t->n / 2 ? source : gpu][i < t->n / 2 ? gpu : sink] = 1e18;
    }
    while ((more = augment(&w, source, sink)) > 0)
        flow += more;
    if (!(flow > bandwidth_Bps * (1 - 1e-9) && flow < bandwidth_Bps * (1 + 1e-9)))
        fail_msg("bisection %g B/s instead of %g", flow, bandwidth_Bps);
}

/* ---- messages on both engines */

struct program generated_messages(const struct topology *t, const uint32_t *to)
{
    struct program p = {.ranks = t->n, .microbatches = 1, .microbatch_size = 1};
    size_t k = 0;
    p.rank = calloc(t->n, sizeof *p.rank);
    p.op_start = calloc(t->n + 1, sizeof *p.op_start);
    p.op = calloc(2 * t->n + 1, sizeof *p.op);
    p.dep = calloc(1, sizeof *p.dep);
    p.group_start = calloc(1, sizeof *p.group_start);
    p.device_start = calloc(1, sizeof *p.device_start);
    p.stage_start = calloc(2, sizeof *p.stage_start);
    assert_true(p.rank && p.op_start && p.op && p.dep && p.group_start && p.device_start &&
                p.stage_start);
    p.stages = 1;
    for (uint32_t r = 0; r < t->n; r++) {
        p.rank[r].device = r;
        p.rank[r].name = strdup(t->device[r]);
        p.op_start[r] = k;
        for (uint32_t s = 0; s < t->n; s++) {
            if (to[s] != r)
                continue;
            p.op[k++] = (struct program_op){.kind = OP_RECV,
                                            .peer = s,
                                            .count = 1,
                                            .channel = PROGRAM_NONE,
                                            .bytes = GENERATED_MESSAGE};
        }
        if (to[r] < t->n)
            p.op[k++] = (struct program_op){.kind = OP_SEND,
                                            .peer = to[r],
                                            .count = 1,
                                            .channel = PROGRAM_NONE,
                                            .bytes = GENERATED_MESSAGE};
    }
    p.op_start[t->n] = p.ops = k;
    if (program_match(&p) != STATUS_OK)
        fail_msg("%s", error_message());
    return p;
}

static double last_end(const struct engine *e, const struct program *p, const struct topology *t)
{
    struct simulation s = {0};
    double end = 0;
    if (e->run(p, t, generated_path, NULL, &s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t i = 0; i < s.timeline.n; i++)
        end = s.timeline.end_s[i] > end ? s.timeline.end_s[i] : end;
    simulation_free(&s);
    return end;
}

static void expect_seconds(const char *what, double found, double expected)
{
    if (!(found > expected * (1 - 1e-6) && found < expected * (1 + 1e-6)))
        fail_msg("%s: %.9g s instead of %.9g", what, found, expected);
}

/* A message alone: latency + bytes / bandwidth on either engine. */
void expect_message(const struct topology *t, const char *a, const char *b, double latency_s,
                    double bandwidth_Bps)
{
    uint32_t to[VERTICES];
    for (size_t i = 0; i < t->n; i++)
        to[i] = UINT32_MAX;
    to[topology_find(t, a)] = topology_find(t, b);
    struct program p = generated_messages(t, to);
    for (size_t e = 0; e < engines_fluid(); e++)
        expect_seconds(engines[e]->name, last_end(engines[e], &p, t),
                       latency_s + GENERATED_MESSAGE / bandwidth_Bps);
    program_free(&p);
}

/* Every GPU of the first half sends to its counterpart in the second: they share what the ways
 * between the halves carry together. */
void expect_halves(const struct topology *t, double latency_s, double together_Bps)
{
    uint32_t to[VERTICES];
    for (uint32_t i = 0; i < t->n; i++)
        to[i] = i < t->n / 2 ? i + (uint32_t)t->n / 2 : UINT32_MAX;
    struct program p = generated_messages(t, to);
    for (size_t e = 0; e < engines_fluid(); e++)
        expect_seconds(engines[e]->name, last_end(engines[e], &p, t),
                       latency_s + (double)(t->n / 2) * GENERATED_MESSAGE / together_Bps);
    program_free(&p);
}
