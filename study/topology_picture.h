/* topology_picture.h - a platform as text, as a picture and as a matrix of bandwidths. */
#ifndef STUDY_TOPOLOGY_PICTURE_H
#define STUDY_TOPOLOGY_PICTURE_H

#include <stdio.h>

#include "core/base/provenance.h"
#include "core/data/topology.h"

/* Types of devices, measured rates, tiers with latency and bandwidth, groups of devices, and for
 * small platforms which tier joins which of them.
 *   name, summary   of the first line; summary may be ""
 * STATUS_NOMEM. */
enum status topology_print(const struct topology *t, const char *name, const char *summary,
                           FILE *out) MUST_CHECK;

/* Which NUMA nodes the platform's devices are on, of hosts with the property "numa" (imported
 * machines), in runs of devices; nothing where there is none. STATUS_IO, STATUS_NOMEM. */
enum status topology_print_numa(const char *path, FILE *out) MUST_CHECK;

/* The tree of what joins its devices (partition/tiers.h) as .svg, .png or .pdf, and its table. */
struct plot_style;
enum status topology_draw(const struct topology *t, const struct plot_style *style,
                          const char *output, const struct provenance *by) MUST_CHECK;

/* Bandwidths from row to column in bytes per second, tab-separated, "-" on the diagonal; the first
 * line names the columns. STATUS_INVALID above TOPOLOGY_MATRIX devices. */
enum { TOPOLOGY_MATRIX = 4096 };
enum status topology_write_matrix(const struct topology *t, const char *path,
                                  const struct provenance *by) MUST_CHECK;

#endif
