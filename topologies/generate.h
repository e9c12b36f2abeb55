/* generate.h - platform files from a compact description, "rail:nodes=128,gpus=8,type=H100". */
#ifndef TOPOLOGIES_GENERATE_H
#define TOPOLOGIES_GENERATE_H

#include <stdbool.h>

#include "topologies/family.h"

extern const struct topology_family *const families[];
extern const size_t families_n;

/* Does `spec` start with the name of a family, alone or followed by a colon? */
bool generate_has(const char *spec);

/* A parameter of the family of `spec`; NULL: there is no such family, or parameter. */
const struct family_parameter *generate_parameter(const char *spec, const char *key);

/* The description with every parameter in the table's order, "rail:nodes=4,gpus=8,...": equal for
 * equal platforms; malloc'd. STATUS_INVALID with one line on what is wrong and what there is. */
enum status generate_canonical(const char *spec, char **out) MUST_CHECK;

/* The same with another value of one parameter, "matching", "ring". */
enum status generate_with(const char *spec, const char *key, const char *value,
                          char **out) MUST_CHECK;

/* The family of a description and all its values, [FAMILY_PARAMETERS]. STATUS_INVALID. */
enum status generate_values(const char *spec, const struct topology_family **family,
                            struct family_value *value) MUST_CHECK;

/* Write the platform file: one flat zone, hosts and routers, routing="DijkstraCache", a SPLITDUPLEX
 * link for each cable; between any two GPUs all ways of fewest links are equally fast, so that
 * platform_read() takes no longer than a search. Same description, same bytes. O(devices). */
enum status generate_platform(const char *spec, FILE *to) MUST_CHECK;

#endif
