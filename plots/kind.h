/* kind.h - the kinds of pictures: one file and one line of kinds.def for each. */
#ifndef PLOTS_KIND_H
#define PLOTS_KIND_H

#include <stdbool.h>

#include "core/base/provenance.h"
#include "core/data/measurement.h"
#include "plots/plot.h"
#include "plots/style.h"
#include "plots/table.h"

enum plot_input {
    PLOT_TRACES,       /* one Chrome trace (core/data/trace.h) or more */
    PLOT_MEASUREMENT,  /* one measurement */
    PLOT_MEASUREMENTS, /* one or more */
    PLOT_TABLE,        /* one table (table.h) */
    PLOT_MODEL,        /* one model with a profile, which the caller has made a table of (layer,
                        * forward_s, backward_s, activation_bytes, parameter_bytes) */
    PLOT_GRAPH,        /* one model, or a plan with its model, which the caller has made a table of
                        * (op, layer, stage, inputs) */
};

/* What to draw; of m and table only what the kind's input asks for is there. */
struct plot_source {
    size_t n;
    const char *const *path;     /* [n] the files */
    const struct measurement *m; /* [n] */
    const struct plot_table *table;
    /* columns of a table; NULL: chosen from what is there, and no facets */
    const char *x, *y, *by, *value, *facet;
    struct timeline_window window; /* of traces */
    struct plot_style style;
    const char *rows; /* which rows of a table there are: "only engine=simgrid"; NULL, "": all */
};

/* What a picture of a table says below it: which rows, then what its values are made of. */
enum { PLOT_NOTE = 512 };
const char *plot_note(const struct plot_source *source, const char *values, char text[PLOT_NOTE]);

/* Times of ranks and links of a run are of one of its steps, the middle one, or of an even number
 * the faster of the middle two: the how manyth that is, from 1. 0 of predictions and of a single
 * step. */
size_t plot_step(const struct measurement *m);
/* In words: "step 3 of 4: 290.4 ms; their median is 362.6 ms", "" where plot_step() is 0. */
const char *plot_step_note(const struct measurement *m, char text[PLOT_NOTE]);

struct plot_kind {
    const char *name, *summary;
    enum plot_input input;
    unsigned styles; /* of STYLE_ */
    bool has_value;  /* of a table: its `value` is the colour, and nothing is drawn `by` lines */
    /* Contract as in plot.h; STATUS_INVALID also when a column is missing or nothing can be drawn.
     */
    enum status (*draw)(const struct plot_source *source, const char *output,
                        const struct provenance *by);
};

#define PLOT_KIND(name) extern const struct plot_kind plot_##name##_kind;
#include "plots/kinds.def"
#undef PLOT_KIND
extern const struct plot_kind *const plot_kinds[]; /* [plot_kinds_n] */
extern const size_t plot_kinds_n;

/* The row of that name. STATUS_INVALID lists the names. */
enum status plot_kind_find(const char *name, const struct plot_kind **out) MUST_CHECK;

/* What is drawn unless that is said, the first that is there: samples_per_s, ... */
extern const char *const plot_rates[];
/* What lines stand for unless that is said, the first that varies: "plan", "algorithm", ... */
extern const char *const plot_line_columns[];
/* Not what x is; cases are x unless that is said (x NULL: it is not). */
bool plot_can_be_line(const char *name, const char *x);

/* Read the files that a kind asks for and draw them; `where` (NULL: all) keeps rows of a table as
 * table_filter() does. Unless `where` asks for them, rows whose `status` is another than ok are
 * left out when some are ok; and rows of another `engine` than the first's, unless columns stand
 * for engines. --by and --facet may name several columns, "A,B".
 * n >= 1, else, for too many files, and for a style that the kind does not obey
 * STATUS_USAGE. */
struct plot_request {
    const char *const *path; /* [n] */
    size_t n;
    struct plot_table *table; /* what path[0] has, filtered here; NULL: read it */
    const char *x, *y, *by, *value, *where;
    struct timeline_window window;
    struct plot_wishes look;
};
enum status plot_files(const struct plot_kind *kind, const struct plot_request *request,
                       const char *output, const struct provenance *by) MUST_CHECK;

/* Column of a table that is wanted by name, or the first of `candidates` (NULL-terminated) that is
 * there; SIZE_MAX in *out when none is and `needed` is false. STATUS_INVALID. */
enum status plot_column(const struct plot_table *t, const char *wanted,
                        const char *const *candidates, bool needed, size_t *out) MUST_CHECK;

#endif
