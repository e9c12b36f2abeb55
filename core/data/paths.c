/* Names of policies, and the text that says how many lanes a bundle has. */
#include "core/data/paths.h"

#include <string.h>

#include "core/base/text.h"

/* A row of text_find()'s. */
struct paths_row {
    const char *name;
    enum paths_policy policy;
};
static const struct paths_row ideal = {"ideal", PATHS_IDEAL}, ecmp = {"ecmp", PATHS_ECMP},
                              spray = {"spray", PATHS_SPRAY},
                              adaptive = {"adaptive", PATHS_ADAPTIVE},
                              valiant = {"valiant", PATHS_VALIANT}, ugal = {"ugal", PATHS_UGAL};
static const struct paths_row *const rows[] = {&ideal, &ecmp, &spray, &adaptive, &valiant, &ugal};
enum { ROWS = sizeof rows / sizeof *rows };

const char *paths_word(size_t i)
{
    return i < ROWS ? rows[i]->name : NULL;
}

enum status paths_find(const char *name, enum paths_policy *out)
{
    const struct paths_row *row;
    PASS(text_find("path policy", name, rows, ROWS, &row));
    *out = row->policy;
    return STATUS_OK;
}

bool paths_parse_lanes(const char *text, uint32_t *lanes, uint32_t *cables)
{
    char switches_text[16];
    const char *x = strchr(text, 'x');
    size_t n = x ? (size_t)(x - text) : strlen(text);
    uint64_t switches, each = 1;
    if (n >= sizeof switches_text)
        return false;
    memcpy(switches_text, text, n);
    switches_text[n] = '\0';
    if (!text_count(switches_text, PATHS_LANES_MAX, &switches) ||
        (x && !text_count(x + 1, PATHS_LANES_MAX, &each)) || switches * each == 0 ||
        switches * each > PATHS_LANES_MAX)
        return false;
    *lanes = (uint32_t)(switches * each);
    *cables = (uint32_t)each;
    return true;
}
