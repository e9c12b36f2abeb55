/* Descriptions of platforms; what is understood is written in one way only. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/generate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *once, *twice;
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (generate_canonical(text, &once) == STATUS_OK) {
        if (generate_canonical(once, &twice) != STATUS_OK || strcmp(once, twice) != 0)
            abort();
        free(twice);
        free(once);
    }
    free(text);
    return 0;
}
