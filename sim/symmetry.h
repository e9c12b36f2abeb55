/* symmetry.h - flows that get equal shares of a network, proved: an equitable partition.
 *
 * Flows are divided into cells and links into classes so that all flows of a cell have one bound and
 * cross equally many links of each class, and all links of a class have one capacity and are crossed
 * by equally many flows of each cell. If then all flows of a cell fly whenever one does, the max-min
 * fair rates are equal within a cell: progressive filling (sim/sharing.h) raises all rates alike and
 * finds all links of a class full at the same level. So one flow may stand for its cell, on one link
 * for each class, from which it takes as many times its rate as flows of its cell cross each link.
 *
 * Source: colour refinement; Grohe, Kersting, Mladenov & Selman, Dimension reduction via colour
 * refinement, ESA 2014, where equitable partitions are shown to reduce linear programs. */
#ifndef SIM_SYMMETRY_H
#define SIM_SYMMETRY_H

#include "sim/sharing.h"

struct symmetry {
    uint32_t *cell;  /* [flows of the whole] */
    uint32_t *class; /* [links of the whole] UINT32_MAX where no flow passes */
    size_t cells, classes;
    struct sharing_network quotient; /* of cells and classes; borrows what follows */
    size_t *start;                   /* [cells + 1] */
    uint32_t *link;
    double *weight;
    double *bound_Bps;    /* [cells] */
    double *capacity_Bps; /* [classes] */
};

/* The coarsest such partition in which flows of different colour are in different cells; cells and
 * classes are numbered by their first flow and link. Colours are refined by hashing, and the result
 * is checked without: hashes that meet can only make the check fail.
 *   colour  [whole->flows]
 * O(rounds * incidences); as many rounds as refining takes, few on trees.
 * STATUS_UNSUPPORTED: hashes met, so nothing is proved; STATUS_NOMEM. */
enum status symmetry_find(const struct sharing_network *whole, const uint64_t *colour,
                          struct symmetry *out) MUST_CHECK;
void symmetry_free(struct symmetry *s); /* accepts {0}; leaves {0} */

#endif
