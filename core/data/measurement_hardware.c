/* What a run was made on, in one line. */
#include <stdio.h>
#include <string.h>

#include "core/data/measurement.h"

/* Add to the line, as far as it has room. */
static void hardware_add_name(char text[MEASURED_HARDWARE], const char *before, const char *what,
                              const char *value)
{
    size_t n = strlen(text);
    if (value)
        snprintf(text + n, MEASURED_HARDWARE - n, "%s%s%s", n > 0 ? before : "", what, value);
}

/* Is GPU i the first of its name? Then *same is how many have it. */
static bool hardware_is_first(const struct measurement *m, size_t i, size_t *same)
{
    *same = 0;
    for (size_t k = 0; k < m->gpus; k++) {
        bool alike = strcmp(m->gpu[k].name, m->gpu[i].name) == 0;
        if (alike && k < i)
            return false;
        *same += alike;
    }
    return true;
}

const char *measurement_hardware(const struct measurement *m, char text[MEASURED_HARDWARE])
{
    const struct measured_software *s = &m->software;
    size_t same;
    *text = '\0';
    for (size_t i = 0; i < m->gpus; i++) {
        char count[32];
        if (!hardware_is_first(m, i, &same))
            continue;
        snprintf(count, sizeof count, "%zu x ", same);
        hardware_add_name(text, ", ", count, m->gpu[i].name);
    }
    hardware_add_name(text, "; ", "driver ", s->driver);
    hardware_add_name(text, s->driver ? ", " : "; ", "CUDA ", s->cuda);
    hardware_add_name(text, ", ", "cuBLAS ", s->cublas);
    hardware_add_name(text, ", ", "NCCL ", s->nccl);
    hardware_add_name(text, "; ", "", s->settings);
    return text;
}
