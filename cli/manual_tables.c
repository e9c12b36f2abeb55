/* Names of the program's tables with what they mean, for the generated reference. */
#include "cli/manual.h"
#include "core/collective/collective.h"
#include "core/schedule/schedule.h"
#include "core/strategy/framework.h"
#include "measured/reader.h"
#include "model/import.h"
#include "sim/export/export.h"
#include "study/frameworks/setup.h"
#include "topologies/machine/machine.h"
#include "topologies/measured.h"

/* Of a table of pointers to structs that have these members. */
#define PUT_NAMES(title, table, n)                                                                 \
    do {                                                                                           \
        fprintf(out, "# %s\n", title);                                                             \
        for (size_t i = 0; i < (n); i++)                                                           \
            fprintf(out, "%s\t%s\n", (table)[i]->name, (table)[i]->summary);                       \
    } while (0)

static void put_keys(const char *title, const char *of, FILE *out)
{
    fprintf(out, "# %s\n", title);
    settings_print(settings_takers(of), out);
}

void manual_tables(FILE *out)
{
    const char *field, *help;
    PUT_NAMES("schedules", schedules, schedules_n);
    PUT_NAMES("collectives", collective_algorithms, collective_algorithms_n);
    PUT_NAMES("frameworks", frameworks, frameworks_n);
    fputs("# framework keys\n", out);
    for (size_t i = 0; i < framework_fields(); i++) {
        field = framework_field(i, &help);
        fprintf(out, "%s\t%s\n", field, help);
    }
    PUT_NAMES("launchers", dialects, dialects_n);
    PUT_NAMES("model importers", importers, importers_n);
    PUT_NAMES("topology importers", machine_formats, machine_formats_n);
    PUT_NAMES("collective measurements", measured_formats, measured_formats_n);
    PUT_NAMES("readers", readers, readers_n);
    PUT_NAMES("exporters", exporters, exporters_n);
    put_keys("experiment keys", "experiment", out);
    put_keys("plan keys", "plan.", out);
    put_keys("run keys", "run --config", out);
}
