/* What is known of a device's kernels as a line of words, "bf16=792Tf fp8=1402Tf memory=0.88": the
 * property `kernels` of a platform's hosts (docs/reference/topologies.md). */
#include "core/data/kernel_text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"

struct kernel_word {
    const char *name; /* first: text_find() */
    size_t offset;
    enum unit unit; /* of those with one */
    double least, most;
    bool bare; /* a number without a unit */
};

#define AT(member) offsetof(struct device_kernels, member)
static const struct kernel_word words[] = {
    {"fp32", AT(product[DATA_fp32]), UNIT_FLOPS, 0, 1e30, false},
    {"tf32", AT(product[DATA_tf32]), UNIT_FLOPS, 0, 1e30, false},
    {"bf16", AT(product[DATA_bf16]), UNIT_FLOPS, 0, 1e30, false}, /* and fp16 */
    {"fp8", AT(product[DATA_fp8]), UNIT_FLOPS, 0, 1e30, false},
    {"fp4", AT(product[DATA_fp4]), UNIT_FLOPS, 0, 1e30, false},
    {"rows", AT(rows), UNIT_FLOP, 0, 1e9, true},
    {"depth", AT(depth), UNIT_FLOP, 0, 1e9, true},
    {"memory", AT(memory), UNIT_FLOP, 1e-3, 1, true},
    {"shortest", AT(shortest_s), UNIT_SECONDS, 0, 1, false},
    {"flash1", AT(flash[FLASH_1]), UNIT_FLOP, 1e-3, 1, true},
    {"flash2", AT(flash[FLASH_2]), UNIT_FLOP, 1e-3, 1, true},
    {"flash3", AT(flash[FLASH_VENDOR]), UNIT_FLOP, 1e-3, 1, true},
    {"flash_backward", AT(flash_backward), UNIT_FLOP, 1e-3, 1, true},
    {"flash_tokens", AT(flash_tokens), UNIT_FLOP, 0, 1e9, true},
    {"flash_narrow", AT(flash_narrow), UNIT_FLOP, 0, 2, true}, /* from here on: 0 is not written */
    {"units", AT(units), UNIT_FLOP, 0, 1e6, true},
    {"wave", AT(wave), UNIT_FLOP, 0, 1, true},
    {"pace", AT(pace_s), UNIT_SECONDS, 0, 1, false},
    {"cache", AT(cache), UNIT_FLOP, 0, 1e12, true},
};
#undef AT
enum { WORDS = sizeof words / sizeof *words };

bool kernels_known(const struct device_kernels *k)
{
    return k->memory > 0;
}

/* One word of n characters. */
static enum status read_word(const char *text, size_t n, struct device_kernels *k)
{
    char word[TEXT_PAIR];
    const char *said = text_pair(text, n, word);
    const struct kernel_word *rows[WORDS], *found;
    double value;
    if (!said)
        return error_set(STATUS_PARSE, "got '%s', expected NAME=VALUE such as memory=0.88", word);
    for (size_t i = 0; i < WORDS; i++)
        rows[i] = &words[i];
    PASS(text_find("kernel constant", word, rows, WORDS, &found));
    if (!found->bare)
        PASS(units_parse(found->unit, said, &value));
    else if (!text_real(said, &value))
        return error_set(STATUS_PARSE, "%s: got '%.40s', expected a number", word, said);
    if (!(value >= found->least && value <= found->most))
        return error_set(STATUS_PARSE, "%s: got %s, expected %g to %g", word, said, found->least,
                         found->most);
    memcpy((char *)k + found->offset, &value, sizeof value);
    return STATUS_OK;
}

enum status kernels_read(const char *text, struct device_kernels *k)
{
    struct device_kernels read = *k;
    for (size_t n; text += strspn(text, " \t\r\n"), (n = strcspn(text, " \t\r\n")) > 0; text += n)
        PASS(read_word(text, n, &read));
    read.product[DATA_fp16] = read.product[DATA_bf16];
    if (!kernels_known(&read) || read.flash_backward <= 0 || read.flash[FLASH_1] <= 0 ||
        read.flash[FLASH_2] <= 0 || read.flash[FLASH_VENDOR] <= 0)
        return error_set(STATUS_PARSE,
                         "the device has no peak FLOP/s to derive constants from; give all of "
                         "'memory', 'flash1', 'flash2', 'flash3' and 'flash_backward'");
    *k = read;
    return STATUS_OK;
}

void kernels_put(const struct device_kernels *k, FILE *to)
{
    for (size_t i = 0; i < WORDS; i++) {
        double value;
        memcpy(&value, (const char *)k + words[i].offset, sizeof value);
        if (value == 0 && words[i].offset >= offsetof(struct device_kernels, flash_narrow))
            continue;
        const char *unit = words[i].bare ? "" : words[i].unit == UNIT_SECONDS ? "s" : "f";
        fprintf(to, "%s%s=%.9g%s", i ? " " : "", words[i].name, value, unit);
    }
}
