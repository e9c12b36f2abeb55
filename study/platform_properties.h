/* platform_properties.h - a platform by name, written anew with more properties. */
#ifndef STUDY_PLATFORM_PROPERTIES_H
#define STUDY_PLATFORM_PROPERTIES_H

#include "sim/platform/properties.h"

/* Write the platform `name` (load_platform()) to `output` with these properties of its first zone;
 * what is written must be readable. STATUS_PARSE, STATUS_USAGE, STATUS_IO, STATUS_NOMEM. */
enum status platform_write_properties(const char *name,
                                      const struct platform_property_text *property, size_t n,
                                      const char *output) MUST_CHECK;

#endif
