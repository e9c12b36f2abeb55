/* The table of export formats, from exporters.def. */
#include "sim/export/export.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"

const struct exporter *const exporters[] = {
#define EXPORTER(name) &exporter_##name,
#include "sim/export/exporters.def"
#undef EXPORTER
};
const size_t exporters_n = sizeof exporters / sizeof *exporters;

enum status export_find(const char *name, const struct exporter **out)
{
    return text_find("export format", name, exporters, exporters_n, out);
}

static enum status expected_one_of(const char *text)
{
    char list[256] = "";
    for (size_t i = 0, n = 0; i < exporters_n && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s=%s",
                              i == 0                 ? ""
                              : i + 1 == exporters_n ? " or "
                                                     : ", ",
                              exporters[i]->name, exporters[i]->target);
    return error_set(STATUS_INVALID, "got '%s', expected %s", text, list);
}

enum status export_check(const struct program *p)
{
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_COPY)
            return error_set(STATUS_UNSUPPORTED,
                             "plans with offload to host memory cannot be exported");
    return STATUS_OK;
}

enum status export_parse(const char *text, const struct exporter **out, const char **path,
                         double *unit_s)
{
    char name[64];
    const char *equals = strchr(text, '=');
    if (!equals || !equals[1])
        return expected_one_of(text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    char *unit = strchr(name, ':');
    *unit_s = 0;
    if (unit)
        *unit++ = '\0';
    PASS(export_find(name, out));
    if (unit && !(*out)->takes_unit)
        return error_set(STATUS_INVALID, "export format %s takes no time unit", name);
    if (unit)
        PASS(units_parse(UNIT_SECONDS, unit, unit_s));
    if (unit && !(*unit_s >= 1e-15 && *unit_s <= 1))
        return error_set(STATUS_INVALID, "time unit: got %s, expected 1e-6ns to 1s", unit);
    *path = equals + 1;
    return STATUS_OK;
}
