/* Arguments of other frameworks: a script, YAML, TOML or Python by the first byte, read as
 * whichever framework recognises it, up to a setup of which all follows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "study/frameworks/setup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status follow(struct keys *k)
{
    struct setup s = {.keys = k};
    struct architecture a;
    const struct dialect *f;
    PASS(dialect_recognise(k, &f));
    PASS(setup_read(&s, f->row, f->rows));
    PASS(f->after(&s));
    if (f->to_plan)
        return STATUS_OK;
    PASS(setup_settle(&s, 0));
    PASS(setup_architecture(&s, &a));
    return s.a.layers <= 1024 ? setup_cut(&s, s.a.layers) : STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"a.sh", "a.yaml", "a.toml", "a.py"};
    const char *const set[] = {"config=f", "A=8"};
    struct keys k = {.set = set, .sets = 2};
    if (size == 0)
        return 0;
    char *text = malloc(size);
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0'; /* as file_read() leaves it */
    if (keys_parse(paths[*data % 4], text, size - 1, &k) == STATUS_OK)
        (void)!follow(&k);
    keys_free(&k);
    free(text);
    return 0;
}
