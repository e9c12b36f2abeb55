/* The table of simulators, from engines.def. */
#include "sim/engines.h"

#include "core/base/text.h"

const struct engine *const engines[] = {
#define ENGINE(name) &engine_##name,
#include "sim/engines.def"
#undef ENGINE
};
const size_t engines_n = sizeof engines / sizeof *engines;

size_t engines_fluid(void)
{
    size_t k = 0;
    while (k < engines_n && !engines[k]->packets)
        k++;
    return k;
}

const struct engine *engine_quick(void)
{
    size_t k = 0;
    while (!engines[k]->quick)
        k++;
    return engines[k];
}

const struct engine *engine_judge(void)
{
    size_t k = 0;
    while (!engines[k]->judge)
        k++;
    return engines[k];
}

enum status engine_find(const char *name, const struct engine **out)
{
    return text_find("engine", name, engines, engines_n, out);
}
