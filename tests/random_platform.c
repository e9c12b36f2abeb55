/* Writes random platforms, line by line: <config>, then zones of one of the kinds below. What is
 * refused is put in with a probability of a third, and the first such line is remembered. */
#include "tests/random_platform.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

struct writer {
    struct random_platform *out;
    uint64_t state;
    size_t length, line;
    bool refuses; /* one feature that is refused is still to come */
};

static size_t below(struct writer *w, size_t n)
{
    return (size_t)(random_next(&w->state) % n);
}

static bool chance(struct writer *w, size_t percent)
{
    return below(w, 100) < percent;
}

/* One line. */
static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct writer *w, const char *format, ...)
{
    size_t room = sizeof w->out->text - w->length;
    va_list list;
    va_start(list, format);
    int n = vsnprintf(w->out->text + w->length, room, format, list);
    va_end(list);
    assert_true(n >= 0 && (size_t)n + 2 < room);
    w->length += (size_t)n;
    w->out->text[w->length++] = '\n';
    w->out->text[w->length] = '\0';
    w->line++;
}

/* The next line has something that is refused. */
static void refused(struct writer *w, const char *reason)
{
    w->refuses = false;
    if (w->out->line == 0) {
        w->out->line = w->line + 1;
        w->out->reason = reason;
    }
}

static unsigned bandwidth(struct writer *w)
{
    return (unsigned)(1 + below(w, 40)) * 100; /* Mb/s */
}

static unsigned latency(struct writer *w)
{
    return (unsigned)below(w, 200); /* us */
}

/* ---- hosts and links */

static void put_host(struct writer *w, const char *name)
{
    static const char *const files[] = {"speed_file", "availability_file", "state_file"};
    static const char *const speeds[] = {"1Gf", "2.345Gf", "2.3451Gf", "3Gf,2Gf,1Gf"};
    char more[64] = "";
    size_t speed = below(w, 4);
    if (w->refuses && chance(w, 20)) {
        refused(w, "changes over time are unsupported");
        snprintf(more, sizeof more, " %s=\"x.profile\"", files[below(w, 3)]);
    } else if (chance(w, 30)) {
        snprintf(more, sizeof more, " core=\"%zu\"", 1 + below(w, 8));
    } else if (speed == 3) {
        snprintf(more, sizeof more, " pstate=\"%zu\"", below(w, 3));
    }
    put(w, "<host id=\"%s\" speed=\"%s\"%s>%s</host>", name, speeds[speed], more,
        chance(w, 20) ? "<disk id=\"d\" read_bw=\"1MBps\" write_bw=\"1MBps\"/>" : "");
}

/* A link; whether it has two directions. */
static bool put_link(struct writer *w, const char *name)
{
    static const char *const files[] = {"bandwidth_file", "latency_file", "state_file"};
    static const char *const policies[] = {"", "SHARED", "SPLITDUPLEX", "FATPIPE"};
    char more[64] = "";
    size_t policy = below(w, 4);
    if (w->refuses && chance(w, 10)) {
        refused(w, "changes over time are unsupported");
        snprintf(more, sizeof more, " %s=\"x.profile\"", files[below(w, 3)]);
    } else if (w->refuses && chance(w, 5)) {
        refused(w, "Wi-Fi is unsupported");
        put(w, "<link id=\"%s\" bandwidth=\"54Mbps,1Mbps\" sharing_policy=\"WIFI\"/>", name);
        return false;
    } else if (policy > 0) {
        snprintf(more, sizeof more, " sharing_policy=\"%s\"", policies[policy]);
    }
    put(w, "<link id=\"%s\" bandwidth=\"%uMbps\" latency=\"%uus\"%s/>", name, bandwidth(w),
        latency(w), more);
    return policy == 2 && !strncmp(more, " sharing", 8);
}

enum { LINKS = 8 };

/* A pool of links that routes are made of. */
struct pool {
    char prefix[8];
    bool duplex[LINKS];
};

static void put_pool(struct writer *w, const char *prefix, struct pool *pool)
{
    snprintf(pool->prefix, sizeof pool->prefix, "%s", prefix);
    for (unsigned k = 0; k < LINKS; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s%u", prefix, k);
        pool->duplex[k] = put_link(w, name);
    }
}

static const char *hop(const struct pool *pool, size_t k, bool up, char text[96])
{
    snprintf(text, 96, "<link_ctn id=\"%s%zu\"%s/>", pool->prefix, k,
             !pool->duplex[k] ? ""
             : up             ? " direction=\"UP\""
                              : " direction=\"DOWN\"");
    return text;
}

/* One to three different links of the pool, each once. */
static void put_route(struct writer *w, const char *tag, const char *ends, const struct pool *pool)
{
    char one[96], two[96] = "", three[96] = "";
    size_t first = below(w, LINKS), n = below(w, 3);
    hop(pool, first, chance(w, 50), one);
    if (n > 0)
        hop(pool, (first + 1) % LINKS, chance(w, 50), two);
    if (n > 1)
        hop(pool, (first + 2) % LINKS, chance(w, 50), three);
    put(w, "<%s %s>%s%s%s</%s>", tag, ends, one, two, three, tag);
}

static void open_zone(struct writer *w, const char *id, const char *routing)
{
    put(w, "<%s id=\"%s\" routing=\"%s\">", "zone", id, routing);
}

/* ---- kinds */

/* Hosts on routers in a tree, found by one of the searches. */
static void put_tree(struct writer *w)
{
    static const char *const routings[] = {"Dijkstra", "DijkstraCache", "Floyd", "floyd"};
    size_t hosts = 2 + below(w, 4);
    struct pool pool;
    open_zone(w, "z", routings[below(w, 4)]);
    for (size_t i = 0; i < hosts; i++) {
        char name[32];
        snprintf(name, sizeof name, "h%zu", i);
        put_host(w, name);
    }
    put(w, "<router id=\"r0\"/><router id=\"r1\"/>");
    put_pool(w, "l", &pool);
    for (size_t i = 0; i < hosts; i++) {
        char one[96];
        put(w, "<route src=\"h%zu\" dst=\"r%zu\">%s</route>", i, i % 2, hop(&pool, i, true, one));
    }
    char last[96];
    put(w, "<route src=\"r0\" dst=\"r1\">%s</route>", hop(&pool, LINKS - 1, true, last));
    put(w, "</zone>");
}

/* A route for each pair, and sometimes another one that bypasses it. */
static void put_full(struct writer *w, const char *zone, const char *host, size_t hosts)
{
    struct pool pool;
    char ends[160], name[48];
    open_zone(w, zone, "Full");
    for (size_t i = 0; i < hosts; i++) {
        snprintf(name, sizeof name, "%s%zu", host, i);
        put_host(w, name);
    }
    snprintf(name, sizeof name, "%sl", host);
    put_pool(w, name, &pool);
    for (size_t i = 0; i < hosts; i++)
        for (size_t j = i + 1; j < hosts; j++) {
            snprintf(ends, sizeof ends, "src=\"%s%zu\" dst=\"%s%zu\"", host, i, host, j);
            put_route(w, "route", ends, &pool);
        }
    if (chance(w, 50)) {
        snprintf(ends, sizeof ends, "src=\"%s0\" dst=\"%s1\"", host, host);
        put_route(w, "bypassRoute", ends, &pool);
    }
    put(w, "</zone>");
}

static void put_flat(struct writer *w)
{
    put_full(w, "z", "h", 2 + below(w, 4));
}

/* Zones in a zone, with gateways. */
static void put_nested(struct writer *w)
{
    struct pool pool;
    open_zone(w, "top", chance(w, 50) ? "Full" : "Floyd");
    put_full(w, "x", "x", 2 + below(w, 2));
    put_full(w, "y", "y", 2 + below(w, 2));
    put_pool(w, "t", &pool);
    put_route(w, "zoneRoute", "src=\"x\" dst=\"y\" gw_src=\"x0\" gw_dst=\"y1\"", &pool);
    if (chance(w, 30))
        put_route(w, "bypassZoneRoute", "src=\"x\" dst=\"y\" gw_src=\"x1\" gw_dst=\"y0\"", &pool);
    put(w, "</zone>");
}

static void put_cluster(struct writer *w)
{
    static const struct {
        const char *radical, *topology;
    } shapes[] = {{"0-3", ""},
                  {"0-1,5", ""},
                  {"0-7", " topology=\"TORUS\" topo_parameters=\"2,2,2\""},
                  {"0-7", " topology=\"FAT_TREE\" topo_parameters=\"2;4,2;1,2;1,2\""},
                  {"0-11", " topology=\"DRAGONFLY\" topo_parameters=\"2,1;2,2;3,1;1\""}};
    static const char *const policies[] = {"SPLITDUPLEX", "SHARED", "FATPIPE"};
    size_t shape = below(w, 5);
    char more[128] = "";
    if (shape < 2 && chance(w, 60))
        snprintf(more, sizeof more, " bb_bw=\"%uMbps\" bb_lat=\"%uus\" bb_sharing_policy=\"%s\"",
                 bandwidth(w), latency(w), chance(w, 50) ? "SHARED" : "FATPIPE");
    if (shape < 2 && chance(w, 30))
        snprintf(more + strlen(more), sizeof more - strlen(more), " limiter_link=\"%uMbps\"",
                 bandwidth(w));
    put(w,
        "<cluster id=\"c\" prefix=\"c-\" suffix=\"\" radical=\"%s\" speed=\"1Gf\" core=\"%zu\" "
        "bw=\"%uMbps\" lat=\"%uus\" sharing_policy=\"%s\"%s%s/>",
        shapes[shape].radical, 1 + below(w, 2), bandwidth(w), latency(w),
        shape == 4 ? "SPLITDUPLEX" : policies[below(w, 3)], more, shapes[shape].topology);
}

static void put_cabinet(struct writer *w)
{
    open_zone(w, "z", "Cluster");
    put(w,
        "<cabinet id=\"k\" prefix=\"k-\" suffix=\"\" radical=\"1-%zu\" speed=\"1Gf\" "
        "bw=\"%uMbps\" lat=\"%uus\"/>",
        2 + below(w, 3), bandwidth(w), latency(w));
    if (chance(w, 60))
        put(w, "<backbone id=\"bb\" bandwidth=\"%uMbps\" latency=\"%uus\"/>", bandwidth(w),
            latency(w));
    put(w, "</zone>");
}

static void put_peers(struct writer *w)
{
    open_zone(w, "z", "Vivaldi");
    for (size_t i = 0, n = 2 + below(w, 3); i < n; i++) {
        const char *more = "";
        if (w->refuses && chance(w, 30)) {
            refused(w, "changes over time are unsupported");
            more = " state_file=\"x.profile\"";
        }
        put(w,
            "<peer id=\"p%zu\" speed=\"1Gf\" bw_in=\"%uMbps\" bw_out=\"%uMbps\" "
            "coordinates=\"%zu.5 %zu.25 %zu\"%s/>",
            i, bandwidth(w), bandwidth(w), below(w, 9), below(w, 9), below(w, 3), more);
    }
    put(w, "</zone>");
}

static void put_wifi(struct writer *w)
{
    refused(w, "Wi-Fi is unsupported");
    open_zone(w, "z", "Wifi");
    put(w, "<prop id=\"access_point\" value=\"ap\"/>");
    put_host(w, "a");
    put_host(w, "b");
    put(w, "<router id=\"ap\"/>");
    put(w, "<link id=\"l\" bandwidth=\"54Mbps\" latency=\"0ms\" sharing_policy=\"WIFI\"/>");
    put(w, "</zone>");
}

static const struct {
    const char *name;
    void (*put)(struct writer *w);
} kinds[] = {{"tree", put_tree},       {"full", put_flat},       {"nested", put_nested},
             {"cluster", put_cluster}, {"cabinet", put_cabinet}, {"peers", put_peers},
             {"wifi", put_wifi}};

/* ---- <config> */

static void put_config(struct writer *w, bool coordinates)
{
    static const struct {
        const char *name, *value;
    } others[] = {{"network/model", "LV08"},       {"network/crosstraffic", "yes"},
                  {"network/TCP-gamma", "65536"},  {"network/weight-S", "20537"},
                  {"smpi/host-speed", "1Gf"},      {"network/loopback-bw", "1"},
                  {"network/latency-factor", "-1"}};
    put(w, "<config id=\"General\">");
    if (chance(w, 50))
        put(w, "<prop id=\"network/bandwidth-factor\" value=\"0.%zu\"/>", 10 + below(w, 90));
    if (!coordinates && chance(w, 50))
        put(w, "<prop id=\"network/latency-factor\" value=\"%zu.5\"/>", below(w, 14));
    if (chance(w, 30))
        put(w, "<prop id=\"tracing\" value=\"yes\"/>");
    if (w->refuses && chance(w, 40)) {
        size_t k = below(w, sizeof others / sizeof *others);
        refused(w, others[k].name);
        put(w, "<prop id=\"%s\" value=\"%s\"/>", others[k].name, others[k].value);
    }
    put(w, "</config>");
}

void random_platform(uint64_t seed, struct random_platform *out)
{
    struct writer w = {.out = out, .state = random_mix(seed)};
    *out = (struct random_platform){0};
    w.refuses = chance(&w, 33);
    size_t kind = below(&w, chance(&w, 20) ? 7 : 6);
    out->kind = kinds[kind].name;
    put(&w, "<?xml version='1.0'?>");
    put(&w, "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">");
    put(&w, "<platform version=\"4.1\">");
    if (chance(&w, 50))
        put_config(&w, kind == 5);
    if (chance(&w, 20))
        put(&w, "<trace id=\"t\" periodicity=\"1\">0 0.5</trace>");
    kinds[kind].put(&w);
    put(&w, "</platform>");
}
