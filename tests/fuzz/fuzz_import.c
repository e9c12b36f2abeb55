/* Every importer, chosen by content, on the same input. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct import_options o = {.minibatch_size = 8, .device = size % 2 ? "V100" : NULL};
    struct model m = {0};
    char path[64];
    int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (model_import(path, &o, &m) == STATUS_OK)
        model_free(&m);
    close(fd);
    return 0;
}
