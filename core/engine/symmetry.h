/* symmetry.h - flows that may have equal rates, and what must be looked at to know that they have.
 *
 * Flows are divided into cells by what is known of them; all flows of a cell have one bound. Links
 * of one capacity that are crossed by equally many flows of each cell are a class, and flows of a
 * cell whose links are of the same classes are a kind. Suppose that all flows of a cell fly
 * whenever one does. The quotient has one flow for each cell, which crosses one link of every class
 * that any flow of its cell crosses and takes from it as many times its rate as flows of the cell
 * cross such a link. Its max-min fair rates, given to all flows of each cell, are those of the
 * whole network if and only if every kind of each cell that is not at its bound crosses a class on
 * which the quotient stops the cell: then no link has more than its capacity, and every flow is at
 * its bound or on a full link that no faster flow crosses, which is what max-min fair means
 * (Bertsekas & Gallager, Data Networks, 2nd ed., 6.5.2). sharing.h looks at this whenever it finds
 * rates. Kinds that are not stopped would be faster: they get cells of their own, and all is looked
 * at again.
 *
 * A partition of one kind in each cell is equitable and needs no look. Splitting by kinds is colour
 * refinement (Grohe, Kersting, Mladenov & Selman, Dimension reduction via colour refinement, ESA
 * 2014), here only as far as the flows that do meet ask for: a tree, whose equitable partition is
 * hardly coarser than itself, has few rates. */
#ifndef CORE_ENGINE_SYMMETRY_H
#define CORE_ENGINE_SYMMETRY_H

#include "core/engine/sharing.h"

struct symmetry {
    uint32_t *cell; /* [flows of the whole] */
    uint32_t *kind; /* [flows of the whole] those of one cell have numbers side by side */
    size_t cells, classes, kinds;
    struct sharing_network quotient; /* of cells and classes; borrows what follows */
    size_t *start;                   /* [cells + 1] */
    uint32_t *link;
    double *weight;
    double *bound_Bps;    /* [cells] */
    double *capacity_Bps; /* [classes] */
    size_t *kind_start;   /* [cells + 1] kinds of a cell */
    size_t *class_start;  /* [kinds + 1] into class_of */
    uint32_t *class_of;   /* the classes that a kind crosses, ascending */
};

/* Flows of equal colour and bound are a cell; cells and classes are numbered by their first flow
 * and link. Classes and kinds are told apart by hashing, and the result is checked without: hashes
 * that meet can only make the check fail.
 *   colour  [whole->flows]
 * O(incidences). STATUS_UNSUPPORTED: hashes met, so nothing is proved; STATUS_NOMEM. */
enum status symmetry_find(const struct sharing_network *whole, const uint64_t *colour,
                          struct symmetry *out) MUST_CHECK;
void symmetry_free(struct symmetry *s); /* accepts {0}; leaves {0} */

#endif
