/* whole_gradient.h - the gradient of a whole model, one stage in double, against central
 * differences. */
#ifndef TESTS_WHOLE_GRADIENT_H
#define TESTS_WHOLE_GRADIENT_H

#include "exec/device/cpu/stage_parts.h"

enum { WHOLE_MICROBATCHES = 2 };

/* Loss of the microbatches, whose backwards follow or do not. */
double model_loss(struct stage *s, bool backward);
/* A few parameters of every op; takes the model. `step`: the difference. */
void check_whole_model_by(double step, struct model *m);
/* The derivative in drawn directions, each of every directions-th op's parameters: for models of
 * many ops. Takes the model. */
void check_directions(double step, size_t directions, struct model *m);

#endif
