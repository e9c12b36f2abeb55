#include "sim/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct engine *const engines[] = {&engine_analytic, &engine_simgrid};
const size_t engines_n = sizeof engines / sizeof *engines;

enum status engine_find(const char *name, const struct engine **out)
{
    char known[256] = "";
    for (size_t i = 0; i < engines_n; i++) {
        if (!strcmp(engines[i]->name, name)) {
            *out = engines[i];
            return STATUS_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", engines[i]->name);
    }
    return error_set(STATUS_INVALID, "no engine is called '%.60s'; there are %s", name, known);
}

void simulation_free(struct simulation *s)
{
    for (size_t k = 0; s->link && k < s->links; k++)
        free(s->link[k].name);
    free(s->link);
    timeline_free(&s->timeline);
    *s = (struct simulation){0};
}
