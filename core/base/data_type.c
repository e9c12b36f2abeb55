/* The table of types of numbers. */
#include "core/base/data_type.h"

const char *const data_type_names[DATA_TYPES] = {
    "",
#define DATA_TYPE(name, kept, operand, peak) #name,
#include "core/base/data_types.def"
#undef DATA_TYPE
};

const char *const data_type_peaks[DATA_TYPES] = {
    "",
#define DATA_TYPE(name, kept, operand, peak) peak,
#include "core/base/data_types.def"
#undef DATA_TYPE
};

static const int64_t bytes[DATA_TYPES][2] = {
    {0, 0},
#define DATA_TYPE(name, kept, operand, peak) {kept, operand},
#include "core/base/data_types.def"
#undef DATA_TYPE
};

int64_t data_type_bytes(enum data_type t)
{
    return bytes[t][0];
}

int64_t data_type_operand(enum data_type t)
{
    return bytes[t][1];
}

enum data_type data_type_beside(enum data_type t)
{
    return data_type_narrow(t) ? DATA_bf16 : t;
}
