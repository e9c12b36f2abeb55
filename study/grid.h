/* grid.h - every combination of lists of settings. Points are numbered 0 .. grid_points() - 1, the
 * axis added last varying fastest. */
#ifndef STUDY_GRID_H
#define STUDY_GRID_H

#include <stddef.h>

#include "core/error.h"
#include "study/planning.h"

enum { GRID_AXES = 16, GRID_POINTS = 100000, GRID_NAME = 128 };

struct grid_axis {
    const char *key; /* "platform", or as plan_set() of study/planning.h takes it; borrowed */
    size_t n;
    char **value; /* [n] owned */
};

struct grid {
    size_t axes;
    struct grid_axis axis[GRID_AXES];
};

/* Add an axis of one value, or one value to the axis that was added last when it has this key. */
enum status grid_add(struct grid *g, const char *key, const char *value) MUST_CHECK;
/* Add an axis from "1,2,4". STATUS_USAGE for an empty or a repeated value, and when the grid would
 * have more than GRID_POINTS points. */
enum status grid_add_list(struct grid *g, const char *key, const char *list) MUST_CHECK;
void grid_free(struct grid *g); /* accepts {0}; leaves {0} */

size_t grid_points(const struct grid *g);
const char *grid_value(const struct grid *g, size_t point, size_t axis);
/* Set in *s what the point says; texts are borrowed from the grid. STATUS_USAGE as plan_set(). */
enum status grid_settings(const struct grid *g, size_t point, struct plan_arguments *s) MUST_CHECK;
/* A file name that tells points apart, of the axes that vary: "laptop-s2-1f1b-m8"; "plan" if none
 * does. Distinct when the base names of paths are. */
void grid_name(const struct grid *g, size_t point, char name[GRID_NAME]);

#endif
