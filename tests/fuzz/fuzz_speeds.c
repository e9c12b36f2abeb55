/* Matrices of speeds: whatever is accepted is square, and all its numbers can be costs. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "papers/cpsc526/problem.h"
#include "papers/cpsc526/speeds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpsc526_speeds s = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (cpsc526_speeds_parse("fuzz", text, size, &s) == STATUS_OK) {
        if (s.k < 1 || s.k > CPSC526_MAX_PARTS)
            abort();
        for (size_t i = 0; i < s.k * s.k; i++)
            if (!(s.speed[i] >= 0 && isfinite(s.speed[i])))
                abort();
    }
    free(s.speed);
    free(text);
    return 0;
}
