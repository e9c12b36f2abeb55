#include "sim/export/export.h"

#include <stdio.h>
#include <string.h>

#include "core/text.h"

const struct exporter *const exporters[] = {&exporter_goal, &exporter_atlahs, &exporter_chakra};
const size_t exporters_n = sizeof exporters / sizeof *exporters;

static const char *name_of(size_t i)
{
    return exporters[i]->name;
}

enum status export_find(const char *name, const struct exporter **out)
{
    size_t i;
    enum status st = text_find("export format", name, name_of, exporters_n, &i);
    if (st == STATUS_OK)
        *out = exporters[i];
    return st;
}

enum status export_parse(const char *text, const struct exporter **out, const char **path)
{
    char name[32];
    const char *equals = strchr(text, '=');
    if (!equals || !equals[1])
        return error_set(STATUS_INVALID, "'%s': expected goal=FILE, atlahs=FILE or chakra=DIR",
                         text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    enum status st = export_find(name, out);
    if (st == STATUS_OK)
        *path = equals + 1;
    return st;
}
