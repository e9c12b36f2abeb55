/* How far parts of a node are from each other in its PCIe. */
#include "topologies/machine/machine.h"

enum { HOPS = 64 };

/* The way from a part to the top, itself included. */
static size_t machine_path_to_root(const struct machine *m, uint32_t part, uint32_t way[HOPS])
{
    size_t n = 0;
    for (; part != MACHINE_NONE && n < HOPS; part = m->part[part].up)
        way[n++] = part;
    return n;
}

size_t machine_distance(const struct machine *m, uint32_t x, uint32_t y, size_t *a, size_t *b)
{
    uint32_t wx[HOPS], wy[HOPS];
    size_t nx = machine_path_to_root(m, x, wx), ny = machine_path_to_root(m, y, wy);
    size_t i = nx, j = ny;
    while (i > 0 && j > 0 && wx[i - 1] == wy[j - 1])
        i--, j--;
    *a = i;
    *b = j;
    return i + j + (i == nx ? 1000 : 0);
}
