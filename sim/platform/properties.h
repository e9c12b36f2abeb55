/* properties.h - a platform file with more properties of its outermost zone: defaults for all
 * hosts. */
#ifndef SIM_PLATFORM_PROPERTIES_H
#define SIM_PLATFORM_PROPERTIES_H

#include <stdio.h>

#include "sim/platform/fault.h"

struct platform_property_text {
    char *id, *value; /* as they are, without entities */
};

/* Write the file with these properties of its first zone, instead of those of the same id there;
 * the rest byte for byte. STATUS_PARSE: there is no zone. O(text + n * properties of the zone). */
enum status platform_set_properties(const struct platform_text *p,
                                    const struct platform_property_text *property, size_t n,
                                    FILE *to) MUST_CHECK;

#endif
