/* campaign_shrink.h - how long iterations take when nodes are missing: the plan with fewer
 * replicas, of the same batch, predicted again. */
#ifndef STUDY_CAMPAIGN_SHRINK_H
#define STUDY_CAMPAIGN_SHRINK_H

#include "study/evaluate.h"

struct campaign_shrink {
    const struct plan *plan; /* borrowed, as the rest */
    const struct evaluation_context *on;
    const struct engine *engine;
    double nodes, iteration_s; /* of the whole plan, by the engine */
    uint32_t streams;          /* of its stage that has fewest */
    double *times;             /* [streams + 1] by streams that are left; 0: not known yet; owned */
};

enum status campaign_shrink_open(const struct plan *plan, const struct evaluation_context *on,
                                 const struct engine *engine,
                                 struct campaign_shrink *out) MUST_CHECK;
void campaign_shrink_free(struct campaign_shrink *s); /* accepts {0}; leaves {0} */

/* How many times as long an iteration takes without `lost` nodes, for struct campaign. Streams are
 * in proportion to nodes, rounded down, and fewer if no plan of so many can run; each takes as many
 * microbatches as the batch asks for, so that some may idle. At least 1: a plan that is faster on
 * fewer devices does not make failures a gain. INFINITY: it cannot run, or does not fit into
 * memory. Predicted once for each number of streams. STATUS_NOMEM. */
enum status campaign_shrink_times(void *shrink, uint32_t lost, double *out) MUST_CHECK;

#endif
