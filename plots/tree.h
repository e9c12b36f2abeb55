/* tree.h - a machine as a tree of what joins its devices, outermost on top. */
#ifndef PLOTS_TREE_H
#define PLOTS_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/provenance.h"
#include "plots/style.h"

/* Groups of devices, nested: those of a level are made of whole ones of the level before. */
struct plot_tree_level {
    const char *name; /* what joins the parts of a group: "nvlink" */
    double bandwidth_Bps, latency_s;
    double oversubscription; /* of a group; 0: not known */
    size_t groups;
    const uint32_t *group_of; /* [devices] numbered in the order of their lowest devices */
};

struct plot_tree {
    size_t devices, levels;
    const char *const *device;           /* [devices] names */
    const char *const *type;             /* [devices] names of their types */
    double bisection_Bps;                /* 0: not known; INFINITY: without limit */
    const struct plot_tree_level *level; /* [levels] innermost first; the last has one group */
};

/* A box per group with the bandwidth inside it, lines to its parts with their oversubscription
 * (orange: above 1), devices at the bottom; where there are many parts alike, the first stand for
 * all ("126 more"). Contract as in plot.h. */
enum status plot_tree(const struct plot_tree *tree, const struct plot_style *style,
                      const char *output, const struct provenance *by) MUST_CHECK;

#endif
