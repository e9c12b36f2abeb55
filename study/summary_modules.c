/* Tables of a captured script: which modules compute, and where its ranks wait. */
#include "study/summary_modules.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"

#define SECONDS(s) (units_of(UNIT_SECONDS, s).text)

enum { MODULES = 16, WAITS = 10, MODULE_COLUMN = 34 };

struct module_row {
    const char *name; /* NULL: the optimizer */
    double seconds[OP_PHASES], sum;
};

static const char *row_name(const struct module_row *row)
{
    return !row->name ? "(optimizer)" : *row->name ? row->name : "(outside of modules)";
}

static int longest_module_first(const void *a, const void *b)
{
    const struct module_row *x = a, *y = b;
    return x->sum != y->sum ? (x->sum > y->sum ? -1 : 1) : strcmp(row_name(x), row_name(y));
}

/* row [m->sites]; *n are used. */
static void modules_sum(const struct measurement *m, struct module_row *row, size_t *n)
{
    for (size_t i = 0; i < m->sites; i++) {
        const struct measured_site *s = &m->site[i];
        const struct module_row own = {.name = s->phase == IN_UPDATE ? NULL : s->module};
        size_t k = 0;
        if (s->kind != OP_COMPUTE)
            continue;
        while (k < *n && strcmp(row_name(&row[k]), row_name(&own)) != 0)
            k++;
        if (k == *n)
            row[(*n)++] = own;
        row[k].seconds[s->phase] += s->seconds;
        row[k].sum += s->seconds;
    }
    if (*n > 1)
        qsort(row, *n, sizeof *row, longest_module_first);
}

static enum status print_compute(const struct measurement *m, FILE *out)
{
    struct module_row *row;
    size_t n = 0;
    PASS(ARRAY_NEW(row, m->sites));
    modules_sum(m, row, &n);
    fprintf(out, "\n%-*s %10s %10s %10s %7s\n", MODULE_COLUMN, "compute by module", "forward",
            "backward", "update", "share");
    for (size_t k = 0; k < n && k < MODULES; k++)
        fprintf(out, "%-*s %10s %10s %10s %6.2f%%\n", MODULE_COLUMN, row_name(&row[k]),
                SECONDS(row[k].seconds[IN_FORWARD]), SECONDS(row[k].seconds[IN_BACKWARD]),
                SECONDS(row[k].seconds[IN_UPDATE]),
                m->iteration_s > 0 ? 100 * row[k].sum / m->iteration_s : 0);
    if (n > MODULES)
        fprintf(out, "... %zu more modules: -o or --json\n", n - MODULES);
    free(row);
    return STATUS_OK;
}

static void print_waits(const struct measurement *m, FILE *out)
{
    size_t n = 0;
    for (size_t k = 0; k < m->sites; k++) {
        const struct measured_site *s = &m->site[k];
        if (s->kind == OP_COMPUTE || !(s->seconds > 0))
            continue;
        if (n++ == 0)
            fprintf(out, "\n%-*s %-8s %-14s %7s %7s %10s %10s %7s\n", MODULE_COLUMN,
                    "exposed communication issued in", "phase", "collective", "members", "calls",
                    "mean size", "exposed", "share");
        if (n <= WAITS)
            fprintf(out, "%-*s %-8s %-14s %7u %7.4g %10s %10s %6.2f%%\n", MODULE_COLUMN,
                    row_name(&(struct module_row){.name = s->module}), op_phase_names[s->phase],
                    measured_kind_name(s->kind), s->members, s->calls,
                    units_of(UNIT_BYTES, s->bytes / s->calls).text, SECONDS(s->seconds),
                    100 * s->seconds / m->iteration_s);
    }
    if (n > WAITS)
        fprintf(out, "... %zu more places: -o or --json\n", n - WAITS);
}

enum status summary_print_modules(const struct measurement *m, FILE *out)
{
    if (m->sites == 0)
        return STATUS_OK;
    PASS(print_compute(m, out));
    print_waits(m, out);
    return STATUS_OK;
}
