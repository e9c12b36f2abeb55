/* zoo.h - models built from hyper-parameters, with exact parameter counts. A model is a line of
 * zoo.def and a `struct zoo_entry zoo_NAME` in one of the files model/zoo_*.c.
 *
 * build() finds the hyper-parameters in the order of the entry's rows, each within the range of its
 * row; what only makes sense together (heads dividing hidden) it checks itself: STATUS_INVALID. */
#ifndef MODEL_ZOO_H
#define MODEL_ZOO_H

#include "core/data/model.h"

struct architecture;
struct architecture_choice;

struct zoo_parameter {
    const char *name, *help;
    int64_t value, min, max;  /* default and range */
    const char *const *names; /* words for the values from 0 to max, instead of numbers; or NULL */
};

/* The row of a model's type of numbers, DATA_ANY: as the model's file says. Its old names stay:
 * bits=32 and bits=16, in plans written before there were more. */
#define ZOO_DTYPE(usual)                                                                           \
    {                                                                                              \
        "dtype", "data type of tensors and matmuls: fp32, tf32, fp16, bf16, fp8, fp4", (usual),    \
            DATA_fp32, DATA_fp4, data_type_names                                                   \
    }

/* The row of the slots that experts of a transformer have, where it has experts. */
enum { ZOO_CAPACITY = 10000 };
#define ZOO_SLOTS                                                                                  \
    {                                                                                              \
        "capacity", "capacity of an expert, in % of its equal share; 0: no limit", 0, 0,           \
            ZOO_CAPACITY                                                                           \
    }

struct zoo_entry {
    const char *name, *summary;
    size_t parameters;
    const struct zoo_parameter *parameter; /* [parameters] what may be overridden */
    enum status (*build)(const int64_t *value /* [parameters] */, struct model *out);
    /* The architecture that it builds; NULL: none that struct architecture can say. */
    enum status (*describe)(const int64_t *value, struct architecture *a,
                            struct architecture_choice *c);
};

#define ZOO(name) extern const struct zoo_entry zoo_##name;
#include "model/zoo.def"
#undef ZOO
extern const struct zoo_entry *const zoo[]; /* [zoo_n] */
extern const size_t zoo_n;

/* Build from "name" or "name:key=value,key=value". Unknown names and keys are STATUS_INVALID with
 * the known ones listed. */
enum status zoo_build(const char *spec, struct model *out) MUST_CHECK;
/* Values of the entry's parameters: the defaults, and what `text`, "" or ":key=value,...", says.
 * value [e->parameters]. STATUS_INVALID. */
enum status zoo_read_values(const struct zoo_entry *e, const char *text, int64_t *value) MUST_CHECK;
/* What "name:key=value" stands for. STATUS_UNSUPPORTED: a model without an architecture. */
enum status zoo_describe(const char *spec, struct architecture *a,
                         struct architecture_choice *c) MUST_CHECK;
/* Does `spec` start with the name of a zoo model? */
bool zoo_has(const char *spec);

#endif
