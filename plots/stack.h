/* stack.h - horizontal bars, made of parts or in groups, with a legend above. Private. */
#ifndef PLOTS_STACK_H
#define PLOTS_STACK_H

#include "core/base/provenance.h"
#include "plots/figure.h"

enum { STACK_NAME = 160, STACK_VALUE = 48, STACK_PARTS = 14 };

struct stack {
    size_t bars, parts;
    char (*name)[STACK_NAME];    /* [bars] as long as they are; the picture shortens them */
    char (*heading)[STACK_NAME]; /* [bars] above the bar, "" for none */
    bool *joined; /* [bars] stands in one group with the bar above, whose name it has */
    char (*value)[STACK_VALUE];     /* [bars] written behind each bar */
    const struct figure_key *part;  /* [parts] */
    double *length;                 /* [bars * parts] in the axis's unit, >= 0 */
    double *limit;                  /* [bars] a mark on the bar's row, NAN for none; NULL: none */
    const char *limit_name;         /* for the legend */
    const char *label;              /* of the axis, with unit */
    const struct plot_style *style; /* NULL: none */
    double *low, *high;             /* [bars] ends of an error bar on the axis, NAN for none */
    const char *note;               /* as of struct figure_geometry */
    double end;                     /* of the axis; 0: the longest bar or mark */
    bool every_part;                /* parts that are 0 in all bars are in the legend, too */
    bool shares;                    /* write each part's share of its bar where it fits */
};

/* Arrays for so many bars and at most STACK_PARTS parts, zeroed. STATUS_NOMEM. */
enum status stack_init(struct stack *s, size_t bars, size_t parts) MUST_CHECK;
void stack_free(struct stack *s); /* accepts {0}; leaves {0} */

/* Open the figure, let `table` (with its context) fill the table, draw. Parts that are 0 in all
 * bars are not in the legend. */
enum status stack_draw(const struct stack *s, const char *output, const struct provenance *by,
                       void (*table)(const void *context, FILE *to),
                       const void *context) MUST_CHECK;

#endif
