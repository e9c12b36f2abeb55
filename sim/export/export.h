/* export.h - a program as the input of another simulator: one file and one line of exporters.def
 * per format. What the formats cannot say, and how collectives are taken apart:
 * docs/reference/program.md. */
#ifndef SIM_EXPORT_EXPORT_H
#define SIM_EXPORT_EXPORT_H

#include <stdbool.h>

#include "core/collective/collective.h"
#include "core/data/program.h"
#include "core/data/topology.h"

struct provenance;

struct export_options {
    const struct collective_options *collective; /* may be NULL */
    double unit_s; /* of times in the file, where the format takes one; 0: a nanosecond */
};

struct exporter {
    const char *name, *summary;
    const char *target; /* what it writes, as a usage line names it: "FILE" or "DIR" */
    bool takes_unit;
    /*   path     file or folder to write, as the summary says; a folder is made if there is none
     *   options  may be NULL
     * STATUS_UNSUPPORTED: folded programs; STATUS_IO, STATUS_INVALID, STATUS_NOMEM. */
    enum status (*write)(const struct program *p, const struct topology *t,
                         const struct export_options *options, const char *path,
                         const struct provenance *by);
};

#define EXPORTER(name) extern const struct exporter exporter_##name;
#include "sim/export/exporters.def"
#undef EXPORTER
extern const struct exporter *const exporters[];
extern const size_t exporters_n;

/* STATUS_INVALID lists the known names. */
enum status export_find(const char *name, const struct exporter **out) MUST_CHECK;
/* STATUS_UNSUPPORTED: the program copies to the hosts' memory, which no format here has. */
enum status export_check(const struct program *p) MUST_CHECK;
/* "goal=FILE" or, with a unit of time, "goal:0.02ns=FILE"; *path points into `text`, *unit_s is 0
 * where none is said. STATUS_INVALID. */
enum status export_parse(const char *text, const struct exporter **out, const char **path,
                         double *unit_s) MUST_CHECK;

#endif
