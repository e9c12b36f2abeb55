/* The table of simulators, from engines.def, and what they all return. */
#include "sim/engine.h"

#include <stdlib.h>

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

void simulation_free(struct simulation *s)
{
    for (size_t k = 0; s->link && k < s->links; k++)
        free(s->link[k].name);
    free(s->link);
    timeline_free(&s->timeline);
    *s = (struct simulation){0};
}
