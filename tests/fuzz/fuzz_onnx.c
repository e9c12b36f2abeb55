/* ONNX files from memory; the last byte says what is chosen beside. Whatever is refused has one
 * line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/model.h"
#include "model/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const choices[] = {NULL, ":seq=5", ":batch=3,seq=7,inputs=2", ":x.0=2"};
    struct import_options o = {.minibatch_size = 1};
    struct model m = {0};
    char *copy = malloc(size > 0 ? size : 1); /* so that reading behind its end is seen */
    if (!copy)
        abort();
    memcpy(copy, data, size);
    o.choices = size > 0 ? choices[data[size - 1] % 4] : NULL;
    enum status st = importer_onnx.parse("t", copy, size, &o, &m);
    if (st != STATUS_OK && (!*error_message() || strchr(error_message(), '\n')))
        abort();
    model_free(&m);
    free(copy);
    return 0;
}
