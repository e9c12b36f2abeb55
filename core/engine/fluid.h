/* fluid.h - a program on fair shares of its links: when everything starts and ends.
 *
 * A replay (replay.h) whose flows share links (sharing.h). Messages and collectives that share no
 * link that could be full (flows.h: alone) take their closed form; the others start and end on a
 * clock. For a folded program this is also the proof that folding is right, by induction over the
 * moments at which something starts or ends: if all copies have done the same so far, all flows of
 * a slot are under way now; and while their rates are equal, which is checked whenever rates
 * change, they end at the same moment, too. */
#ifndef CORE_ENGINE_FLUID_H
#define CORE_ENGINE_FLUID_H

#include "core/data/measurement.h"
#include "core/engine/flows.h"

/* Collectives that are alone get their times from here (shapes->..transfer_s), too.
 *
 *   flows     of p; folded: slots whose flows would not be equally fast are divided, and all is run
 *             again, until there are none
 *   finer     as in flows_make()
 *   timeline  out: of all ops
 *   messages  out: transfers made
 * O(ops), besides what sharing.h takes for each start and end, and that as often as slots are
 * divided. STATUS_UNSUPPORTED: "not symmetric: ..."; STATUS_NOMEM. */
enum status fluid_run(const struct program *p, const struct topology *t, struct shapes *shapes,
                      struct flows *flows, struct plan_classes *finer, struct timeline *timeline,
                      size_t *messages) MUST_CHECK;

#endif
