/* write.h - a topology as a SimGrid platform file. */
#ifndef TOPOLOGIES_WRITE_H
#define TOPOLOGIES_WRITE_H

#include <stdio.h>

#include "core/data/topology.h"

struct provenance;

/* Full routing, one link per directed pair: what was measured between each two devices, without
 * contention. For machines of a few devices (STATUS_INVALID above 64). platform_read() of the
 * result gives the topology back, numbers to nine digits. `by` may be NULL. */
enum status topology_write_platform(const struct topology *t, const char *path,
                                    const struct provenance *by) MUST_CHECK;

/* Path of a shipped platform ("two-racks"), of the file of a generated one ("rail:nodes=128", see
 * generate.h and cache.h), or `name` itself when it is a path; malloc'd. Looks in $FORELINE_DATA,
 * then in the data directory seen from our own executable, so that an installation can be moved.
 * STATUS_INVALID lists the shipped names, or says what is wrong in the description. */
enum status topology_resolve(const char *name, char **path) MUST_CHECK;
/* Names of the shipped platforms, sorted; free each and the array. */
enum status topology_list(char ***names, size_t *n) MUST_CHECK;
/* What a platform file says it is: the first line of its first comment; "" without one; malloc'd.
 */
enum status topology_summary(const char *path, char **summary) MUST_CHECK;

/* A text inside of a comment of XML, where "--" would end it too early. */
void write_comment(FILE *f, const char *text);

/* For the comment of a platform: with which settings SimGrid itself, and SMPI, share its links as
 * the engines do. */
extern const char write_settings[];

#endif
