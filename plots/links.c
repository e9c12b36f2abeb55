/* How busy the busiest links are. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "plots/kind.h"
#include "plots/stack.h"

enum { SHOWN = 20 };

static void links_plot_put_table(const void *context, FILE *to)
{
    const struct measurement *m = context;
    fprintf(to, "# link\tbytes\tbusy_fraction\n");
    for (size_t i = 0; i < m->links; i++) {
        figure_put_field(to, m->link[i].name);
        fprintf(to, "\t%.9g\t%.6g\n", m->link[i].bytes, m->link[i].busy_fraction);
    }
}

static int by_busy(const void *a, const void *b)
{
    const struct measured_link *x = *(const struct measured_link *const *)a,
                               *y = *(const struct measured_link *const *)b;
    if (x->busy_fraction < y->busy_fraction || x->busy_fraction > y->busy_fraction)
        return x->busy_fraction > y->busy_fraction ? -1 : 1;
    return x < y ? -1 : x > y;
}

static enum status draw_links(const struct plot_source *s, const char *output,
                              const struct provenance *by)
{
    enum status st;
    static const struct figure_key part = {"busy", "#0072B2", 0, 0};
    const struct measurement *m = &s->m[0];
    const struct measured_link **link = NULL;
    struct stack k = {0};
    char label[96], note[PLOT_NOTE];
    size_t n = m->links < SHOWN ? m->links : SHOWN;
    if (n == 0)
        return error_set(
            STATUS_INVALID,
            "%s lists no links; write it with simulate -o on a platform that has links",
            s->path[0]);
    PASS(ARRAY_NEW(link, m->links));
    for (size_t i = 0; i < m->links; i++)
        link[i] = &m->link[i];
    qsort(link, m->links, sizeof *link, by_busy);
    TRY(stack_init(&k, n, 1));
    for (size_t i = 0; i < n; i++) {
        char bytes[UNITS_TEXT];
        k.length[i] = 100 * fmax(link[i]->busy_fraction, 0);
        k.end = fmax(k.end, k.length[i]);
        text_shorten(style_shown(&s->style, link[i]->name), SIZE_MAX, k.name[i], STACK_NAME);
        snprintf(k.value[i], STACK_VALUE, "%.3g %%, %s", k.length[i],
                 units_print(UNIT_BYTES, link[i]->bytes, bytes));
    }
    k.end = k.end > 50 ? fmax(k.end, 100) : k.end;
    if (n < m->links)
        snprintf(label, sizeof label, "busy (%% of the iteration), the %zu busiest of %zu links", n,
                 m->links);
    else
        snprintf(label, sizeof label, "busy (%% of the iteration)");
    k.part = &part;
    k.label = label;
    k.style = &s->style;
    k.note = plot_step_note(m, note);
    TRY(stack_draw(&k, output, by, links_plot_put_table, m));
out:
    free(link);
    stack_free(&k);
    return st;
}

const struct plot_kind plot_links_kind = {
    .name = "links",
    .summary = "utilisation of the busiest links",
    .input = PLOT_MEASUREMENT,
    .styles = STYLE_XLABEL | STYLE_SIZE,
    .draw = draw_links,
};
