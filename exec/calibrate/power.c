/* Clocks of a GPU at work, and what it draws. */
#include "core/base/clock.h"
#include "exec/calibrate/probe.h"

static const double power_s = 1.1; /* NVML's mean is of a second */

/* A GPU is asked while it has been at work for as long as the mean that it tells is of. */
enum status bench_power(struct bench *b)
{
    enum status st = STATUS_OK;
    struct bed *bed = NULL;
    double figure[3] = {0}, ignored_s;
    const struct probe *p = bench_heaviest(b->task);
    if (!b->watch->power || !p || !b->watch->power(b, figure))
        return STATUS_OK;
    TRY(bed_open(b, p, &bed));
    for (size_t k = 0; k < b->repeats; k++) {
        for (double end_s = clock_now() + power_s; clock_now() < end_s;)
            TRY(bed_pass(b, bed, &ignored_s));
        if (b->watch->power(b, figure))
            for (size_t i = 0; i < 3; i++)
                calls_of(b, 2 * b->task->probes + FIGURE_CLOCK + i, b->rank)[k] = figure[i];
    }
out:
    bed_close(bed);
    return st;
}
