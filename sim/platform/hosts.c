/* Which hosts of a platform are devices. */
#include "sim/platform/hosts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

/* Is the host a device? A property device="none" says no (switches, storage); its speed must
 * make sense either way. */
static enum status is_device(const struct platform_text *p, const struct platform_host *host,
                             bool *out)
{
    const char *device = host->property(host->of, "device");
    if (device && strcmp(device, "none") != 0)
        return error_set(
            STATUS_PARSE, "%s:%zu: host '%s': device: got '%s', expected 'none' or no value",
            p->path, platform_property_line(p, "host", host->name, "device"), host->name, device);
    if (!(host->flops > 0 && isfinite(host->flops)))
        return error_set(STATUS_PARSE, "%s:%zu: host '%s': speed is %g flop/s, must be %s", p->path,
                         platform_line(p, "host", host->name), host->name, host->flops,
                         isfinite(host->flops) ? "above zero" : "finite");
    *out = !device;
    return STATUS_OK;
}

enum status platform_find_devices(const struct platform_text *p, size_t hosts,
                                  struct platform_host *host, struct topology *t)
{
    size_t n = 0;
    PASS(ARRAY_NEW(t->device, hosts + 1));
    for (size_t i = 0; i < hosts; i++) {
        bool device = false;
        PASS(is_device(p, &host[i], &device));
        if (device)
            host[n++] = host[i];
    }
    if (n == 0 || n > TOPOLOGY_MAX_DEVICES)
        return error_set(STATUS_PARSE, "%s:1: got %zu devices, expected 1 to %d", p->path, n,
                         TOPOLOGY_MAX_DEVICES);
    for (t->n = 0; t->n < n; t->n++)
        PASS(text_copy(host[t->n].name, &t->device[t->n]));
    return STATUS_OK;
}
