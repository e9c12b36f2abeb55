/* Measured collectives become curves of a platform. */
#include "cli/topology_import.h"
#include "cli/topology_machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/data/topology.h"
#include "sim/platform/platform.h"
#include "study/load.h"
#include "study/platform_properties.h"
#include "topologies/measured.h"

/* One file by the first importer that recognises it. */
static enum status topology_import_read_file(const char *operand, struct measured *out)
{
    enum status st;
    struct measured_hint hint;
    const char *path;
    char *text = NULL;
    size_t length;
    TRY(measured_hint(operand, &hint, &path));
    TRY(file_read_most(path, MOST_MACHINE, &text, &length));
    size_t k = 0;
    while (k + 1 < measured_formats_n && !measured_formats[k]->recognises(text))
        k++;
    st = measured_formats[k]->parse(path, text, &hint, out);
out:
    free(text);
    return st;
}

/* A property's id and value, owned. */
static enum status print_property(const struct fabric_curve *c, struct platform_property_text *out)
{
    char *id = NULL, *value = NULL;
    size_t length;
    FILE *to = open_memstream(&id, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    fputs("curve:", to);
    fabric_curve_put_name(to, c);
    fclose(to);
    if (id && (to = open_memstream(&value, &length))) {
        fabric_curve_put(to, c);
        fclose(to);
    }
    *out = (struct platform_property_text){id, value};
    return id && value ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

static void print_curve(const struct fabric_curve *c, FILE *out)
{
    size_t last = c->n - 1;
    uint32_t nodes = c->members / c->per_node;
    fprintf(out, "%s of %u devices on %u node%s: %zu size%s, %s in %s", fabric_kind_name[c->kind],
            c->members, nodes, nodes == 1 ? "" : "s", c->n, c->n == 1 ? "" : "s",
            units_of(UNIT_BYTES, c->bytes[0]).text, units_of(UNIT_SECONDS, c->seconds[0]).text);
    fprintf(out, " to %s in %s\n", units_of(UNIT_BYTES, c->bytes[last]).text,
            units_of(UNIT_SECONDS, c->seconds[last]).text);
}

static void print_left(const char *path, const char *what, size_t n, FILE *out)
{
    if (n > 0)
        fprintf(out, "%s: ignored %zu %s%s\n", path, n, what, n == 1 ? "" : "s");
}

/* Nothing of a file is dropped without a word. */
static void topology_import_print_losses(const char *path, const struct measured *m, FILE *out)
{
    print_left(path, "row of 0 bytes", m->empty > 1 ? 0 : m->empty, out);
    print_left(path, "rows of 0 byte", m->empty > 1 ? m->empty : 0, out);
    print_left(path, "row of 0.00 us", m->timeless > 1 ? 0 : m->timeless, out);
    if (m->timeless > 1)
        fprintf(out, "%s: ignored %zu rows of 0.00 us\n", path, m->timeless);
    if (m->repeated > 0)
        fprintf(out, "%s: ignored %zu rows whose size is not above the one before\n", path,
                m->repeated);
    if (m->elided > 0)
        fprintf(out, "%s: the file leaves out sizes ('...')\n", path);
    print_left(path, "table", m->tables, out);
}

/* Curves of more members than there are devices never count. */
static enum status check_members(const struct topology *t, const char *path,
                                 const struct fabric_curve *c)
{
    if (c->members <= t->n)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "%s: %s was measured on %u devices, but the platform has only %zu", path,
                     fabric_kind_name[c->kind], c->members, t->n);
}

static bool topology_import_is_same(const struct fabric_curve *a, const struct fabric_curve *b)
{
    return a->kind == b->kind && a->members == b->members && a->per_node == b->per_node;
}

/* The curves of one file behind those of the files before. */
static enum status take_file(const struct arguments *a, const struct topology *t,
                             const char *operand, struct measured *all)
{
    enum status st;
    const char *path;
    struct measured_hint hint;
    struct measured m = {0};
    TRY(topology_import_read_file(operand, &m));
    TRY(measured_hint(operand, &hint, &path));
    for (size_t k = 0; k < m.n; k++) {
        TRY(check_members(t, path, &m.curve[k]));
        for (size_t i = 0; i < all->n; i++)
            if (topology_import_is_same(&m.curve[k], &all->curve[i]))
                FAIL(STATUS_INVALID,
                     "%s: %s on %u devices (%u per node) was already read from another table; give "
                     "it once",
                     path, fabric_kind_name[m.curve[k].kind], m.curve[k].members,
                     m.curve[k].per_node);
        TRY(ARRAY_ROOM(all->curve, all->n));
        print_curve(&m.curve[k], arguments_prose(a));
        MOVE(&all->curve[all->n++], m.curve[k]);
    }
    topology_import_print_losses(path, &m, arguments_prose(a));
out:
    measured_free(&m);
    return st;
}

enum status topology_import(const struct invocation *in, int files, char **file)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct platform_property_text *property = NULL;
    size_t n = 0;
    char *path = NULL;
    struct topology t = {0};
    struct measured m = {0};
    struct measured_hint hint;
    const char *table;
    for (int i = 0; !a->platform && i < files; i++) {
        PASS(measured_hint(file[i], &hint, &table));
        if (hint.has_kind)
            return error_set(
                STATUS_USAGE,
                "%s: measured collectives need --platform P, the platform to add them to", file[i]);
    }
    if (!a->platform)
        return topology_import_machine(in, files, file);
    if (!a->output)
        return error_set(STATUS_USAGE, "'topology import --platform' needs -o FILE.xml");
    if (files == 0)
        return error_set(STATUS_USAGE,
                         "'topology import --platform' needs a FILE of measured collectives");
    TRY(load_platform(a->platform, &path));
    TRY(platform_read(path, &t));
    for (int i = 0; i < files; i++)
        TRY(take_file(a, &t, file[i], &m));
    for (size_t k = 0; k < m.n; k++) {
        TRY(ARRAY_ROOM(property, n));
        property[n] = (struct platform_property_text){0};
        TRY(print_property(&m.curve[k], &property[n++]));
    }
    TRY(platform_write_properties(a->platform, property, n, a->output));
out:
    for (size_t k = 0; k < n; k++) {
        free(property[k].id);
        free(property[k].value);
    }
    free(property);
    free(path);
    topology_free(&t);
    measured_free(&m);
    return st;
}
