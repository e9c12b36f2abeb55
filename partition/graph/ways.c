/* Routes of all pairs of places. */
#include "partition/graph/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/order.h"
#include "core/base/random.h"
#include "core/data/routes.h"

enum { MOST_ROUTES = 1 << 17 };

/* Sorted by sender and receiver, as routes are asked for. */
struct asked {
    uint32_t from, to;
    size_t way;
};

static enum status make_apart(const struct topology *t, const uint32_t *first, size_t width,
                              struct arena *a, struct ways *w)
{
    size_t n = w->places * w->places;
    PASS(ARENA_NEW(a, w->link, n));
    for (size_t way = 0; way < n; way++) {
        uint32_t from = first[way / w->places * width], to = first[way % w->places * width];
        w->start[way + 1] = way + 1;
        w->link[way] = (struct way_link){
            (uint32_t)way, from == to ? 0 : 1 / topology_between(t, from, to)->bandwidth_Bps};
    }
    w->links = n;
    return STATUS_OK;
}

/* The links of a way, each once. A fat one gives all of itself to every flow: it bounds the way and
 * is kept from no other, so that each way has one of its own for them. */
static void add_routes(const struct topology *t, const struct routes *r, const size_t *route,
                       size_t width, struct ways *w, size_t way)
{
    size_t first = w->start[way], *end = &w->start[way + 1];
    *end = first;
    for (size_t k = 0; k < width; k++)
        for (size_t i = r->start[route[k]]; i < r->start[route[k] + 1]; i++) {
            const struct topology_link *link = &t->link[r->link[i]];
            uint32_t id = link->fat ? (uint32_t)(t->links + way) : r->link[i];
            double byte_s = 1 / link->bandwidth_Bps;
            size_t at = first;
            while (at < *end && w->link[at].link != id)
                at++;
            if (at == *end)
                w->link[(*end)++] = (struct way_link){.link = id};
            w->link[at].byte_s =
                link->fat ? fmax(w->link[at].byte_s, byte_s) : w->link[at].byte_s + byte_s;
        }
}

static enum status make_routed(const struct topology *t, const uint32_t *device, size_t width,
                               struct arena *a, struct ways *w)
{
    enum status st;
    size_t ways = w->places * w->places, n = ways * width;
    struct arena scratch = {0};
    struct asked *asked;
    struct device_pair *pair;
    struct routes r = {0};
    size_t *route;
    TRY(ARENA_NEW(&scratch, asked, n));
    TRY(ARENA_NEW(&scratch, pair, n));
    TRY(ARENA_NEW(&scratch, route, n));
    for (size_t k = 0; k < n; k++) {
        size_t way = k / width, p = way / w->places, q = way % w->places;
        asked[k] = (struct asked){device[p * width + k % width], device[q * width + k % width], k};
    }
    qsort(asked, n, sizeof *asked, order_by_pair);
    for (size_t k = 0; k < n; k++) {
        pair[k] = (struct device_pair){asked[k].from, asked[k].to};
        route[asked[k].way] = k;
    }
    TRY(topology_routes(t, n, pair, &r));
    TRY(ARENA_NEW(a, w->link, r.start[n]));
    for (size_t way = 0; way < ways; way++)
        add_routes(t, &r, route + way * width, width, w, way);
    w->links = t->links + ways;
out:
    routes_free(&r);
    arena_free(&scratch);
    return st;
}

/* Links that the same ways keep for equally long are as good as one. They have equal sums of
 * hashes; that others have the same sum is as unlikely as 64 bits can make it. */
static enum status merge_links(struct arena *a, struct ways *w)
{
    uint64_t *sum;
    size_t ways = w->places * w->places, end = 0;
    PASS(ARENA_NEW(a, sum, w->links));
    for (size_t way = 0; way < ways; way++)
        for (size_t k = w->start[way]; k < w->start[way + 1]; k++) {
            uint64_t bits;
            memcpy(&bits, &w->link[k].byte_s, sizeof bits);
            sum[w->link[k].link] += random_key(bits, way);
        }
    for (size_t way = 0, begin = 0; way < ways; way++) {
        size_t from = begin, first = end;
        begin = w->start[way + 1];
        for (size_t k = from; k < begin; k++) {
            size_t at = first;
            while (at < end && sum[w->link[at].link] != sum[w->link[k].link])
                at++;
            if (at == end)
                w->link[end++] = w->link[k];
            else if (w->link[k].link < w->link[at].link)
                w->link[at].link = w->link[k].link; /* the same one in every way */
        }
        w->start[way + 1] = end;
    }
    return STATUS_OK;
}

enum status ways_make(const struct topology *t, size_t places, size_t width, const uint32_t *device,
                      struct arena *a, struct ways *out)
{
    size_t n = places * places;
    struct ways w = {.places = places};
    PASS(ARENA_NEW(a, w.start, n + 1));
    PASS(ARENA_NEW(a, w.latency_s, n));
    for (size_t way = 0; way < n; way++) {
        uint32_t from = device[way / places * width], to = device[way % places * width];
        w.latency_s[way] = from == to ? 0 : topology_between(t, from, to)->latency_s;
    }
    if (t->links == 0 || n * width > MOST_ROUTES)
        PASS(make_apart(t, device, width, a, &w));
    else
        PASS(make_routed(t, device, width, a, &w));
    PASS(merge_links(a, &w));
    *out = w;
    return STATUS_OK;
}
