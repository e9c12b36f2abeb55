/* Published runs of any format, and of every row that is not left out its platform, its setup and
 * its model, if that is small. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/strategy/constants.h"
#include "lab/scoreboard/published.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void follow(const struct published_config *c)
{
    char text[PUBLISHED_PLATFORM];
    struct keys k = {.path = "the row", .format = KEYS_TREE};
    struct setup s = {.keys = &k};
    struct model m = {0};
    const struct constants shipped = constants_shipped();
    published_framework(c, &shipped, text);
    if (published_platform(c, text) == STATUS_OK && published_setup(c, &s) == STATUS_OK &&
        c->layers <= 8 && published_model(c, &s, &m) == STATUS_OK)
        (void)!setup_cut(&s, s.a.layers);
    model_free(&m);
    keys_free(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct published p = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0'; /* as file_read() leaves it */
    if (published_parse("a.json", text, size, &p) == STATUS_OK)
        for (size_t i = 0; i < p.rows; i++)
            if (!p.row[i].left_out)
                follow(&p.row[i].config);
    published_free(&p);
    free(text);
    return 0;
}
