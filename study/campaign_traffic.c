/* What checkpoints load links with. */
#include "study/campaign_traffic.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/order.h"
#include "core/base/units.h"
#include "core/data/routes.h"
#include "sim/platform/flat.h"

/* A pair sends what its sender has, or its receiver.
 *   bytes  [t->n] */
static enum status busiest(const struct topology *t, struct device_pair *pair, size_t n,
                           const double *bytes, bool of_receiver, double *out)
{
    enum status st;
    struct routes r = {0};
    double *load = NULL;
    TRY(ARRAY_NEW(load, t->links + 1));
    TRY(order_pairs(pair, n, sizeof *pair, (uint32_t)t->n));
    TRY(topology_routes(t, n, pair, &r));
    for (size_t k = 0; k < n; k++)
        for (size_t l = r.start[k]; l < r.start[k + 1]; l++)
            load[r.link[l]] += bytes[of_receiver ? pair[k].to : pair[k].from];
    for (size_t l = 0; l < t->links; l++)
        *out = fmax(*out, t->link[l].fat ? 0 : load[l] / t->link[l].bandwidth_Bps);
out:
    routes_free(&r);
    free(load);
    return st;
}

enum status traffic_partners(const struct topology *t, const struct job_device *device, size_t n,
                             double *out)
{
    enum status st;
    struct device_pair *pair = NULL;
    double *bytes = NULL;
    *out = 0;
    if (device[0].node == device[n - 1].node)
        return STATUS_OK;
    TRY(ARRAY_NEW(pair, n));
    TRY(ARRAY_NEW(bytes, t->n));
    for (size_t i = 0, first = 0, next; i < n; i = next) {
        for (next = i; next < n && device[next].node == device[i].node; next++)
            ;
        size_t to = next < n ? next : first, all = to;
        while (all < n && device[all].node == device[to].node)
            all++;
        for (size_t k = i; k < next; k++) {
            pair[k] =
                (struct device_pair){device[k].device, device[to + (k - i) % (all - to)].device};
            bytes[device[k].device] = device[k].bytes;
        }
    }
    for (size_t k = 0; k < n; k++)
        *out = fmax(*out, bytes[pair[k].from] /
                              topology_between(t, pair[k].from, pair[k].to)->bandwidth_Bps);
    TRY(busiest(t, pair, n, bytes, false, out));
out:
    free(pair);
    free(bytes);
    return st;
}

/* ---- hosts that store */

static bool link_of(const struct xml_tag *tag, const char *name, struct topology_link *out)
{
    char text[64];
    (void)name;
    *out =
        (struct topology_link){.fat = xml_equal(xml_attribute(tag, "sharing_policy"), "FATPIPE")};
    xml_decode(xml_attribute(tag, "bandwidth"), text, sizeof text);
    return units_parse(UNIT_RATE, text, &out->bandwidth_Bps) == STATUS_OK && out->bandwidth_Bps > 0;
}

/* The zone with the stores behind its devices. */
static enum status stores_read(const struct topology *t, const char *platform,
                               const struct campaign_settings *s, struct flat_zone *out)
{
    enum status st;
    bool fits = false;
    char *text = NULL;
    const char **name = NULL;
    size_t length;
    TRY(ARRAY_NEW(name, t->n + s->stores));
    for (size_t i = 0; i < t->n + s->stores; i++)
        name[i] = i < t->n ? t->device[i] : s->store[i - t->n];
    TRY(file_read(platform, &text, &length));
    const struct platform_text p = {platform, text};
    TRY(flat_read(&p, t->n + s->stores, (char *const *)name, link_of, &fits, out));
    if (!fits)
        FAIL(STATUS_UNSUPPORTED,
             "%s:%zu: hosts that store checkpoints need routes in one zone with "
             "routing=\"DijkstraCache\"",
             platform, platform_line(&p, "host", s->store[0]));
out:
    free(name);
    free(text);
    return st;
}

enum status traffic_stores(const struct topology *t, const char *platform,
                           const struct campaign_settings *s, const struct job_device *device,
                           size_t n, double out[2])
{
    enum status st;
    struct flat_zone zone = {0};
    struct device_pair *pair = NULL;
    double *bytes = NULL;
    out[0] = out[1] = 0;
    TRY(stores_read(t, platform, s, &zone));
    const struct topology with = {
        .n = t->n + s->stores, .links = zone.links, .link = zone.link, .graph = zone.graph};
    TRY(ARRAY_NEW(pair, n * s->stores));
    TRY(ARRAY_NEW(bytes, with.n));
    for (int reads = 0; reads < 2; reads++) {
        for (size_t k = 0; k < n; k++)
            bytes[device[k].device] =
                (reads ? device[k].held : device[k].bytes) / (double)s->stores;
        for (size_t k = 0; k < n * s->stores; k++) {
            uint32_t d = device[k / s->stores].device, store = (uint32_t)(t->n + k % s->stores);
            pair[k] = reads ? (struct device_pair){store, d} : (struct device_pair){d, store};
        }
        TRY(busiest(&with, pair, n * s->stores, bytes, reads, &out[reads]));
    }
out:
    flat_free(&zone);
    free(pair);
    free(bytes);
    return st;
}
