/* topology_picture.h - a platform as a picture and as a matrix of bandwidths. */
#ifndef STUDY_TOPOLOGY_PICTURE_H
#define STUDY_TOPOLOGY_PICTURE_H

#include "core/provenance.h"
#include "core/topology.h"

/* The tree of what joins its devices (partition/tiers.h) as .svg, .png or .pdf, and its table. */
enum status topology_draw(const struct topology *t, const char *output,
                          const struct provenance *by) MUST_CHECK;

/* Bandwidths from row to column in bytes per second, tab-separated, "-" on the diagonal; the first
 * line names the columns. STATUS_INVALID above TOPOLOGY_MATRIX devices. */
enum { TOPOLOGY_MATRIX = 4096 };
enum status topology_write_matrix(const struct topology *t, const char *path,
                                  const struct provenance *by) MUST_CHECK;

#endif
