/* NUMA nodes of a platform's devices, which its hosts have as properties: neither engine routes by
 * them. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "sim/platform/xml_scan.h"
#include "study/topology_picture.h"

enum { NAME = 64, ROWS = 16 };

/* Devices one after the other of the same NUMA node. */
struct numa_run {
    char numa[NAME], first[NAME], last[NAME];
    size_t devices;
};

static void numa_print_run(const struct numa_run *r, size_t rows, FILE *out)
{
    if (rows == 0)
        fprintf(out, "\n%-20s  %7s  %s\n", "# NUMA node", "devices", "which");
    if (rows < ROWS)
        fprintf(out, "%-20s  %7zu  %s%s%s\n", r->numa, r->devices, r->first,
                r->devices > 1 ? " to " : "", r->devices > 1 ? r->last : "");
}

/* The value of <prop id="numa"> inside the <host> that `at` has just entered. */
static struct xml_span numa_of_device(const struct xml_tag *host, struct xml_scanner at)
{
    struct xml_tag tag;
    bool closed = host->attributes.n > 0 && host->attributes.at[host->attributes.n - 1] == '/';
    while (!closed && xml_next(&at, &tag) && xml_is(&tag, "prop"))
        if (xml_equal(xml_attribute(&tag, "id"), "numa"))
            return xml_attribute(&tag, "value");
    return (struct xml_span){NULL, 0};
}

enum status topology_print_numa(const char *path, FILE *out)
{
    char *text = NULL;
    size_t length, rows = 0;
    struct numa_run run = {.devices = 0};
    struct xml_tag tag;
    PASS(file_read(path, &text, &length));
    for (struct xml_scanner s = xml_scan(text); xml_next(&s, &tag);) {
        char numa[NAME], name[NAME];
        if (!xml_is(&tag, "host"))
            continue;
        struct xml_span value = numa_of_device(&tag, s);
        bool said = value.at && xml_decode(value, numa, sizeof numa) > 0;
        xml_decode(xml_attribute(&tag, "id"), name, sizeof name);
        if (run.devices > 0 && (!said || strcmp(run.numa, numa) != 0)) {
            numa_print_run(&run, rows++, out);
            run.devices = 0;
        }
        if (!said)
            continue;
        if (run.devices++ == 0)
            memcpy(run.first, name, sizeof name);
        memcpy(run.last, name, sizeof name);
        memcpy(run.numa, numa, sizeof numa);
    }
    if (run.devices > 0)
        numa_print_run(&run, rows++, out);
    if (rows > ROWS)
        fprintf(out, "and %zu more groups of devices\n", rows - ROWS);
    free(text);
    return STATUS_OK;
}
