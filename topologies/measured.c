/* The table of importers of measured collectives. */
#include "topologies/measured.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

const struct measured_format *const measured_formats[] = {
#define MACHINE(name)
#define MEASURED(name) &measured_##name,
#include "topologies/importers.def"
#undef MEASURED
#undef MACHINE
};
const size_t measured_formats_n = sizeof measured_formats / sizeof *measured_formats;

enum status measured_hint(const char *operand, struct measured_hint *hint, const char **path)
{
    const char *equals = strchr(operand, '=');
    struct measured_hint h = {0};
    *hint = h;
    *path = operand;
    for (size_t k = 0; equals && k < FABRIC_KINDS; k++) {
        size_t n = strlen(fabric_kind_name[k]);
        if (strncmp(operand, fabric_kind_name[k], n) != 0 ||
            (operand[n] != '=' && operand[n] != ':'))
            continue;
        struct fabric_curve c = {0};
        char id[64];
        if (operand[n] == ':') {
            snprintf(id, sizeof id, "%.*s", (int)(equals - operand), operand);
            PASS(fabric_curve_parse(id, "1B@1s", &c));
            h.members = c.members;
            h.per_node = c.per_node;
            fabric_curve_free(&c);
        }
        h.has_kind = true;
        h.kind = (enum fabric_kind)k;
        *hint = h;
        *path = equals + 1;
    }
    return STATUS_OK;
}

void measured_free(struct measured *m)
{
    for (size_t k = 0; k < m->n; k++)
        fabric_curve_free(&m->curve[k]);
    free(m->curve);
    *m = (struct measured){0};
}
