/* Strategy files: whatever is accepted is a strategy of the model, which is written as it was
 * read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "papers/hidup/models.h"
#include "papers/hidup/strategy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status read(const char *text, size_t length, const struct spmd_graph *g,
                        struct arena *memory, struct spmd_strategy *out)
{
    struct json_document d = {0};
    enum status st = json_parse("fuzz", text, length, NULL, 1, &d);
    if (st == STATUS_OK)
        st = spmd_read(&d, g, "tmlp", memory, out);
    json_document_free(&d);
    return st;
}

static void expect(bool right)
{
    if (!right)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct provenance by = {"fuzz", "fuzz", NULL, 1};
    struct spmd_costs c = {spmd_machines[0]->profile, OVERLAP_FULL, false, NULL, NULL};
    struct spmd_graph g = {0};
    struct spmd_strategy s, again;
    struct arena memory = {0};
    struct file_text out = {0};
    c.profile.devices = 8;
    expect(spmd_model("tmlp:layers=1", false, &g) == STATUS_OK);
    if (read((const char *)data, size, &g, &memory, &s) == STATUS_OK) {
        expect(file_text_open(&out) == STATUS_OK);
        spmd_put(&g, &s, &by, out.stream);
        expect(file_text_close(&out, STATUS_OK) == STATUS_OK);
        expect(read(out.text, out.length, &g, &memory, &again) == STATUS_OK);
        expect(spmd_seconds(&c, &g, &s) > 0 &&
               spmd_seconds(&c, &g, &s) == spmd_seconds(&c, &g, &again));
        free(out.text);
    }
    arena_free(&memory);
    spmd_graph_free(&g);
    return 0;
}
