/* bench overlap - a matrix product beside a copy of memory. */
#include <stdio.h>

#include "cli/bench.h"
#include "core/base/units.h"
#include "exec/calibrate/overlap.h"

enum { ROWS = 768 };

enum status bench_overlap(struct invocation *in)
{
    struct overlap o = {0};
    PASS(arguments_check(&in->a, TAKES(BENCH_OVERLAP)));
    PASS(overlap_measure(ROWS, in->a.run.repeats, &o));
    printf("# mean of %zu after a warm-up\n", in->a.run.repeats);
    printf("product     %s, %zu x %zu x %zu\n", units_of(UNIT_SECONDS, o.product_s).text, o.rows,
           o.rows, o.rows);
    printf("copy        %s, %zu times ", units_of(UNIT_SECONDS, o.copy_s).text, o.copies);
    printf("%s\n", units_of(UNIT_BYTES, (double)o.copy_bytes).text);
    printf("sequential  %s\n", units_of(UNIT_SECONDS, o.sequential_s).text);
    printf("overlapped  %s\n", units_of(UNIT_SECONDS, o.overlapped_s).text);
    printf("ratio       %.3f of the sequential time (product alone %.3f)\n",
           o.overlapped_s / o.sequential_s, o.product_s / o.sequential_s);
    return STATUS_OK;
}
