/* Words of what was fitted, and what they change of a device type. */
#include "core/data/fitted.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "core/data/topology.h"

const struct fitted_row fitted_rows[FITTED_ROWS] = {
#define FITTED(name, ...)      {#name, __VA_ARGS__},
#define FITTED_LINK(name, ...) {#name, __VA_ARGS__},
#include "core/data/fitted.def"
#undef FITTED
#undef FITTED_LINK
};

/* One word of n characters. */
static enum status fitted_read_word(const char *text, size_t n, double times[FITTED_DEVICE])
{
    char word[TEXT_PAIR];
    const char *said = text_pair(text, n, word);
    const struct fitted_row *rows[FITTED_DEVICE], *found;
    double value;
    if (!said)
        return error_set(STATUS_PARSE, "got '%s', expected NAME=FACTOR such as products=0.93",
                         word);
    for (size_t i = 0; i < FITTED_DEVICE; i++)
        rows[i] = &fitted_rows[i];
    PASS(text_find("fitted constant", word, rows, FITTED_DEVICE, &found));
    if (!text_real(said, &value) || !(value >= 1e-6 && value <= 1e6))
        return error_set(STATUS_PARSE, "%s: got '%.40s', expected a number above 0", word, said);
    times[found - fitted_rows] = value;
    return STATUS_OK;
}

enum status fitted_read(const char *text, double times[FITTED_DEVICE])
{
    for (size_t n; text += strspn(text, " \t\r\n"), (n = strcspn(text, " \t\r\n")) > 0; text += n)
        PASS(fitted_read_word(text, n, times));
    return STATUS_OK;
}

void fitted_put(const double times[FITTED_DEVICE], FILE *to)
{
    const char *before = "";
    for (size_t i = 0; i < FITTED_DEVICE; i++)
        if (times[i] > 0 && fabs(times[i] - 1) > 1e-9) {
            fprintf(to, "%s%s=%.9g", before, fitted_rows[i].name, times[i]);
            before = " ";
        }
}

void fitted_apply(const double times[FITTED_DEVICE], struct device_type *type)
{
    double products = fitted_times(times[FITTED_products]),
           attention = fitted_times(times[FITTED_attention]);
    double host = fitted_times(times[FITTED_host]),
           beside = fitted_times(times[FITTED_interference]);
    type->flops *= products;
    for (size_t i = 0; i < DATA_TYPES; i++)
        type->kernels.product[i] *= products;
    for (size_t i = 0; i < FLASH_KINDS; i++)
        type->kernels.flash[i] *= attention;
    for (size_t k = 0; k < type->rates; k++)
        for (size_t i = 0; i < type->rate[k].n; i++)
            type->rate[k].flops[i] *= products;
    type->memory_Bps *= fitted_times(times[FITTED_memory]);
    type->launch_s *= host;
    type->slowdown *= beside;
    type->fitted = (struct device_fitted){.host = host,
                                          .interference = beside,
                                          .start = fitted_times(times[FITTED_start]),
                                          .hop = fitted_times(times[FITTED_hop])};
}
