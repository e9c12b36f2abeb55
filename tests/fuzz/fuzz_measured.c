/* What was measured elsewhere: tables of kernels, what nccl-tests prints, and curves as properties,
 * which are written as they are read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lab/kernels/kernel_rows.h"
#include "topologies/measured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_table(const char *text)
{
    struct kernel_rows rows = {0};
    if (kernel_rows_parse("t.csv", text, DATA_fp32, &rows) == STATUS_OK)
        for (size_t i = 0; i < rows.n; i++)
            if (rows.row[i].gpu >= gpus_n || !(rows.row[i].seconds > 0))
                abort();
    kernel_rows_free(&rows);
}

static void read_curves(const char *text)
{
    for (size_t k = 0; k < measured_formats_n; k++) {
        const struct measured_hint hint = {0}, known = {true, FABRIC_SEND, 16, 8};
        struct measured m = {0};
        if (measured_formats[k]->parse("t", text, &hint, &m) == STATUS_OK)
            measured_free(&m);
        if (measured_formats[k]->parse("t", text, &known, &m) == STATUS_OK)
            measured_free(&m);
    }
}

/* "id=value" */
static void read_property(char *text)
{
    struct fabric_curve c = {0}, again = {0};
    struct fabric_model m;
    char *equals = strchr(text, '='), *written;
    size_t length;
    if (fabric_model_parse(text, &m) == STATUS_OK &&
        (!(m.nic > 0) || (m.share > 0 && !(m.share >= 1e-6))))
        abort();
    if (!equals)
        return;
    *equals = '\0';
    if (fabric_curve_parse(text, equals + 1, &c) != STATUS_OK)
        return;
    FILE *to = open_memstream(&written, &length);
    if (!to)
        abort();
    fabric_curve_put(to, &c);
    fclose(to);
    if (fabric_curve_parse(text, written, &again) != STATUS_OK || again.n != c.n)
        abort();
    free(written);
    fabric_curve_free(&c);
    fabric_curve_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    read_table(text);
    read_curves(text);
    read_property(text);
    free(text);
    return 0;
}
