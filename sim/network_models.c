/* The table of SimGrid's network models: the default, which adds nothing, first. */
#include "sim/network_models.h"

#include "core/base/text.h"

static const struct network_model models[] = {
    {"cm02", "CM02", false}, /* bytes over the fair share, and latencies on arrival */
    {"lv08", "LV08", true},  /* TCP: 0.97 of the bandwidth, 13.01 latencies, a window of 4 MiB */
    {"smpi", "SMPI", true},  /* MPI: factors by the size of the message */
};
enum { ROWS = sizeof models / sizeof *models };

const char *network_model_word(size_t i)
{
    return i < ROWS ? models[i].name : NULL;
}

enum status network_model_find(const char *name, const struct network_model **out)
{
    const struct network_model *rows[ROWS];
    for (size_t k = 0; k < ROWS; k++)
        rows[k] = &models[k];
    *out = models;
    return name ? text_find("network model", name, rows, ROWS, out) : STATUS_OK;
}
