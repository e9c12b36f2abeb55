/* setup_layers.h - where the transformer layers of a model begin, inside this folder. */
#ifndef STUDY_FRAMEWORKS_SETUP_LAYERS_H
#define STUDY_FRAMEWORKS_SETUP_LAYERS_H

#include "core/model.h"

struct setup_layers {
    size_t n;      /* layers: neighbours among the ops whose names begin with the same "h3." */
    size_t *first; /* [n + 1] their first ops, and the op behind the last one; malloc'd */
};
/* Free out->first. A model without such names has none: n is 0. O(ops). STATUS_NOMEM. */
enum status setup_layers(const struct model *m, struct setup_layers *out) MUST_CHECK;

#endif
