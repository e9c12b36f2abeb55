/* Machines of other programs, of every format that is read here and of the JSON that programs of
 * tools/ answer (those have tests/machine_programs.py): read, completed, put into nodes and written;
 * whatever is refused has one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine m = {0};
    const struct machine_options o = {.gpus = 2};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    const struct machine_source s = {"t", text, strlen(text)};
    const struct machine_format *f = machine_recognise(&s);
    if (f && f->program) {
        free(text);
        return 0;
    }
    enum status st = machine_parse("t", text, strlen(text), &m);
    if (st == STATUS_OK && m.parts < 512 && machine_count(&m, MACHINE_NODE) < 32)
        st = machine_combine(&m, NULL, &o);
    if (st == STATUS_OK && machine_count(&m, MACHINE_NODE) == 0 && m.parts < 1024 &&
        (st = machine_complete(&m, &o)) == STATUS_OK && machine_count(&m, MACHINE_GPU) < 64)
        st = machine_write(&m, NULL, "/dev/null");
    if (st != STATUS_OK &&
        (!*error_message() || (st == STATUS_PARSE && strchr(error_message(), 10))))
        abort();
    machine_free(&m);
    free(text);
    return 0;
}
