/* The PipeDream importer: whatever it accepts is a model in topological order with sane numbers. */
#include <stdint.h>
#include <stdlib.h>

#include "papers/common/importers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct import_options o = {.minibatch_size = 4, .device = "V100"};
    const char *text = (const char *)data;
    struct model m = {0};

    importer_pipedream.recognises(text, size);
    if (pipedream_read_model("fuzz", text, size, &o, &m) != STATUS_OK)
        return 0;
    for (size_t i = 0; i < m.n; i++) {
        for (size_t k = m.in_start[i]; k < m.in_start[i + 1]; k++) {
            if (m.in[k] >= i)
                abort();
        }
        if (m.op[i].output_bytes < 0 || m.op[i].parameter_bytes < 0 ||
            !(m.profile[0].forward_s[i] >= 0 && m.profile[0].backward_s[i] >= 0))
            abort();
    }
    model_free(&m);
    return 0;
}
