/* network_models.h - SimGrid's network models that the engine "simgrid" can be told to use. */
#ifndef SIM_NETWORK_MODELS_H
#define SIM_NETWORK_MODELS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

struct network_model {
    const char *name;    /* "lv08" */
    const char *simgrid; /* "LV08" */
    bool inside;         /* charges latencies itself, with factors of its own */
};

const char *network_model_word(size_t i); /* the name of model i, for lists; NULL behind the last */
/* NULL: the first of them, foreline's own. STATUS_INVALID lists the known names. */
enum status network_model_find(const char *name, const struct network_model **out) MUST_CHECK;

#endif
