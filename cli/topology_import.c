/* Measured collectives become curves of a platform. */
#include "cli/topology_import.h"
#include "cli/topology_machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/array.h"
#include "core/file.h"
#include "core/units.h"
#include "study/platform_properties.h"
#include "topologies/measured.h"

/* One file by the first importer that takes it; what the last one says where none does. */
static enum status read_file(const char *operand, struct measured *out)
{
    enum status st;
    struct measured_hint hint;
    const char *path;
    char *text = NULL;
    size_t length;
    TRY(measured_hint(operand, &hint, &path));
    TRY(file_read(path, &text, &length));
    st = STATUS_PARSE;
    for (size_t k = 0; k < measured_formats_n && st == STATUS_PARSE; k++)
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
    fprintf(out, "%s of %u, %u a node: %zu sizes, %s in %s", fabric_kind_name[c->kind], c->members,
            c->per_node, c->n, units_of(UNIT_BYTES, c->bytes[0]).text,
            units_of(UNIT_SECONDS, c->seconds[0]).text);
    fprintf(out, " to %s in %s\n", units_of(UNIT_BYTES, c->bytes[last]).text,
            units_of(UNIT_SECONDS, c->seconds[last]).text);
}

enum status topology_import(const struct invocation *in, int files, char **file)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct platform_property_text *property = NULL;
    size_t n = 0;
    struct measured m = {0};
    if (!a->platform)
        return topology_import_machine(in, files, file);
    if (!a->output)
        return error_set(STATUS_USAGE, "topology import --platform needs --output FILE.xml");
    for (int i = 0; i < files; i++) {
        TRY(read_file(file[i], &m));
        for (size_t k = 0; k < m.n; k++) {
            TRY(ARRAY_ROOM(property, n));
            property[n] = (struct platform_property_text){0};
            TRY(print_property(&m.curve[k], &property[n++]));
            print_curve(&m.curve[k], arguments_prose(a));
        }
        measured_free(&m);
    }
    TRY(platform_write_properties(a->platform, property, n, a->output));
out:
    for (size_t k = 0; k < n; k++) {
        free(property[k].id);
        free(property[k].value);
    }
    free(property);
    measured_free(&m);
    return st;
}
