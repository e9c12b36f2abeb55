/* equal.h - experiments whose platforms cost the same, or have the same bisection: what stands for
 * "equal" in `platform.KEY: equal`.
 *
 *     equal: cost                 # or bisection
 *     prices: prices.yml
 *     cases:
 *       - {name: fat tree, platform: "fat-tree:nodes=64"}                    # says how much
 *       - {name: torus, platform: "torus:x=8,y=8", platform.link: equal}     # follows */
#ifndef STUDY_EQUAL_H
#define STUDY_EQUAL_H

#include <stdio.h>

#include "study/experiment.h"

/* Find those values, and let e->equal say them.
 *
 * The reference of a point has the first choice of every axis in which a choice says `equal`, and
 * the point's own choices otherwise. The value is searched by doubling or halving from 1 (a rate:
 * from 100 Gb/s) and then by bisection, to six digits: the one that comes nearest to the reference
 * without being above it, where cost and bisection rise or fall with it. A line for each platform
 * says how near; `notes` may be NULL. STATUS_PARSE with the line of the file, STATUS_NOMEM. */
enum status equal_settle(struct experiment *e, FILE *notes) MUST_CHECK;

#endif
