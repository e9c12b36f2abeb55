/* labels.h - where labels go so that they hide neither points nor each other. Private. */
#ifndef PLOTS_LABELS_H
#define PLOTS_LABELS_H

#include <stdbool.h>
#include <stddef.h>

struct label {
    double point_x, point_y; /* what it names, pixels */
    double width, height;    /* of its text, pixels */
    bool left;               /* better to the left of its point than to the right */
    double x, y;             /* out: middle of its left edge, pixels */
    bool placed;             /* out: false when there is no room for it */
};

/* Place label[n] one after the other next to their points, inside [0, width] x [0, height]: the
 * first free one of eight directions at growing distance. `obstacle` [obstacles] x and y of other
 * points. O(n (n + obstacles)). */
void labels_place(struct label *label, size_t n, const double (*obstacle)[2], size_t obstacles,
                  double width, double height);

#endif
