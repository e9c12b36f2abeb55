/* timeline.h - what of traces a timeline shows, and how finely. Private.
 *
 * A row of the picture stands for one rank, or for the mean of neighbours where there are more
 * ranks than rows that can be read. Ops are boxes where most of them are wide enough to be told
 * apart; else each column of pixels says which share of its time was spent on what, so that nothing
 * is drawn that is not there. */
#ifndef PLOTS_TIMELINE_H
#define PLOTS_TIMELINE_H

#include "plots/figure.h"
#include "plots/trace_events.h"

enum { TIMELINE_NAME = 160 };

/* A row is one unit high and centred on its index; downwards, as in the y axis. */
static const double timeline_compute_top = -0.42, timeline_compute_bottom = 0.18;
static const double timeline_wire_top = 0.22, timeline_wire_bottom = 0.42;

struct timeline_row {
    size_t first, ranks; /* rows of the traces; 0 ranks: the heading of a trace */
};

/* Ops of compute in sight; narrow ones of a pass that follow each other are one. */
struct timeline_box {
    uint32_t row; /* of the traces */
    uint8_t category;
    bool narrow; /* an op, or several, too narrow for a box of its own */
    int64_t microbatch;
    double start_s, end_s;
};

struct timeline_view {
    const struct trace_events *t;
    double from_s, to_s;
    size_t rows;
    struct timeline_row *row; /* [rows] */
    size_t *row_of;           /* [t->rows] */
    size_t most;              /* ranks of one row at most */
    double step_s;            /* length of a column of shares; 0: ops are boxes */
    size_t boxes;
    struct timeline_box *box; /* [boxes] */
    size_t beside;            /* columns on each side that a share is the mean of, too */
};

/* Which rows there are, and whether ops can be boxes in axes of so many pixels. STATUS_NOMEM. */
enum status timeline_arrange(struct timeline_view *v, int pixels) MUST_CHECK;
void timeline_view_free(struct timeline_view *v); /* accepts {0} */
/* "rank 3 n0g3", "ranks 0–7", "predicted". */
const char *timeline_row_name(const struct timeline_view *v, size_t row, char text[TIMELINE_NAME]);

extern const char *const timeline_category_names[TRACE_CATEGORIES];
/* Colour of a category without regard to the microbatch. */
const char *timeline_colour(int category);
/* Is it drawn in the lower lane, of messages and copies? */
static inline bool timeline_is_wire(int category)
{
    return category <= TRACE_COMMUNICATION;
}

/* share[(row * columns + column) * TRACE_CATEGORIES + category], 0 to 1: of its time, mean over the
 * row's ranks. What overlaps within a category counts once; categories of compute together are at
 * most 1. */
struct timeline_shares {
    size_t columns;
    double *share;
};
enum status timeline_gather(const struct timeline_view *v,
                            struct timeline_shares *out) MUST_CHECK; /* STATUS_NOMEM */
/* A line for every row and column. */
void timeline_put_shares(FILE *table, const struct timeline_view *v,
                         const struct timeline_shares *s);
/* gnuplot's data, and the elements of "plot" that draw them, each behind a comma. */
void timeline_put_areas(FILE *script, const struct timeline_view *v,
                        const struct timeline_shares *s, double per_s);
void timeline_plot_areas(FILE *script);

#endif
