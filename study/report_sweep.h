/* report_sweep.h - parts of a page about a sweep. Private to the command. */
#ifndef STUDY_REPORT_SWEEP_H
#define STUDY_REPORT_SWEEP_H

#include "study/report_page.h"
#include "study/sweep.h"

/* Where along the last setting that varies another plan becomes the best, and why: both plans on
 * both sides, by time and memory. Without a change: where the time of the best plans goes. */
enum status report_changes(struct report_page *p, const struct sweep_view *v,
                           const struct sweep_table *best) MUST_CHECK;

#endif
