/* emulate_pattern.h - patterns of flows, made for real on an emulated network. */
#ifndef STUDY_EMULATE_PATTERN_H
#define STUDY_EMULATE_PATTERN_H

#include "sim/pattern.h"

/* A TCP connection for each pair, opened before the start; rank r is in the node of device r.
 *   platform  path of the file that `t` was read from
 *   dilation  as in struct netns_options
 *   end_s     [p->n] out: when each flow's last byte was received, undilated, from the common start
 * STATUS_UNSUPPORTED when there are no emulated networks here; STATUS_EXTERNAL when a connection
 * fails or all takes too long. */
enum status emulate_pattern(const struct pattern *p, const struct topology *t, const char *platform,
                            double dilation, double *end_s) MUST_CHECK;

#endif
