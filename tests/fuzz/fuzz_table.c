/* Tables of pictures, from memory. */
#include "plots/table.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct plot_table t = {0};
    if (table_parse("fuzz.tsv", (const char *)data, size, &t) == STATUS_OK &&
        table_filter(&t, "a=1") == STATUS_OK && t.rows == 0)
        __builtin_trap();
    table_free(&t);
    return 0;
}
