/* Names of collectives, and bytes on the wire over bytes of the call. */
#include "core/data/collective_kind.h"

const char *const collective_kind_name[COLLECTIVE_KINDS] = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
    "broadcast",  "reduce",     "gather",         "scatter"};

double collective_bus_factor(enum collective_kind kind, size_t n)
{
    double others = (double)(n - 1) / (double)n;
    if (n == 1 || kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE)
        return 1;
    return kind == COLLECTIVE_ALLREDUCE ? 2 * others : others;
}
