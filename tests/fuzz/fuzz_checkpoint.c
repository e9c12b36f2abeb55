/* Head and table of a rank's checkpoint file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint_head head;
    struct checkpoint_array *array;
    uint8_t digest[DIGEST];
    FILE *f = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
    if (!f)
        return 0;
    if (checkpoint_read_head(f, "input", &head, &array, digest) == STATUS_OK)
        free(array);
    fclose(f);
    return 0;
}
