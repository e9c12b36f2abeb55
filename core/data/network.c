/* Networks as planners see them. */
#include "core/data/network.h"

#include <stdlib.h>

void network_free(struct network *n)
{
    for (size_t i = 0; i < n->vertices; i++)
        free(n->name[i]);
    for (size_t i = 0; i < n->links; i++)
        free(n->link[i].name);
    free(n->name);
    free(n->device);
    free(n->link);
    free(n->next);
    free(n->detour);
    *n = (struct network){0};
}
