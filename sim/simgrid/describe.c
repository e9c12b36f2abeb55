/* Describes a platform: SimGrid loads it, the hosts are ordered, types, tiers and ports are found, and
 * the topology goes up the pipe. */
#include "sim/simgrid/tasks.h"

#include <ctype.h>
#include <math.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "sim/platform/topology_bytes.h"
#include "sim/platform/xml_scan.h"
#include "sim/simgrid/links.h"
#include "sim/simgrid/load.h"
#include "sim/simgrid/nics.h"
#include "sim/simgrid/routes.h"
#include "sim/simgrid/types.h"

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
static int by_name(const void *a, const void *b)
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
    qsort(out + rest, n - rest, sizeof *out, by_name);
    return STATUS_OK;
}

/* Is the host a device? A property device="none" says no (switches, storage); its speed must
 * make sense either way. */
static enum status is_device(const struct platform_text *p, const_sg_host_t host, bool *out)
{
    const char *name = sg_host_get_name(host);
    const char *device = sg_host_get_property_value(host, "device");
    double speed = sg_host_get_speed(host);
    if (device && strcmp(device, "none") != 0)
        return error_set(STATUS_PARSE, "%s:%zu: host '%s': device '%s', expected 'none' or nothing",
                         p->path, platform_property_line(p, "host", name, "device"), name, device);
    if (!(speed > 0 && isfinite(speed)))
        return error_set(STATUS_PARSE, "%s:%zu: host '%s': speed %g flop/s, must be %s", p->path,
                         platform_line(p, "host", name), name, speed,
                         isfinite(speed) ? "above zero" : "finite");
    *out = !device;
    return STATUS_OK;
}

/* The hosts that are devices, [t->n] in *out, with their names in t. */
static enum status find_devices(const struct platform_text *p, sg_host_t **out, struct topology *t)
{
    enum status st;
    size_t hosts = sg_host_count(), n = 0;
    sg_host_t *host = NULL;
    TRY(ARRAY_NEW(host, hosts + 1));
    TRY(ARRAY_NEW(t->device, hosts + 1));
    if (hosts > 0) /* SimGrid aborts when asked to list none */
        TRY(order_hosts(p, host));
    for (size_t i = 0; i < hosts; i++) {
        bool device = false;
        TRY(is_device(p, host[i], &device));
        if (device)
            host[n++] = host[i];
    }
    if (n == 0 || n > TOPOLOGY_MAX_DEVICES)
        FAIL(STATUS_PARSE, "%s:1: %zu devices, expected 1 to %d", p->path, n, TOPOLOGY_MAX_DEVICES);
    for (t->n = 0; t->n < n; t->n++) {
        const char *name = sg_host_get_name(host[t->n]);
        TRY(text_copy(name, &t->device[t->n]));
    }
    st = STATUS_OK;
    MOVE(out, host);
out:
    free(host);
    return st;
}

enum status simgrid_describe(void *argument, int fd)
{
    enum status st;
    const struct simgrid_platform *load = argument;
    const struct platform_text *p = &load->file;
    struct topology t = {0};
    sg_host_t *host = NULL;

    simgrid_load(p->path);
    TRY(platform_check_links(p));
    TRY(find_devices(p, &host, &t));
    TRY(platform_types(p, host, &t));
    simgrid_run_until(0); /* seals the zones: routes cannot be asked for before */
    TRY(platform_routes(p, host, load->asked, &t));
    TRY(platform_nics(host, &t));
    TRY(topology_send(&t, fd));
out:
    free(host);
    topology_free(&t);
    return st;
}
