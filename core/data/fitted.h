/* fitted.h - what a fit to measured runs has changed of a platform: times what is known otherwise.
 *
 * A platform carries it as the property `fitted` of its first zone, "products=0.93 host=1.2"
 * (docs/reference/topologies.md); links have it in their own numbers. fitted.def is the table of
 * what there is, with what is expected of each before any run. */
#ifndef CORE_DATA_FITTED_H
#define CORE_DATA_FITTED_H

#include <stdio.h>

#include "core/base/error.h"

struct device_type;

/* Rows of the table; those before FITTED_DEVICE are of devices. */
enum fitted_constant {
#define FITTED(name, ...) FITTED_##name,
#define FITTED_LINK(name, ...)
#include "core/data/fitted.def"
#undef FITTED
#undef FITTED_LINK
    FITTED_DEVICE,
    FITTED_bandwidth = FITTED_DEVICE,
    FITTED_latency,
    FITTED_ROWS
};

struct fitted_row {
    const char *name;
    double width;       /* by which the catalogue may be off: standard deviation of the logarithm */
    double least, most; /* times the catalogue's */
    const char *help;   /* what it is */
    const char *more;   /* "add a run ...": the one that would tell it */
};
extern const struct fitted_row fitted_rows[FITTED_ROWS];

/* What no other number of a device type has: times what the framework or the type says; 0: 1. */
struct device_fitted {
    double host, interference, start, hop;
};
static inline double fitted_times(double times)
{
    return times > 0 ? times : 1;
}

/* "products=0.93 host=1.2" -> times [FITTED_DEVICE], those that are not named as they are.
 * STATUS_PARSE. */
enum status fitted_read(const char *text, double times[FITTED_DEVICE]) MUST_CHECK;
/* "products=0.93 host=1.2": those that change something, which 0 and 1 do not. */
void fitted_put(const double times[FITTED_DEVICE], FILE *to);
/* Change a type whose numbers are all there. */
void fitted_apply(const double times[FITTED_DEVICE], struct device_type *type);

#endif
