/* The table of simulators, from engines.def, and what they all return. */
#include "sim/engine.h"

#include <stdlib.h>

#include "core/array.h"
#include "core/text.h"

const struct engine *const engines[] = {
#define ENGINE(name) &engine_##name,
#include "sim/engines.def"
#undef ENGINE
};
const size_t engines_n = sizeof engines / sizeof *engines;

enum status engine_find(const char *name, const struct engine **out)
{
    return text_find("engine", name, engines, engines_n, out);
}

enum status simulation_add_links(const struct topology *t, const double *bytes, double iteration_s,
                                 struct simulation *out)
{
    size_t n = 0;
    for (size_t l = 0; l < t->links; l++)
        n += bytes[l] > 0;
    PASS(ARRAY_NEW(out->link, n));
    for (size_t l = 0; l < t->links; l++) {
        struct measured_link *link = &out->link[out->links];
        double Bps = t->link[l].bandwidth_Bps;
        if (bytes[l] <= 0)
            continue;
        PASS(text_copy(t->link[l].name, &link->name));
        link->bytes = bytes[l];
        link->busy_fraction = iteration_s > 0 ? bytes[l] / Bps / iteration_s : 0;
        out->links++;
    }
    return STATUS_OK;
}

void simulation_free(struct simulation *s)
{
    for (size_t k = 0; s->link && k < s->links; k++)
        free(s->link[k].name);
    free(s->link);
    timeline_free(&s->timeline);
    *s = (struct simulation){0};
}
