/* Writes models as PipeDream's graph.txt. */
#include "papers/pipedream/export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "papers/pipedream/pipedream_text.h"

/* Printable ASCII only, as the importer wants it. */
static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

/* Can the format hold these names? */
static enum status pipedream_export_check_names(const struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->op[i].name, *kind = m->op[i].kind;
        size_t length = strlen(kind);
        if (!is_printable(name) || strchr(name, ' ') || !*name || strlen(name) > SLICE_LIMIT)
            return error_set(STATUS_INVALID,
                             "op '%s': expected a node name of 1 to %d printable ASCII characters "
                             "without blanks",
                             name, SLICE_LIMIT);
        if (!is_printable(kind) || strstr(kind, " -- ") || strchr(kind, '(') || length == 0 ||
            length > SLICE_LIMIT || kind[length - 1] == ' ')
            return error_set(STATUS_INVALID, "op '%s': '%s' cannot be a node's type", name, kind);
    }
    return STATUS_OK;
}

/* Does the importer get these seconds from the text? */
static bool gives(const char *text, double seconds)
{
    return strtod(text, NULL) / 1e3 == seconds;
}

/* Milliseconds in as few digits as give back the same seconds. */
static void print_ms(double seconds, char text[64])
{
    double ms = seconds * 1e3;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 64, "%.*g", digits, ms);
        if (gives(text, seconds))
            return;
    }
    for (int up = 0; up < 2; up++) { /* the product was rounded, too */
        snprintf(text, 64, "%.17g", nextafter(ms, up ? INFINITY : 0));
        if (gives(text, seconds))
            return;
    }
    snprintf(text, 64, "%.17g", ms);
}

static void pipedream_export_print_node(const struct model_op *op, const struct model_profile *p,
                                        size_t i, FILE *f)
{
    char forward[64], backward[64];
    int64_t stage = model_attribute(op, "stage", -1);
    print_ms(p->forward_s[i], forward);
    print_ms(p->backward_s[i], backward);
    fprintf(f,
            "%s -- %s -- forward_compute_time=%s, backward_compute_time=%s, "
            "activation_size=%.1f, parameter_size=%" PRId64 ".000",
            op->name, op->kind, forward, backward, (double)op->output_bytes * p->samples,
            op->parameter_bytes);
    if (stage >= 0)
        fprintf(f, " -- stage_id=%" PRId64, stage);
    fputc('\n', f);
}

/* Nodes first, then edges: the importer wants the ends of an edge above it. */
enum status model_export_pipedream(const struct model *m, size_t profile, const char *path)
{
    enum status st;
    struct file_out f = {0};
    if (profile >= m->profiles)
        return error_set(STATUS_INVALID,
                         "%s has %zu profiles, but profile %zu (counted from 0) was requested",
                         m->name, m->profiles, profile);
    TRY(pipedream_export_check_names(m));
    TRY(file_create(path, &f));
    for (size_t i = 0; i < m->n; i++)
        pipedream_export_print_node(&m->op[i], &m->profile[profile], i, f.stream);
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            fprintf(f.stream, "\t%s -- %s\n", m->op[m->in[k]].name, m->op[i].name);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
