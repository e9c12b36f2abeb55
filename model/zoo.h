/* zoo.h - models built from hyper-parameters, with exact parameter counts. */
#ifndef MODEL_ZOO_H
#define MODEL_ZOO_H

#include "core/model.h"

struct zoo_parameter {
    const char *name, *help;
    int64_t value, min, max; /* default and range */
};

struct zoo_entry {
    const char *name, *summary;
    size_t parameters;
    const struct zoo_parameter *parameter; /* [parameters] what may be overridden */
    enum status (*build)(const int64_t *value /* [parameters] */, struct model *out);
};

extern const struct zoo_entry zoo[];
extern const size_t zoo_n;

/* Build from "name" or "name:key=value,key=value". Unknown names and keys are STATUS_INVALID with
 * the known ones listed. */
enum status zoo_build(const char *spec, struct model *out) MUST_CHECK;
/* Does `spec` start with the name of a zoo model? */
bool zoo_has(const char *spec);

#endif
