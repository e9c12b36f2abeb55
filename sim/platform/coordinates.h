/* coordinates.h - Vivaldi coordinates: latencies of routes that are not those of links. */
#ifndef SIM_PLATFORM_COORDINATES_H
#define SIM_PLATFORM_COORDINATES_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/platform/fault.h"

/* Whether some zone's routes have latencies from coordinates (routing="Vivaldi"). O(text). */
bool platform_has_coordinates(const struct platform_text *p);
/* Write the file with everything at one point, the rest byte for byte: its routes have the links'
 * latencies only. O(text). */
void platform_drop_coordinates(const struct platform_text *p, FILE *to);

#endif
