/* Describes a platform: SimGrid loads it, the hosts are ordered, types, tiers and ports are found,
 * and the topology goes up the pipe. */
#include "sim/simgrid/tasks.h"

#include <ctype.h>
#include <math.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/zone.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "sim/platform/hosts.h"
#include "sim/platform/links.h"
#include "sim/platform/nics.h"
#include "sim/platform/topology_bytes.h"
#include "sim/platform/types.h"
#include "sim/platform/xml_scan.h"
#include "sim/simgrid/load.h"
#include "sim/simgrid/routes.h"

enum { HOST_NAME = 256 };

/* Whole numbers inside names count as numbers: g2 < g10. */
static int natural(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
            int order = n != m ? (n > m) - (n < m) : strncmp(a, b, n);
            if (order)
                return order;
            a += n;
            b += m;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

/* Order of hosts by name, with numbers inside names as numbers. */
static int simgrid_by_name(const void *a, const void *b)
{
    const char *x = sg_host_get_name(*(const sg_host_t *)a);
    const char *y = sg_host_get_name(*(const sg_host_t *)b);
    int order = natural(x, y);
    return order ? order : strcmp(x, y);
}

/* All [sg_host_count()] hosts: those with a tag in the order of the file, then those that came out
 * of a <cluster>, by name. */
static enum status order_hosts(const struct platform_text *p, sg_host_t *out)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    size_t placed = 0, n = sg_host_count(), rest;
    static char seen;
    while (placed < n && xml_next(&s, &tag)) {
        struct xml_span id = xml_attribute(&tag, "id");
        char name[HOST_NAME];
        if (!xml_is(&tag, "host") || !id.at || xml_decode(id, name, sizeof name) >= sizeof name)
            continue;
        sg_host_t host = sg_host_by_name(name);
        if (host && !sg_host_get_data(host)) {
            sg_host_set_data(host, &seen);
            out[placed++] = host;
        }
    }
    rest = placed;
    sg_host_t *all = sg_host_list();
    for (size_t i = 0; i < n; i++)
        if (!sg_host_get_data(all[i]))
            out[placed++] = all[i];
    free(all);
    qsort(out + rest, n - rest, sizeof *out, simgrid_by_name);
    return STATUS_OK;
}

/* ---- what hosts.h and nics.h ask */

static sg_netzone_t
    first_zone; /* whose properties are defaults for every host; NULL: none is found */

static sg_netzone_t find_first_zone(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    char name[HOST_NAME];
    while (xml_next(&s, &tag)) {
        if (!xml_is(&tag, "zone") && !xml_is(&tag, "AS"))
            continue;
        struct xml_span id = xml_attribute(&tag, "id");
        return xml_decode(id, name, sizeof name) < sizeof name ? sg_zone_get_by_name(name) : NULL;
    }
    return NULL;
}

static const char *simgrid_property(const void *of, const char *name)
{
    const_sg_host_t host = of;
    return sg_host_get_property_value(host, name);
}

static const char *simgrid_usual_value(const void *of, const char *name)
{
    (void)of;
    return first_zone ? sg_zone_get_property_value(first_zone, name) : NULL;
}

/* All hosts, in their order; [*n]. */
static enum status find_hosts(const struct platform_text *p, size_t *n, struct platform_host **out)
{
    enum status st;
    sg_host_t *host = NULL;
    *n = sg_host_count();
    TRY(ARRAY_NEW(host, *n + 1));
    TRY(ARRAY_NEW(*out, *n + 1));
    if (*n > 0) /* SimGrid aborts when asked to list none */
        TRY(order_hosts(p, host));
    for (size_t i = 0; i < *n; i++)
        (*out)[i] = (struct platform_host){sg_host_get_name(host[i]),
                                           sg_host_get_speed(host[i]),
                                           sg_host_core_count(host[i]),
                                           host[i],
                                           simgrid_property,
                                           simgrid_usual_value};
    first_zone = find_first_zone(p);
out:
    free(host);
    return st;
}

/* Links of the route between two devices, by SimGrid. */
static enum status ask_route(const void *context, uint32_t from, uint32_t to, struct nic_ways *w)
{
    enum status st = STATUS_OK;
    const struct platform_host *host = context;
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(loaded_host(&host[from]), loaded_host(&host[to]), route);
    for (size_t k = 0; k < xbt_dynar_length(route) && st == STATUS_OK; k++) {
        sg_link_t link;
        xbt_dynar_get_cpy(route, k, &link);
        st = nic_ways_use(w, link, sg_link_get_bandwidth(link), sg_link_is_shared(link));
    }
    xbt_dynar_free(&route);
    return st;
}

/* Numbers that SimGrid takes but no simulation can use: zero bandwidth, negative or endless
 * latency. */
static enum status check_link(const struct platform_text *p, const struct links *links,
                              const_sg_link_t link)
{
    double bandwidth = sg_link_get_bandwidth(link), latency = sg_link_get_latency(link);
    if (bandwidth > 0 && isfinite(bandwidth) && latency >= 0 && isfinite(latency))
        return STATUS_OK;
    const struct text_link *at = links_find(links, sg_link_get_name(link));
    size_t line = at ? at->line : 1;
    char name[HOST_NAME];
    if (at)
        xml_decode(at->id, name, sizeof name);
    else
        snprintf(name, sizeof name, "%s", sg_link_get_name(link));
    if (!(bandwidth > 0 && isfinite(bandwidth)))
        return error_set(STATUS_PARSE, "%s:%zu: link '%s': bandwidth is %g B/s, must be %s",
                         p->path, line, name, bandwidth,
                         isfinite(bandwidth) ? "above zero" : "finite");
    return error_set(STATUS_PARSE, "%s:%zu: link '%s': latency is %g s, must be %s", p->path, line,
                     name, latency, isfinite(latency) ? "zero or more" : "finite");
}

static enum status check_links(const struct platform_text *p)
{
    enum status st;
    struct links links = {0};
    sg_link_t *link = NULL;
    TRY(links_read(p, &links));
    link = sg_link_list();
    for (size_t i = 0, n = sg_link_count(); i < n; i++)
        TRY(check_link(p, &links, link[i]));
out:
    free(link);
    links_free(&links);
    return st;
}

enum status simgrid_describe(void *argument, int fd)
{
    enum status st;
    const struct simgrid_platform *load = argument;
    const struct platform_text *p = &load->file;
    struct topology t = {0};
    struct platform_host *host = NULL;
    size_t hosts;

    simgrid_load(p->path, "CM02", 0);
    TRY(check_links(p));
    TRY(find_hosts(p, &hosts, &host));
    TRY(platform_find_devices(p, hosts, host, &t));
    TRY(platform_types(p, host, &t));
    simgrid_run_until(0); /* seals the zones: routes cannot be asked for before */
    TRY(platform_routes(p, host, load->asked, &t));
    TRY(platform_nics(&t, ask_route, host));
    TRY(topology_send(&t, fd));
out:
    free(host);
    topology_free(&t);
    return st;
}
