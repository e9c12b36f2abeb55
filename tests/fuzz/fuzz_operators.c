/* Operators of plans and programs: whatever is accepted is in order, and written as it was read. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/data/operators.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status read(const char *text, size_t length, struct operators *out)
{
    struct json_document d = {0};
    enum status st = json_parse("fuzz", text, length, NULL, 1, &d);
    if (st == STATUS_OK) {
        struct json_at root = json_root(&d);
        st = operators_get(&root, out);
    }
    json_document_free(&d);
    return st;
}

static void expect(bool right)
{
    if (!right)
        abort();
}

static void put(const struct operators *o, struct file_text *out)
{
    expect(file_text_open(out) == STATUS_OK);
    struct json_writer w = {.stream = out->stream};
    json_open_object(&w, NULL, false);
    operators_put(&w, o);
    json_close(&w);
    expect(file_text_close(out, STATUS_OK) == STATUS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct operators o = {0}, again = {0};
    struct file_text first = {0}, second = {0};
    if (read((const char *)data, size, &o) != STATUS_OK || o.nodes == 0) {
        operators_free(&o);
        return 0;
    }
    expect(operators_check(&o) == STATUS_OK);
    put(&o, &first);
    expect(read(first.text, first.length, &again) == STATUS_OK);
    put(&again, &second);
    expect(first.length == second.length && !memcmp(first.text, second.text, first.length));
    free(first.text);
    free(second.text);
    operators_free(&o);
    operators_free(&again);
    return 0;
}
