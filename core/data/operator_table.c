/* The table of operators, and looking them up by name. */
#include "core/data/operator_table.h"

#include <string.h>

const struct operator_row operator_table[OPERATORS] = {
    [OPERATOR_UNREAD] = {"", 0},
    [OPERATOR_UNKNOWN] = {"", 0},
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) [OPERATOR_##name] = {#name, traits},
#include "core/data/operator_table.def"
#undef OPERATOR
};

enum operator_type operator_find(const char *name)
{
    for (int k = OPERATOR_UNKNOWN + 1; name && k < OPERATORS; k++)
        if (*operator_table[k].name == *name && strcmp(operator_table[k].name, name) == 0)
            return (enum operator_type)k;
    return OPERATOR_UNKNOWN;
}
